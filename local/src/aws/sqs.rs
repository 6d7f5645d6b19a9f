//! The queue of jobs, in memory: what waits in it is about sockets, and they die with the process too.

use super::connector::{Reply, refused};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;

/// Messages whose time has come.
pub type Messages = mpsc::UnboundedReceiver<String>;

#[derive(Debug)]
pub(super) struct Sqs {
    messages: mpsc::UnboundedSender<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendMessage {
    message_body: String,
    #[serde(default)]
    delay_seconds: u64,
}

impl Sqs {
    pub(super) fn new() -> (Self, Messages) {
        let (messages, receiver) = mpsc::unbounded_channel();
        (Self { messages }, receiver)
    }

    pub(super) fn call(&self, operation: &str, body: &[u8]) -> Reply {
        match operation {
            "SendMessage" => match serde_json::from_slice(body) {
                Ok(message) => self.send(message),
                Err(error) => refused(&error.to_string()),
            },
            _ => refused(&format!("{operation} is not something that this plane uses")),
        }
    }

    fn send(&self, message: SendMessage) -> Reply {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(message.delay_seconds)).await;
            // The receiver is gone only when the process ends.
            let _ended = messages.send(message.message_body);
        });
        let body = json!({"MessageId": app::ids::request()});
        Reply { status: 200, body: body.to_string().into_bytes() }
    }
}
