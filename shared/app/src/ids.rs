//! The only place that makes up identifiers. They sort by the time they were made.

use domain::{ConnectionId, EventId, MessageId, SandboxId};
use uuid::Uuid;

/// For an event that came without one.
pub fn event() -> EventId {
    EventId::parse(Uuid::now_v7().to_string()).expect("a UUID is a valid id")
}

/// For a sandbox that nobody named.
pub fn sandbox() -> SandboxId {
    SandboxId::parse(format!("sandbox-{}", Uuid::now_v7().simple())).expect("a prefixed UUID is a valid id")
}

/// For a message whose sender did not name it.
pub fn message() -> MessageId {
    MessageId::parse(format!("msg-{}", Uuid::now_v7().simple())).expect("a prefixed UUID is a valid id")
}

/// For a socket of a host that does not name them itself.
pub fn connection() -> ConnectionId {
    ConnectionId::parse(Uuid::now_v7().simple().to_string()).expect("a UUID is a valid id")
}

/// For a request that came without one.
pub fn request() -> String {
    Uuid::now_v7().simple().to_string()
}
