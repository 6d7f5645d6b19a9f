//! Sends numbered batches of events until they are stored.

use crate::call::{Caller, Refused};
use contract::ingest::BatchReceived;
use domain::SandboxId;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

#[derive(Debug, Clone, Serialize)]
pub struct EventIn {
    pub event_id: String,
    /// `agent.tool_use`.
    pub event_type: String,
    pub event_data: Value,
    /// `agent`, `worker`, `user`, `guardian` or `system`.
    pub source: String,
    /// When it happened, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emitted_at: Option<String>,
}

/// Sends the events of one epoch.
#[derive(Debug)]
pub struct EventSender {
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

impl EventSender {
    /// A sender for one sandbox of a plane (`http://127.0.0.1:18000`). Each attempt times out after `deadline` and is
    /// retried.
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

    /// Sends one batch and retries until it is stored. The batch number makes retries idempotent. A refused batch does
    /// not use up its number.
    pub async fn send(&mut self, events: &[EventIn]) -> Result<BatchReceived, Refused> {
        let batch = Batch { epoch: self.epoch, batch: self.batch + 1, events };
        let response =
            self.caller.request_with_retries(self.deadline, |http| http.post(&self.url).json(&batch)).await?;
        self.batch += 1;
        Ok(response)
    }
}
