//! Taking an agent's messages, and confirming them.

use crate::call::{Caller, Refused};
use contract::messages::{Acknowledged, Pulled};
use domain::message::State;
use domain::{MessageId, SandboxId};
use serde::Serialize;
use std::time::Duration;

/// A sandbox's messages, as its worker takes them. The same message may come twice: its id tells.
#[derive(Debug, Clone)]
pub struct Inbox {
    caller: Caller,
    deadline: Duration,
    url: String,
    /// How to take them.
    pub pull: Pull,
}

/// How messages are taken.
#[derive(Debug, Clone, Copy)]
pub struct Pull {
    /// For how long the plane waits if there are none, in seconds, at most 20.
    pub wait_secs: u64,
    /// How many come at a time, at most 10.
    pub most: usize,
    /// After how many seconds a message comes back that was not confirmed.
    pub hidden_secs: u64,
}

/// What a worker says of a message.
#[derive(Debug, Clone, Serialize)]
pub struct ReceiptIn {
    /// Which.
    pub message_id: MessageId,
    /// How far it has come.
    pub state: State,
    /// A remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Serialize)]
struct Receipts<'a> {
    receipts: &'a [ReceiptIn],
}

impl Inbox {
    /// Of a sandbox at a plane. A request without an answer is repeated after `deadline`, and one that waits so much
    /// later.
    pub fn new(
        plane: &str,
        sandbox: &SandboxId,
        token: Option<String>,
        pull: Pull,
        deadline: Duration,
    ) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/messages");
        Self { caller: Caller::new(token), deadline, url, pull }
    }

    /// The next messages, or none if none came while the plane waited.
    pub async fn next(&self) -> Result<Pulled, Refused> {
        let Pull { wait_secs, most, hidden_secs } = self.pull;
        let url = format!("{}?ack=manual&wait={wait_secs}&max={most}&visibility={hidden_secs}", self.url);
        let deadline = self.deadline + Duration::from_secs(wait_secs);
        self.caller.ask(deadline, |http| http.get(&url)).await
    }

    /// Says how far messages have come, again and again until the plane knows.
    pub async fn acknowledge(&self, receipts: &[ReceiptIn]) -> Result<Acknowledged, Refused> {
        let url = format!("{}/ack", self.url);
        self.caller.ask(self.deadline, |http| http.post(&url).json(&Receipts { receipts })).await
    }
}
