//! Saying something to an agent.

use crate::call::{Caller, Refused};
use contract::messages::MessageQueued;
use domain::message::MessageType;
use domain::{MessageId, SandboxId};
use serde::Serialize;
use std::time::Duration;

/// A message on its way to the plane.
#[derive(Debug, Clone, Serialize)]
pub struct MessageIn {
    /// The sender's name for it: a repeat with the same one is the same message.
    pub message_id: MessageId,
    /// What it is meant to do.
    pub message_type: MessageType,
    /// Its text.
    pub content: String,
}

/// Sends messages to one agent.
#[derive(Debug, Clone)]
pub struct Messenger {
    caller: Caller,
    deadline: Duration,
    url: String,
}

impl Messenger {
    /// For a sandbox at a plane. A request without an answer after `deadline` is repeated.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/messages");
        Self { caller: Caller::new(token), deadline, url }
    }

    /// Sends one message, again and again until it is stored: whatever happens on the way, it is sent once.
    pub async fn send(&self, message: &MessageIn) -> Result<MessageQueued, Refused> {
        self.caller.ask(self.deadline, |http| http.post(&self.url).json(message)).await
    }
}
