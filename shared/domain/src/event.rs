//! Events: their type, their source, and their names.
//!
//! An event has a type as it was sent (`agent.tool_use`), a normalized name by which names are compared
//! (`AGENT_TOOL_USE`), and a frame name in socket frames and on EventBridge (`SANDBOX_AGENT_TOOL_USE`).

use crate::message::State;
use crate::{EventId, Invalid, JsonObject, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

pub mod catalogue;
mod lifecycle;
pub mod payloads;

pub use catalogue::Payload;
pub use lifecycle::LifecycleEvent;

pub const MAX_TYPE_CHARS: usize = 100;

/// An event of a log, or an ephemeral event, which is not logged.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Sequence number in the log, gapless from 1. `None` for an ephemeral event.
    pub seq: Option<u64>,
    /// Chosen by the sender, or generated.
    pub id: EventId,
    /// Dotted name, as sent: `agent.tool_use`.
    pub event_type: EventType,
    pub source: Source,
    /// Abridged when `body` is present.
    pub data: JsonObject,
    /// When the plane stored it.
    pub created_at: Timestamp,
    /// The sender's timestamp.
    pub emitted_at: Option<Timestamp>,
    /// Present when the full data is stored separately because of its size.
    pub body: Option<BodyReference>,
}

/// Reference to data that is stored separately from its event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyReference {
    /// Size of the full data as JSON text.
    pub size_bytes: u64,
    /// Top-level fields that are omitted inline.
    pub omitted: Vec<String>,
}

/// A validated event type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EventType(
    #[schemars(length(min = 1, max = MAX_TYPE_CHARS), regex(pattern = "^[A-Za-z0-9._-]+$"))] String,
);

impl EventType {
    /// Accepts 1 to 100 letters, digits, `.`, `_` and `-`.
    pub fn parse(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        let invalid = |reason: String| Err(Invalid::new("event_type", reason));
        if text.is_empty() {
            return invalid("must not be empty".into());
        }
        if text.chars().count() > MAX_TYPE_CHARS {
            return invalid(format!("must be at most {MAX_TYPE_CHARS} characters"));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            Some(c) => invalid(format!("may contain letters, digits, '.', '_' and '-', not {c:?}")),
            None => Ok(Self(text)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is broadcast and never logged.
    pub fn is_ephemeral(&self) -> bool {
        self.is_heartbeat() || self.is_partial()
    }

    /// Heartbeats are ephemeral and counted on the sandbox.
    pub fn is_heartbeat(&self) -> bool {
        matches!(self.0.as_str(), payloads::AgentHeartbeat::EVENT_TYPE | "spec.heartbeat")
    }

    /// Streamed text of an agent. Ephemeral: the complete text follows as a log event.
    pub fn is_partial(&self) -> bool {
        self.0 == payloads::AgentPartial::EVENT_TYPE
    }

    /// Whether this shows that the agent works. Unknown types count as work. Message events do not: a message to an agent
    /// shows nothing about the agent.
    pub fn is_work(&self) -> bool {
        !self.0.starts_with(MESSAGE_PREFIX)
            && !self.is_heartbeat()
            && !matches!(
                self.0.as_str(),
                payloads::AgentStarted::EVENT_TYPE
                    | payloads::AgentError::EVENT_TYPE
                    | payloads::AgentStreamError::EVENT_TYPE
                    | payloads::IterationFailed::EVENT_TYPE
                    | payloads::AgentWaiting::EVENT_TYPE
                    | payloads::AgentShutdown::EVENT_TYPE
                    | payloads::AgentInterrupted::EVENT_TYPE
                    | "spec.phase_failed"
                    | "spec.execution_failed"
            )
    }

    /// The type of the events with this payload.
    pub fn of<P: Payload>() -> Self {
        Self(P::EVENT_TYPE.to_owned())
    }

    /// Whether only the plane may emit this, in any spelling: readers rely on it. That is every name of tasks and tickets,
    /// also those that the plane does not emit yet. No worker of OmoiOS sends one of these names.
    pub fn is_reserved(&self) -> bool {
        let name = normalized_name(&self.0);
        let of_message = name.strip_prefix(NORMALIZED_MESSAGE_PREFIX).is_some_and(|state| {
            State::ALL.into_iter().any(|known| known.as_str().eq_ignore_ascii_case(state))
        });
        of_message
            || OF_TASKS_AND_TICKETS.iter().any(|prefix| name.starts_with(prefix))
            || LIFECYCLE_OF_THE_PLANE.contains(&name.as_str())
            || LOG_ONLY.contains(&name.as_str())
    }

    /// Whether this is a lifecycle event of a sandbox, task or ticket, which is also published to EventBridge. All
    /// spellings of a name are equal: `SANDBOX_SPAWNED` is `sandbox.spawned`.
    pub fn is_lifecycle(&self) -> bool {
        let name = normalized_name(&self.0);
        LIFECYCLE_OF_A_RUN.contains(&name.as_str()) || LIFECYCLE_OF_THE_PLANE.contains(&name.as_str())
    }

    /// Whether a worker may report the outcome of its task with this.
    pub fn may_be_final_report(&self) -> bool {
        self.has::<payloads::AgentCompleted>()
            || self.has::<payloads::AgentFailed>()
            || self.has::<payloads::ContinuousCompleted>()
    }

    /// Whether events of this type have this payload. All spellings of a name are equal.
    pub fn has<P: Payload>(&self) -> bool {
        self.is_called(P::EVENT_TYPE)
    }

    /// Whether this is the name, in any spelling.
    pub fn is_called(&self, name: &str) -> bool {
        self.0 == name || normalized_name(&self.0) == normalized_name(name)
    }

    /// The frame name in the log of a sandbox: `SANDBOX_AGENT_TOOL_USE` for `agent.tool_use`.
    pub fn sandbox_frame_name(&self) -> String {
        format!("{SANDBOX_PREFIX}{}", normalized_name(&self.0))
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const SANDBOX_PREFIX: &str = "SANDBOX_";
const MESSAGE_PREFIX: &str = "message.";
const NORMALIZED_MESSAGE_PREFIX: &str = "MESSAGE_";

const OF_TASKS_AND_TICKETS: [&str; 2] = ["TASK_", "TICKET_"];

/// Normalized names of the lifecycle events that workers may send.
const LIFECYCLE_OF_A_RUN: [&str; 7] = [
    "AGENT_COMPLETED",
    "AGENT_FAILED",
    "AGENT_STARTED",
    "CANCELLED",
    "CONTINUOUS_COMPLETED",
    "STARTED",
    "STOPPED",
];

/// Normalized names of the lifecycle events that only the plane emits.
const LIFECYCLE_OF_THE_PLANE: [&str; 44] = [
    "PENDING",
    "PREPARING",
    "CREATING",
    "UPLOADING",
    "STARTING",
    "SPAWNED",
    "RUNNING",
    "COMPLETING",
    "COMPLETED",
    "FAILED",
    "TERMINATED",
    "TERMINATED_IDLE",
    "RELEASED",
    "TASK_CREATED",
    "TASK_READY",
    "TASK_CLAIMED",
    "TASK_ASSIGNED",
    "TASK_STARTED",
    "TASK_BRANCH_CREATED",
    "TASK_COMPLETING",
    "TASK_PULL_REQUEST_OPENED",
    "TASK_MERGED",
    "TASK_PULL_REQUEST_CLOSED",
    "TASK_FEEDBACK_RECEIVED",
    "TASK_FEEDBACK_ANSWERED",
    "TASK_FEEDBACK_LEFT",
    "TASK_FEEDBACK_REQUESTED",
    "TASK_MERGE_CONFLICT",
    "TASK_COMPLETED",
    "TASK_FAILED",
    "TASK_RETRYING",
    "TASK_CANCELLED",
    "TASK_VALIDATING",
    "TASK_NEEDS_REVISION",
    "TICKET_CREATED",
    "TICKET_TRANSITIONED",
    "TICKET_APPROVED",
    "TICKET_REJECTED",
    "TICKET_TIMED_OUT",
    "TICKET_BLOCKED",
    "TICKET_UNBLOCKED",
    "TICKET_MERGE_STARTED",
    "TICKET_MERGE_CONFLICT",
    "TICKET_MERGE_ENDED",
];

/// Normalized names of the other events that only the plane emits. They are logged and not published to EventBridge.
const LOG_ONLY: [&str; 8] = [
    "REGISTERED",
    "RETRYING",
    "TOKEN_ROTATED",
    "TASK_UPDATED",
    "TASK_DEPENDENCIES_CHANGED",
    "TICKET_UPDATED",
    "TICKET_MERGE_ORDERED",
    "TICKET_MERGE_PROGRESS",
];

/// The normalized spelling of a name: `AGENT_TOOL_USE` for `SANDBOX_AGENT_TOOL_USE`, `SANDBOX_agent.tool_use` and
/// `agent.tool_use`.
pub fn normalized_name(name: &str) -> String {
    let upper: String =
        name.chars().map(|c| if matches!(c, '.' | '-') { '_' } else { c.to_ascii_uppercase() }).collect();
    match upper.strip_prefix(SANDBOX_PREFIX) {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => upper,
    }
}

/// What an event originates from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "EventSource")]
pub enum Source {
    /// The coding agent.
    Agent,
    /// The process that runs the agent.
    Worker,
    User,
    /// The guardian of OmoiOS, which supervises agents.
    Guardian,
    /// The plane itself.
    System,
}

impl Source {
    pub const ALL: [Self; 5] = [Self::Agent, Self::Worker, Self::User, Self::Guardian, Self::System];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Worker => "worker",
            Self::User => "user",
            Self::Guardian => "guardian",
            Self::System => "system",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or_else(|| Invalid::new("source", "must be one of agent, worker, user, guardian, system"))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_are_one_name() {
        for spelling in
            ["SANDBOX_AGENT_TOOL_USE", "SANDBOX_agent.tool_use", "agent.tool_use", "agent.tool-use"]
        {
            assert_eq!(normalized_name(spelling), "AGENT_TOOL_USE");
        }
        assert_eq!(
            EventType::parse("agent.tool_use").unwrap().sandbox_frame_name(),
            "SANDBOX_AGENT_TOOL_USE"
        );
        assert_eq!(EventType::parse("sandbox.spawned").unwrap().sandbox_frame_name(), "SANDBOX_SPAWNED");
        let queued = EventType::of::<payloads::MessageQueued>();
        assert_eq!(queued.sandbox_frame_name(), "SANDBOX_MESSAGE_QUEUED");
        assert!(queued.is_called("SANDBOX_MESSAGE_QUEUED") && queued.is_called("message.queued"));
        assert!(!queued.is_called("message.fetched"));
        let reserved = |name: &str| EventType::parse(name).unwrap().is_reserved();
        assert!(
            reserved("SANDBOX_MESSAGE_QUEUED")
                && reserved("message.completed")
                && reserved("Message-Started")
        );
        assert!(!reserved("message.sent") && !reserved("agent.message"));
        for name in
            ["task.anything", "TASK_ANYTHING", "sandbox.task.anything", "Ticket-closed", "SANDBOX_TICKET_X"]
        {
            assert!(reserved(name) && !EventType::parse(name).unwrap().is_lifecycle(), "{name}");
        }
        assert_eq!(EventType::parse("SANDBOX_").unwrap().sandbox_frame_name(), "SANDBOX_SANDBOX_");
    }

    /// Every event that the plane emits about sandboxes, tasks and tickets, and whether it is a lifecycle event.
    fn emitted_by_the_plane() -> Vec<(&'static str, bool)> {
        let log_only = [
            "sandbox.registered",
            "sandbox.retrying",
            "sandbox.token_rotated",
            "task.updated",
            "task.dependencies_changed",
            "ticket.updated",
            "ticket.merge_ordered",
            "ticket.merge_progress",
        ];
        let emitted = catalogue::EMITTED_BY_THE_PLANE.iter().filter(|name| !name.starts_with(MESSAGE_PREFIX));
        // The plane does not emit these, but their names are reserved: the record of a sandbox names who registered it.
        emitted
            .chain(&["ticket.updated", "sandbox.registered"])
            .map(|name| (*name, !log_only.contains(name)))
            .collect()
    }

    #[test]
    fn the_catalogue_has_every_state_of_a_message() {
        let listed: Vec<&str> = catalogue::EMITTED_BY_THE_PLANE
            .iter()
            .filter_map(|name| name.strip_prefix(MESSAGE_PREFIX))
            .collect();
        assert_eq!(listed, State::ALL.map(State::as_str));
    }

    #[test]
    fn lifecycle_events_are_reserved_in_any_spelling() {
        let emitted = emitted_by_the_plane();
        assert_eq!(emitted.len(), LIFECYCLE_OF_THE_PLANE.len() + LOG_ONLY.len());
        for (name, is_lifecycle) in emitted {
            let upper = name.to_uppercase().replace('.', "_");
            let dashed = name.replace(['.', '_'], "-");
            let prefixed = format!("SANDBOX_{}", name.trim_start_matches("sandbox."));
            for spelling in [name, &upper, &dashed, &prefixed] {
                let event_type = EventType::parse(spelling).unwrap();
                assert!(event_type.is_reserved(), "{spelling}");
                assert_eq!(event_type.is_lifecycle(), is_lifecycle, "{spelling}");
            }
        }
    }

    #[test]
    fn event_types_of_omoios_workers_are_not_reserved() {
        let names = "agent.started heartbeat system_message assistant_message message thinking tool_use \
            subagent_invoked skill_invoked tool_result user_message user_tool_result file_edited tool_completed \
            subagent_completed skill_completed completed stream_error error waiting message_injected interrupted \
            shutdown turn_complete processing failed MessageAction\n\
            continuous.started completed\n\
            iteration.started completion_signal validation completed failed\n\
            spec.execution_started execution_completed execution_failed phase_started phase_completed phase_failed \
            phase_retry heartbeat progress eval_result artifact_created requirements_generated design_generated \
            tasks_generated sync_started sync_completed tasks_queued tickets_creation_started \
            tickets_creation_completed ticket_created ticket_updated task_created task_updated \
            requirements_sync_started requirements_sync_completed requirement_created requirement_updated \
            design_sync_started design_sync_completed design_updated criterion_met";
        for line in names.lines() {
            let (family, names) = line.split_once('.').unwrap();
            for name in names.split_whitespace() {
                let event_type = EventType::parse(format!("{family}.{name}")).unwrap();
                assert!(!event_type.is_reserved(), "{event_type}");
            }
        }
        for custom in ["tasks.progress", "sandbox.note", "heartbeat", "SANDBOX_", "SANDBOX_CREATED"] {
            assert!(!EventType::parse(custom).unwrap().is_reserved(), "{custom}");
        }
    }

    #[test]
    fn heartbeats_and_errors_are_not_work() {
        let is_work = |name: &str| EventType::parse(name).unwrap().is_work();
        assert!(is_work("agent.tool_use") && is_work("something.new") && is_work("agent.partial"));
        assert!(!is_work("message.queued") && !is_work("message.started"));
        assert!(!is_work("agent.heartbeat") && !is_work("agent.waiting") && !is_work("iteration.failed"));
    }

    #[test]
    fn heartbeats_and_partial_text_are_ephemeral() {
        let is_ephemeral = |name: &str| EventType::parse(name).unwrap().is_ephemeral();
        assert!(["agent.heartbeat", "spec.heartbeat", "agent.partial"].into_iter().all(is_ephemeral));
        assert!(!["agent.message", "agent.partials", "partial"].into_iter().any(is_ephemeral));
        assert!(!EventType::parse("agent.partial").unwrap().is_heartbeat());
    }

    #[test]
    fn only_lifecycle_events_are_published() {
        let is_lifecycle = |name: &str| EventType::parse(name).unwrap().is_lifecycle();
        for lifecycle in [
            "sandbox.spawned",
            "SANDBOX_SPAWNED",
            "sandbox.terminated",
            "task.completed",
            "TASK_STARTED",
            "ticket.created",
            "agent.started",
            "agent.completed",
            "SANDBOX_agent.failed",
            "continuous.completed",
        ] {
            assert!(is_lifecycle(lifecycle), "{lifecycle}");
        }
        for other in [
            "agent.message",
            "agent.tool_use",
            "SANDBOX_agent.message",
            "agent.heartbeat",
            "tasks",
            "agent.error",
            "SANDBOX_iteration.started",
        ] {
            assert!(!is_lifecycle(other), "{other}");
        }
    }

    #[test]
    fn malformed_event_types_are_rejected() {
        let long = "x".repeat(MAX_TYPE_CHARS + 1);
        for bad in ["", " ", "a b", "a/b", "agent.tool\n", "é", long.as_str()] {
            assert_eq!(EventType::parse(bad).unwrap_err().field, "event_type", "{bad:?}");
        }
    }
}
