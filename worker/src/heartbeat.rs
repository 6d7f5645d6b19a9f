//! Heartbeats: sent from startup, while the agent works, and immediately when its status changes.
//!
//! A late heartbeat is worthless, so none is stored: a failed one is retried once and then dropped.

use crate::clock;
use crate::outbox::Outbox;
use crate::proc::resident_bytes;
use client::{Attempt, EventIn, SandboxApi};
use contract::limits::MAX_HEARTBEAT_BYTES;
use contract::payloads::{self, AgentHeartbeat, Payload};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// State of the agent as reported by heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentState {
    pub status: Status,
    /// Number of model requests.
    pub turns: u64,
    pub cost_usd: f64,
    /// Counts progress reports of long-running tools.
    pub progress: u64,
    /// Memory of the agent and its child processes.
    pub agent_memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// The workspace is being prepared, or the agent is starting.
    #[default]
    Starting,
    Working,
    /// Idle, waiting for a message.
    Waiting,
    Stopping,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
        }
    }
}

/// Sends heartbeats until the sender of `state` is dropped.
pub async fn run(
    api: SandboxApi,
    outbox: Outbox,
    mut state: watch::Receiver<AgentState>,
    interval: Duration,
) {
    let (started, mut reported_progress) = (Instant::now(), 0);
    loop {
        let current = *state.borrow_and_update();
        let event = heartbeat(&outbox, current, current.progress > reported_progress, started.elapsed());
        let next = Instant::now() + interval;
        let mut delivered = matches!(api.event(&event, REQUEST_TIMEOUT).await, Attempt::Answered(_));
        if !delivered {
            sleep(RETRY_DELAY).await;
            delivered = matches!(api.event(&event, REQUEST_TIMEOUT).await, Attempt::Answered(_));
        }
        match delivered {
            true => reported_progress = current.progress,
            false => tracing::debug!("Heartbeat was not delivered"),
        }
        // Counters change constantly; only a status change is worth an early heartbeat.
        let changed = state.wait_for(|state| state.status != current.status);
        if let Ok(Err(_)) = tokio::time::timeout_at(next, changed).await {
            return;
        }
    }
}

fn heartbeat(outbox: &Outbox, state: AgentState, progressed: bool, uptime: Duration) -> EventIn {
    let outbox = outbox.status();
    let data = AgentHeartbeat {
        status: state.status.as_str().to_owned(),
        event_count: outbox.emitted,
        waiting_events: outbox.waiting_events,
        spool_bytes: outbox.bytes,
        turns: state.turns,
        total_cost_usd: state.cost_usd,
        memory_bytes: resident_bytes(std::process::id()),
        uptime_seconds: uptime.as_secs(),
        worker_version: env!("CARGO_PKG_VERSION").to_owned(),
        // The plane counts this as activity. A long-running tool without output shows no other.
        progressed: progressed.then_some(true),
        agent_memory_bytes: state.agent_memory_bytes,
        oldest_waiting_seconds: outbox.oldest_age.map(|age| age.as_secs()),
        dropped_events: (outbox.dropped > 0).then_some(outbox.dropped),
        last_error: outbox.last_error.map(str::to_owned),
    };
    let data = Value::Object(payloads::fields_of(&data));
    debug_assert!(data.to_string().len() <= MAX_HEARTBEAT_BYTES);
    EventIn {
        event_id: Uuid::now_v7().to_string(),
        event_type: AgentHeartbeat::EVENT_TYPE.to_owned(),
        event_data: data,
        source: "worker".to_owned(),
        emitted_at: Some(clock::now().to_string()),
    }
}

#[cfg(test)]
mod tests;
