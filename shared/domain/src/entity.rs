//! Sandboxes, tasks and tickets: everything that has a log.

use crate::event::normalized_name;
use crate::{EventType, SandboxId, TaskId, TicketId};
use std::fmt;

/// A reference to something that has a log and a status.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Entity {
    Sandbox(SandboxId),
    Task(TaskId),
    Ticket(TicketId),
}

impl Entity {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => SANDBOX,
            Self::Task(_) => TASK,
            Self::Ticket(_) => TICKET,
        }
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Sandbox(id) => id.as_str(),
            Self::Task(id) => id.as_str(),
            Self::Ticket(id) => id.as_str(),
        }
    }

    /// The name of an event of its log in socket frames: `SANDBOX_AGENT_TOOL_USE`, `TASK_CREATED`. A `task.created` that a
    /// worker logs in its sandbox is an event of the sandbox: `SANDBOX_TASK_CREATED`.
    pub fn frame_name(&self, event_type: &EventType) -> String {
        match self {
            Self::Sandbox(_) => event_type.sandbox_frame_name(),
            Self::Task(_) | Self::Ticket(_) => normalized_name(event_type.as_str()),
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.id())
    }
}

pub const SANDBOX: &str = "sandbox";
pub const TASK: &str = "task";
pub const TICKET: &str = "ticket";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_name_starts_with_the_entity_kind() {
        let sandbox = Entity::Sandbox(SandboxId::parse("x-1").unwrap());
        let task = Entity::Task(TaskId::parse("x-1").unwrap());
        let ticket = Entity::Ticket(TicketId::parse("x-1").unwrap());
        for (entity, event_type, name) in [
            (&sandbox, "agent.tool_use", "SANDBOX_AGENT_TOOL_USE"),
            (&sandbox, "sandbox.spawned", "SANDBOX_SPAWNED"),
            (&sandbox, "task.created", "SANDBOX_TASK_CREATED"),
            (&task, "task.created", "TASK_CREATED"),
            (&ticket, "ticket.timed_out", "TICKET_TIMED_OUT"),
        ] {
            assert_eq!(entity.frame_name(&EventType::parse(event_type).unwrap()), name);
        }
    }
}
