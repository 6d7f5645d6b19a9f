//! Signs of life: from the first second on, also while the agent works, and at once when its state changes.
//!
//! A heartbeat that is late says nothing, so none is kept: one that fails is tried once more and then forgotten.

use crate::clock;
use crate::outbox::Outbox;
use client::{Attempt, EventIn, Once};
use contract::limits::MAX_HEARTBEAT_BYTES;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// How often a worker says that it lives, unless it is told otherwise.
pub const INTERVAL: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// What a heartbeat says of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vitals {
    /// What it does.
    pub status: Status,
    /// How many times it asked its model.
    pub turns: u64,
    /// What it cost so far.
    pub cost_usd: f64,
    /// How often something that takes long has said that it goes on.
    pub progress: u64,
    /// The memory of the agent and its children.
    pub agent_memory_bytes: Option<u64>,
}

/// What an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Status {
    /// It is not there yet: the workspace is prepared, the agent comes up.
    #[default]
    Starting,
    /// It works.
    Working,
    /// It waits to be told something.
    Waiting,
    /// It ends.
    Stopping,
}

impl Status {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
        }
    }
}

/// Beats until nobody feels the pulse any more: until the sender of `vitals` is gone.
pub async fn run(once: Once, outbox: Outbox, mut vitals: watch::Receiver<Vitals>, interval: Duration) {
    let (started, mut told_progress) = (Instant::now(), 0);
    loop {
        let now = *vitals.borrow_and_update();
        let beat = beat(&outbox, now, now.progress > told_progress, started.elapsed());
        let next = Instant::now() + interval;
        let mut heard = matches!(once.event(&beat, DEADLINE).await, Attempt::Answered(_));
        if !heard {
            sleep(PAUSE).await;
            heard = matches!(once.event(&beat, DEADLINE).await, Attempt::Answered(_));
        }
        match heard {
            true => told_progress = now.progress,
            false => tracing::debug!("A heartbeat was not heard"),
        }
        // Numbers change all the time; only another status is worth an early beat.
        let changed = vitals.wait_for(|vitals| vitals.status != now.status);
        if let Ok(Err(_)) = tokio::time::timeout_at(next, changed).await {
            return;
        }
    }
}

fn beat(outbox: &Outbox, vitals: Vitals, progressed: bool, uptime: Duration) -> EventIn {
    let outbox = outbox.status();
    let mut data = json!({
        "status": vitals.status.as_str(),
        "event_count": outbox.told,
        "waiting_events": outbox.waiting_events,
        "spool_bytes": outbox.bytes,
        "turns": vitals.turns,
        "cost_usd": vitals.cost_usd,
        "memory_bytes": own_memory_bytes(),
        "uptime_seconds": uptime.as_secs(),
        "worker_version": env!("CARGO_PKG_VERSION"),
    });
    let optional = [
        // The plane counts it as work: a tool that is silent for long has no other sign of it.
        ("progressed", progressed.then_some(Value::Bool(true))),
        ("agent_memory_bytes", vitals.agent_memory_bytes.map(Value::from)),
        ("oldest_waiting_seconds", outbox.oldest_age.map(|age| age.as_secs().into())),
        ("dropped_events", (outbox.dropped > 0).then(|| outbox.dropped.into())),
        ("last_error", outbox.last_error.map(Value::from)),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            data[field] = value;
        }
    }
    debug_assert!(data.to_string().len() <= MAX_HEARTBEAT_BYTES);
    EventIn {
        event_id: Uuid::now_v7().to_string(),
        event_type: "agent.heartbeat".to_owned(),
        event_data: data,
        source: "worker".to_owned(),
        emitted_at: Some(clock::now().to_string()),
    }
}

/// The worker's own memory, where the system tells.
fn own_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests;
