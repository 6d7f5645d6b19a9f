//! Events about a message to an agent, emitted by the plane: one type per state of the message.

use crate::MessageId;
use crate::message::{MessageType, Sender};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How soon a message is delivered, as OmoiOS names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessagePriority {
    Normal,
    /// Before the other messages.
    High,
}

/// The same fields as the event of OmoiOS, and in addition the sender and the full text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
// `contract::messages::MessageQueued` is the response to a message.
#[schemars(rename = "MessageQueuedPayload")]
pub struct MessageQueued {
    pub message_id: MessageId,
    pub message_type: MessageType,
    pub content: String,
    pub priority: MessagePriority,
    pub sender: Sender,
    /// Present if the message was sent again: 2, 3, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The caller that sent it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}

/// A worker has pulled the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageFetched {
    pub message_id: MessageId,
    /// How often it was pulled.
    pub delivery: u32,
}

/// The message was pulled too often without an acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageUndeliverable {
    pub message_id: MessageId,
    pub detail: String,
    /// How often it was pulled.
    pub deliveries: u32,
}

/// The worker has passed the message to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageDelivered {
    pub message_id: MessageId,
    /// A remark of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// No receipt will follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<bool>,
}

/// The agent works on the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageStarted {
    pub message_id: MessageId,
    /// A remark of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The agent has completed the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCompleted {
    pub message_id: MessageId,
    /// A remark of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The agent will not work on the message, or has stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCancelled {
    pub message_id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The caller that cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
}
