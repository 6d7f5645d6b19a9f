//! The rules of the plane: values in, values out.
//!
//! Deliberately absent: a clock, randomness, storage, HTTP. Code that needs one of those calls this crate. That is why
//! every rule here is tested by tables and properties, and no test waits.

pub mod access;
pub mod attempt;
pub mod backoff;
pub mod breaker;
pub mod continuous;
pub mod duplicates;
pub mod entity;
pub mod event;
pub mod feedback;
pub mod filter;
pub mod graph;
pub mod id;
pub mod idle;
pub mod ingest;
pub mod json;
pub mod kept;
pub mod large_fields;
mod log_hash;
pub mod mailbox;
pub mod message;
pub mod quota;
pub mod redact;
pub mod resources;
pub mod retry;
pub mod sandbox;
pub mod score;
pub mod session;
pub mod task;
pub mod ticket;
pub mod time;
pub mod timeouts;
pub mod uptime;
pub mod url;

pub use entity::Entity;
pub use event::{Event, EventType, Source};
pub use id::{ConnectionId, EventId, MessageId, OrgId, ProjectId, SandboxId, SessionId, TaskId, TicketId};
pub use json::JsonObject;
pub use log_hash::LogHash;
pub use message::Message;
pub use sandbox::Sandbox;
pub use session::Session;
pub use task::Task;
pub use ticket::Ticket;
pub use time::Timestamp;

/// A validation error: the field, and what is wrong with it, worded for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// Path of the field in the request: `events[3].event_type`.
    pub field: String,
    /// Completes a sentence that starts with the field: `must not be empty`.
    pub reason: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }

    /// The same error with the field nested in `parent`: `inside("events[3]")`.
    #[must_use]
    pub fn inside(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), reason: self.reason }
    }
}
