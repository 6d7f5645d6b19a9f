//! What has a log of its own.

use crate::{SandboxId, TaskId, TicketId};
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
