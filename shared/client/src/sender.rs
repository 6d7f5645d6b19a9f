//! Sending numbered batches until they are stored.

use crate::call::{Caller, Refused};
use contract::ingest::BatchReceived;
use domain::SandboxId;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// An event on its way to the plane.
#[derive(Debug, Clone, Serialize)]
pub struct EventIn {
    /// The sender's name for it.
    pub event_id: String,
    /// `agent.tool_use`.
    pub event_type: String,
    /// What it says.
    pub event_data: Value,
    /// `agent`, `worker`, `user`, `guardian` or `system`.
    pub source: String,
    /// When it happened, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emitted_at: Option<String>,
}

/// Sends the events of one run of a worker.
#[derive(Debug)]
pub struct Sender {
    caller: Caller,
    deadline: Duration,
    url: String,
    epoch: u64,
    batch: u64,
}

#[derive(Serialize)]
struct Batch<'a> {
    epoch: u64,
    batch: u64,
    events: &'a [EventIn],
}

impl Sender {
    /// For a sandbox at a plane (`http://127.0.0.1:18000`). A request without an answer after `deadline` is
    /// repeated.
    pub fn new(
        plane: &str,
        sandbox: &SandboxId,
        token: Option<String>,
        epoch: u64,
        deadline: Duration,
    ) -> Self {
        let url = format!("{plane}/api/v1/sandboxes/{sandbox}/events");
        Self { caller: Caller::new(token), deadline, url, epoch, batch: 0 }
    }

    /// Sends one batch, again and again until it is stored: whatever happens on the way, it is stored once. The number
    /// of one that was refused is still free.
    pub async fn send(&mut self, events: &[EventIn]) -> Result<BatchReceived, Refused> {
        let batch = Batch { epoch: self.epoch, batch: self.batch + 1, events };
        let answer = self.caller.ask(self.deadline, |http| http.post(&self.url).json(&batch)).await?;
        self.batch += 1;
        Ok(answer)
    }
}
