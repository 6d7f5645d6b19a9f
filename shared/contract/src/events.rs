//! Responses about logs: pages, the trajectory, full event data.

use crate::payloads::EventData;
use domain::event::BodyReference;
use domain::{Entity, Event, EventId, EventType, JsonObject, SandboxId, Source, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A log event in a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventOut {
    pub id: EventId,
    /// Sequence number in the log.
    pub seq: u64,
    #[serde(flatten)]
    pub entity: EntityOut,
    pub event_type: EventType,
    /// Abridged when `body` is present.
    #[schemars(with = "EventData")]
    pub event_data: JsonObject,
    pub source: Source,
    /// When the plane stored it.
    pub created_at: Timestamp,
    /// The sender's timestamp.
    pub emitted_at: Option<Timestamp>,
    /// Reference to the full data, when `event_data` is abridged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyOut>,
}

/// The entity whose log it is: one field, named after the kind of the entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EntityOut {
    /// `"sandbox_id": "s-1"`.
    #[serde(rename = "sandbox_id")]
    Sandbox(SandboxId),
    /// `"task_id": "t-1"`.
    #[serde(rename = "task_id")]
    Task(TaskId),
    /// `"ticket_id": "t-1"`.
    #[serde(rename = "ticket_id")]
    Ticket(TicketId),
}

impl From<&Entity> for EntityOut {
    fn from(entity: &Entity) -> Self {
        match entity {
            Entity::Sandbox(id) => Self::Sandbox(id.clone()),
            Entity::Task(id) => Self::Task(id.clone()),
            Entity::Ticket(id) => Self::Ticket(id.clone()),
        }
    }
}

/// Reference to the full data of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BodyOut {
    /// Path for `GET`. Absent for tasks and tickets, whose log has the full data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub href: Option<String>,
    /// Size of the full data.
    pub size_bytes: u64,
    /// Omitted fields.
    pub omitted: Vec<String>,
}

impl EventOut {
    /// `None` for an ephemeral event.
    pub fn new(entity: &Entity, event: Event) -> Option<Self> {
        let seq = event.seq?;
        Some(Self {
            body: event.body.map(|body| BodyOut::new(entity, seq, body)),
            id: event.id,
            seq,
            entity: entity.into(),
            event_type: event.event_type,
            event_data: event.data,
            source: event.source,
            created_at: event.created_at,
            emitted_at: event.emitted_at,
        })
    }
}

impl BodyOut {
    pub fn new(entity: &Entity, seq: u64, body: BodyReference) -> Self {
        let href = match entity {
            Entity::Sandbox(id) => Some(format!("/api/v1/sandboxes/{id}/events/{seq}/body")),
            Entity::Task(_) | Entity::Ticket(_) => None,
        };
        Self { href, size_bytes: body.size_bytes, omitted: body.omitted }
    }
}

/// `GET …/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    #[serde(flatten)]
    pub entity: EntityOut,
    /// In the requested order.
    pub events: Vec<EventOut>,
    /// Number of events in the log that match the filters; `null` if unknown.
    pub total_count: Option<u64>,
    /// Last sequence number of the log.
    pub last_seq: u64,
    /// Whether there are more events in this direction.
    pub has_more: bool,
    /// With `order=oldest`: send it as `after_seq` for the next page. Present even on an empty page.
    pub next_after_seq: Option<u64>,
    /// With `order=newest`: send it as `before_seq` for the next page. Present even on an empty page.
    pub next_before_seq: Option<u64>,
}

/// `GET …/trajectory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trajectory {
    pub sandbox_id: SandboxId,
    /// Newest first.
    pub events: Vec<EventOut>,
    /// Heartbeats are not part of the trajectory.
    pub heartbeat_summary: HeartbeatSummary,
    /// Number of all events, including heartbeats.
    pub total_events: u64,
    /// Number of events without heartbeats.
    pub trajectory_events: u64,
    /// For `direction=older`; `null` at the beginning of the log.
    pub next_cursor: Option<String>,
    /// For `direction=newer`: continues after the newest event here.
    pub prev_cursor: Option<String>,
    /// Whether there are more events in the requested direction.
    pub has_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatSummary {
    pub count: u64,
    pub first_heartbeat: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(entity: &Entity) -> EventPage {
        let event = Event {
            seq: Some(3),
            id: EventId::parse("e-1").unwrap(),
            event_type: EventType::parse("task.created").unwrap(),
            source: Source::System,
            data: serde_json::from_str(r#"{"n":1e400}"#).unwrap(),
            created_at: Timestamp::from_secs(1_767_225_600),
            emitted_at: None,
            body: Some(BodyReference { size_bytes: 7, omitted: vec![] }),
        };
        EventPage {
            entity: entity.into(),
            events: EventOut::new(entity, event).into_iter().collect(),
            total_count: Some(3),
            last_seq: 3,
            has_more: false,
            next_after_seq: Some(3),
            next_before_seq: None,
        }
    }

    /// Checks the JSON of a page, and that a page with unknown fields can be parsed.
    #[track_caller]
    fn check(entity: &Entity, field: &str, body: &str) {
        let text = serde_json::to_string(&page(entity)).unwrap();
        let expected = [
            "{",
            field,
            r#","events":[{"id":"e-1","seq":3,"#,
            field,
            r#","event_type":"task.created","event_data":{"n":1e400},"source":"system","#,
            r#""created_at":"2026-01-01T00:00:00.000000Z","emitted_at":null,"body":{"#,
            body,
            r#""size_bytes":7,"omitted":[]}}],"total_count":3,"last_seq":3,"has_more":false,"next_after_seq":3,"#,
            r#""next_before_seq":null}"#,
        ];
        assert_eq!(text, expected.concat());
        let newer = text.replacen('{', r#"{"new":{"er":1},"#, 1);
        assert_eq!(serde_json::from_str::<EventPage>(&newer).unwrap(), page(entity));
    }

    #[test]
    fn a_page_names_its_entity_and_round_trips() {
        let href = r#""href":"/api/v1/sandboxes/x-1/events/3/body","#;
        check(&Entity::Sandbox(SandboxId::parse("x-1").unwrap()), r#""sandbox_id":"x-1""#, href);
        check(&Entity::Task(TaskId::parse("x-1").unwrap()), r#""task_id":"x-1""#, "");
        check(&Entity::Ticket(TicketId::parse("x-1").unwrap()), r#""ticket_id":"x-1""#, "");
    }
}
