//! What has a log of its own.

use crate::event::plain_name;
use crate::{EventType, SandboxId, TaskId, TicketId};
use std::fmt;

/// One thing with a life: a log, and a state that the log tells of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Entity {
    /// An agent's machine.
    Sandbox(SandboxId),
    /// A piece of work.
    Task(TaskId),
    /// What a person wants done.
    Ticket(TicketId),
}

impl Entity {
    /// Its kind, as on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => SANDBOX,
            Self::Task(_) => TASK,
            Self::Ticket(_) => TICKET,
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Self::Sandbox(id) => id.as_str(),
            Self::Task(id) => id.as_str(),
            Self::Ticket(id) => id.as_str(),
        }
    }

    /// The name on sockets of an event in its log: `SANDBOX_AGENT_TOOL_USE`, `TASK_CREATED`. What a worker tells of
    /// tasks in its sandbox's log stays a sandbox's: `SANDBOX_TASK_CREATED`.
    pub fn name_of(&self, event_type: &EventType) -> String {
        match self {
            Self::Sandbox(_) => event_type.bus_name(),
            Self::Task(_) | Self::Ticket(_) => plain_name(event_type.as_str()),
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.id())
    }
}

/// The kind of sandboxes.
pub const SANDBOX: &str = "sandbox";
/// The kind of tasks.
pub const TASK: &str = "task";
/// The kind of tickets.
pub const TICKET: &str = "ticket";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_sockets_tells_whose_event_it_is() {
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
            assert_eq!(entity.name_of(&EventType::parse(event_type).unwrap()), name);
        }
    }
}
