//! Sends messages to an agent.

use crate::call::{Caller, Refused};
use contract::messages::MessageQueued;
use domain::message::MessageType;
use domain::{MessageId, SandboxId};
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Clone, Serialize)]
pub struct MessageIn {
    /// Idempotency key: a retry with the same id is the same message.
    pub message_id: MessageId,
    pub message_type: MessageType,
    pub content: String,
}

/// Sends messages to the agent of one sandbox.
#[derive(Debug, Clone)]
pub struct Messenger {
    caller: Caller,
    deadline: Duration,
    url: String,
}

impl Messenger {
    /// Each attempt times out after `deadline` and is retried.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/messages");
        Self { caller: Caller::new(token), deadline, url }
    }

    /// Sends one message and retries until it is stored. The message id makes retries idempotent.
    pub async fn send(&self, message: &MessageIn) -> Result<MessageQueued, Refused> {
        self.caller.request_with_retries(self.deadline, |http| http.post(&self.url).json(message)).await
    }
}
