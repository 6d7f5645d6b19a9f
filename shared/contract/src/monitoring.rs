//! How sandboxes are doing.

use domain::attempt::Stage;
use domain::sandbox::Status;
use domain::{Sandbox, SandboxId, TaskId, TicketId, Timestamp};
use serde::{Deserialize, Serialize};

/// `GET /api/v1/monitoring/status`. The numbers are about the sandboxes on this page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monitoring {
    /// Those that the plane looks after, by id.
    pub sandboxes: Vec<Monitored>,
    /// How many of them are not over.
    pub active_count: usize,
    /// How many of them write specifications: none, since the plane has no such kind. OmoiOS's clients look for it.
    pub spec_sandbox_count: usize,
    /// How many of them will be ended by the next sweep.
    pub stuck_count: usize,
    /// Give it back as `cursor` for the next page; `null` at the end.
    pub next_cursor: Option<SandboxId>,
    /// Whether there are more.
    pub has_more: bool,
    /// Now.
    pub timestamp: Timestamp,
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monitored {
    /// Which.
    pub sandbox_id: SandboxId,
    /// Where it stands in its life.
    pub status: Status,
    /// What was heard of it.
    pub activity: ActivityOut,
    /// How far it has come.
    pub phase_status: Option<PhaseStatus>,
    /// Whether the next sweep will end it.
    pub stuck: bool,
}

/// `GET /api/v1/sandboxes/{id}/phase-status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Which.
    pub sandbox_id: SandboxId,
    /// How far it has come; `null` if the plane did not make it.
    pub phase_status: Option<PhaseStatus>,
    /// What was heard of it.
    pub activity: ActivityOut,
    /// Now.
    pub timestamp: Timestamp,
}

impl Phase {
    /// A sandbox on its way out.
    pub fn new(head: &Sandbox, now: Timestamp) -> Self {
        Self {
            sandbox_id: head.id.clone(),
            phase_status: PhaseStatus::of(head),
            activity: ActivityOut::new(head, now),
            timestamp: now,
        }
    }
}

/// What was heard of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityOut {
    /// When anything last came in.
    pub last_event_at: Option<Timestamp>,
    /// When something that shows work last came in.
    pub last_work_at: Option<Timestamp>,
    /// The latest heartbeat.
    pub last_heartbeat_at: Option<Timestamp>,
    /// What that said of the agent.
    pub heartbeat_status: Option<String>,
    /// For how long nothing has shown work; `null` before anything was heard.
    pub idle_seconds: Option<f64>,
}

impl ActivityOut {
    /// What was heard of a sandbox until now.
    pub fn new(head: &Sandbox, now: Timestamp) -> Self {
        let activity = &head.activity;
        let running_since = activity.spawn.as_ref().and_then(|spawn| spawn.running_since);
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

/// How far a sandbox has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseStatus {
    /// What is being done, or was done last.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// What it is for.
    pub task_id: TaskId,
    /// The task's ticket.
    pub ticket_id: Option<TicketId>,
    /// Which try at the task.
    pub attempt: u32,
    /// Who makes it.
    pub provider: String,
}

impl PhaseStatus {
    /// Of a sandbox that the plane makes.
    pub fn of(head: &Sandbox) -> Option<Self> {
        let (spawn, assignment) = (head.activity.spawn.as_ref()?, head.assignment.as_ref()?);
        Some(Self {
            stage: spawn.stage,
            since: spawn.since,
            task_id: assignment.task.clone(),
            ticket_id: assignment.ticket.clone(),
            attempt: assignment.attempt,
            provider: assignment.provider.clone(),
        })
    }
}

impl Monitored {
    /// A sandbox on its way out.
    pub fn new(head: &Sandbox, stuck: bool, now: Timestamp) -> Self {
        Self {
            sandbox_id: head.id.clone(),
            status: head.status,
            activity: ActivityOut::new(head, now),
            phase_status: PhaseStatus::of(head),
            stuck,
        }
    }
}
