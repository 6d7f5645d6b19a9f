//! The rules of the plane: values in, values out.
//!
//! Deliberately absent: a clock, randomness, storage, HTTP. Whatever needs one of those is a caller of this
//! crate. That is why every rule here is tested by tables and properties and none by waiting.

pub mod abridge;
pub mod access;
pub mod attempt;
pub mod breaker;
pub mod entity;
pub mod event;
pub mod filter;
pub mod graph;
pub mod id;
pub mod idle;
pub mod ingest;
pub mod json;
pub mod mailbox;
pub mod message;
pub mod pace;
pub mod redact;
pub mod resources;
pub mod retry;
pub mod sandbox;
pub mod score;
pub mod session;
pub mod similar;
pub mod task;
pub mod ticket;
pub mod time;
pub mod uptime;

pub use entity::Entity;
pub use event::{Event, EventType, Source};

pub use id::{ConnectionId, EventId, MessageId, OrgId, ProjectId, SandboxId, SessionId, TaskId, TicketId};
pub use json::JsonObject;
pub use message::Message;
pub use sandbox::Sandbox;
pub use session::Session;
pub use task::Task;
pub use ticket::Ticket;
pub use time::Timestamp;

/// An input that breaks a rule: which field, and what is wrong with it, in words for the person who sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// Where it is, as the sender spells it: `events[3].event_type`.
    pub field: String,
    /// What is wrong, as the end of a sentence that starts with the field.
    pub reason: String,
}

impl Invalid {
    /// An input whose `field` breaks a rule because of `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }

    /// The same complaint about a field one level deeper: `inside("events[3]")`.
    #[must_use]
    pub fn inside(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), reason: self.reason }
    }
}
