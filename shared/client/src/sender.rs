//! Sending numbered batches until they are stored.

use crate::backoff;
use contract::ingest::BatchReceived;
use contract::problem::Problem;
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

/// Why a batch will never be stored as it is.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The plane refuses it, and would again.
    #[error("the plane refused the batch: {} {}", .0.status, .0.detail)]
    Refused(Box<Problem>),
}

/// Sends the events of one run of a worker.
#[derive(Debug)]
pub struct Sender {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
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
        let http = reqwest::Client::builder().timeout(deadline).build().unwrap_or_default();
        Self { http, url: format!("{plane}/api/v1/sandboxes/{sandbox}/events"), token, epoch, batch: 0 }
    }

    /// Sends one batch, again and again until it is stored: whatever happens on the way, it is stored once.
    pub async fn send(&mut self, events: &[EventIn]) -> Result<BatchReceived, SendError> {
        let batch = Batch { epoch: self.epoch, batch: self.batch + 1, events };
        let mut attempt = 0;
        loop {
            match self.attempt(&batch).await {
                Attempt::Stored(answer) => {
                    self.batch += 1;
                    return Ok(answer);
                }
                // The number is still free: nothing was stored under it.
                Attempt::Refused(problem) => return Err(SendError::Refused(problem)),
                Attempt::Again(wait) => {
                    tokio::time::sleep(wait.unwrap_or_else(|| backoff::wait(attempt))).await;
                    attempt += 1;
                }
            }
        }
    }

    async fn attempt(&self, batch: &Batch<'_>) -> Attempt {
        let mut request = self.http.post(&self.url).json(batch);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let Ok(response) = request.send().await else { return Attempt::Again(None) };
        let status = response.status().as_u16();
        let wait = response.headers().get("retry-after").and_then(|secs| secs.to_str().ok()?.parse().ok());
        let Ok(body) = response.bytes().await else { return Attempt::Again(None) };
        match status {
            200 => match serde_json::from_slice(&body) {
                Ok(answer) => Attempt::Stored(answer),
                // Not the plane's answer: something on the way made it up.
                Err(_) => Attempt::Again(None),
            },
            429 => Attempt::Again(wait.map(Duration::from_secs)),
            408 | 500..=599 => Attempt::Again(None),
            _ => match serde_json::from_slice(&body) {
                Ok(problem) => Attempt::Refused(problem),
                Err(_) => Attempt::Again(None),
            },
        }
    }
}

enum Attempt {
    Stored(BatchReceived),
    Refused(Box<Problem>),
    /// After so long, if the plane said how long.
    Again(Option<Duration>),
}
