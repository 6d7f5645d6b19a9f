//! Reading the log: pages, the trajectory, full bodies.

use domain::event::BodyReference;
use domain::{Event, EventId, EventType, JsonObject, SandboxId, Source, Timestamp};
use serde::{Deserialize, Serialize};

/// One event of the log, as it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventOut {
    /// Its id.
    pub id: EventId,
    /// Its place in the log.
    pub seq: u64,
    /// Whose log.
    pub sandbox_id: SandboxId,
    /// Its type, as sent.
    pub event_type: EventType,
    /// What it says; abridged when `body` is present.
    pub event_data: JsonObject,
    /// Who speaks.
    pub source: Source,
    /// When the plane stored it.
    pub created_at: Timestamp,
    /// When the sender says that it happened.
    pub emitted_at: Option<Timestamp>,
    /// Where to get the full data, when it is not all here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyOut>,
}

/// Where an event's full data is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyOut {
    /// `GET` this.
    pub href: String,
    /// Size of the full data.
    pub size_bytes: u64,
    /// Fields that are missing here.
    pub omitted: Vec<String>,
}

impl EventOut {
    /// A log event on its way out.
    pub fn new(sandbox_id: &SandboxId, event: Event) -> Option<Self> {
        let seq = event.seq?;
        Some(Self {
            body: event.body.map(|body| BodyOut::new(sandbox_id, seq, body)),
            id: event.id,
            seq,
            sandbox_id: sandbox_id.clone(),
            event_type: event.event_type,
            event_data: event.data,
            source: event.source,
            created_at: event.created_at,
            emitted_at: event.emitted_at,
        })
    }
}

impl BodyOut {
    /// The way to the full data of one event.
    pub fn new(sandbox_id: &SandboxId, seq: u64, body: BodyReference) -> Self {
        let href = format!("/api/v1/sandboxes/{sandbox_id}/events/{seq}/body");
        Self { href, size_bytes: body.size_bytes, omitted: body.omitted }
    }
}

/// `GET …/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    /// Whose log.
    pub sandbox_id: SandboxId,
    /// The page, in the order that was asked for.
    pub events: Vec<EventOut>,
    /// How many events of the log pass the filters, this page or not; `null` where that is not counted.
    pub total_count: Option<u64>,
    /// Last sequence number of the log.
    pub last_seq: u64,
    /// Whether there is more in this direction.
    pub has_more: bool,
    /// With `order=oldest`: ask for what follows with this `after_seq`. Set even on an empty page.
    pub next_after_seq: Option<u64>,
    /// With `order=newest`: ask for what came before with this `before_seq`. Set even on an empty page.
    pub next_before_seq: Option<u64>,
}

/// `GET …/trajectory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// Whose.
    pub sandbox_id: SandboxId,
    /// Newest first.
    pub events: Vec<EventOut>,
    /// The heartbeats, which are not events of the trajectory.
    pub heartbeat_summary: HeartbeatSummary,
    /// Everything that ever came in, heartbeats included.
    pub total_events: u64,
    /// Everything but the heartbeats.
    pub trajectory_events: u64,
    /// For `direction=older`; `null` at the beginning of the log.
    pub next_cursor: Option<String>,
    /// For `direction=newer`: what came after the newest event here.
    pub prev_cursor: Option<String>,
    /// Whether there is more in the direction that was asked for.
    pub has_more: bool,
}

/// All heartbeats of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatSummary {
    /// How many.
    pub count: u64,
    /// When the first came.
    pub first_heartbeat: Option<Timestamp>,
    /// When the latest came.
    pub last_heartbeat: Option<Timestamp>,
}
