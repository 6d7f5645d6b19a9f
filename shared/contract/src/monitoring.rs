//! Monitoring of sandboxes.

use domain::attempt::Stage;
use domain::sandbox::Status;
use domain::{Sandbox, SandboxId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /api/v1/monitoring/status`. The counts refer to the sandboxes on this page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Monitoring {
    /// Sandboxes that the plane reconciles, ordered by id.
    pub sandboxes: Vec<Monitored>,
    /// Number of sandboxes without a final status.
    pub active_count: usize,
    /// Always 0: the plane has no such kind of sandbox. OmoiOS clients expect the field.
    pub spec_sandbox_count: usize,
    /// Number of sandboxes that the next sweep will end.
    pub stuck_count: usize,
    /// Send it as `cursor` for the next page; `null` on the last page.
    pub next_cursor: Option<SandboxId>,
    pub has_more: bool,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MonitoredSandbox")]
pub struct Monitored {
    pub sandbox_id: SandboxId,
    pub status: Status,
    pub activity: ActivityOut,
    pub phase_status: Option<PhaseStatus>,
    /// Whether the next sweep will end the sandbox.
    pub stuck: bool,
}

/// `GET /api/v1/sandboxes/{id}/phase-status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxPhase")]
pub struct Phase {
    pub sandbox_id: SandboxId,
    /// `null` if the plane did not provision the sandbox.
    pub phase_status: Option<PhaseStatus>,
    pub activity: ActivityOut,
    pub timestamp: Timestamp,
}

impl Phase {
    pub fn new(sandbox: &Sandbox, now: Timestamp) -> Self {
        Self {
            sandbox_id: sandbox.id.clone(),
            phase_status: PhaseStatus::of(sandbox),
            activity: ActivityOut::new(sandbox, now),
            timestamp: now,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityOut {
    /// When the worker last sent anything.
    pub last_event_at: Option<Timestamp>,
    /// When an event last showed work.
    pub last_work_at: Option<Timestamp>,
    pub last_heartbeat_at: Option<Timestamp>,
    /// The agent's state, as the latest heartbeat reported it.
    pub heartbeat_status: Option<String>,
    /// Seconds since the last work; `null` before the worker has reported.
    pub idle_seconds: Option<f64>,
}

impl ActivityOut {
    pub fn new(sandbox: &Sandbox, now: Timestamp) -> Self {
        let activity = &sandbox.activity;
        let running_since =
            activity.provisioning.as_ref().and_then(|provisioning| provisioning.running_since);
        #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
        let since = |then: Timestamp| (now.as_micros() - then.as_micros()).max(0) as f64 / 1_000_000.0;
        Self {
            last_event_at: activity.last_event_at,
            last_work_at: activity.last_work_at,
            last_heartbeat_at: activity.heartbeats.last_at,
            heartbeat_status: activity.heartbeats.last_status.clone(),
            idle_seconds: activity.last_work_at.max(running_since).map(since),
        }
    }
}

/// Provisioning state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStatus {
    /// In progress, or completed last.
    pub stage: Stage,
    pub since: Timestamp,
    pub task_id: TaskId,
    pub ticket_id: Option<TicketId>,
    pub attempt: u32,
    pub provider: String,
}

impl PhaseStatus {
    pub fn of(sandbox: &Sandbox) -> Option<Self> {
        let (provisioning, assignment) =
            (sandbox.activity.provisioning.as_ref()?, sandbox.assignment.as_ref()?);
        Some(Self {
            stage: provisioning.stage,
            since: provisioning.since,
            task_id: assignment.task.clone(),
            ticket_id: assignment.ticket.clone(),
            attempt: assignment.attempt,
            provider: assignment.provider.clone(),
        })
    }
}

impl Monitored {
    pub fn new(sandbox: &Sandbox, stuck: bool, now: Timestamp) -> Self {
        Self {
            sandbox_id: sandbox.id.clone(),
            status: sandbox.status(),
            activity: ActivityOut::new(sandbox, now),
            phase_status: PhaseStatus::of(sandbox),
            stuck,
        }
    }
}
