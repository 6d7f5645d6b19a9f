//! The only place that makes up identifiers. They sort by the time they were made.

use domain::{ConnectionId, EventId, MessageId, SandboxId, Task, TaskId, TicketId};
use uuid::Uuid;

/// For an event that came without one.
pub fn event() -> EventId {
    EventId::parse(Uuid::now_v7().to_string()).expect("a UUID is a valid id")
}

/// For a sandbox that nobody named.
pub fn sandbox() -> SandboxId {
    SandboxId::parse(format!("sandbox-{}", Uuid::now_v7().simple())).expect("a prefixed UUID is a valid id")
}

/// For the sandbox of the next try at a task: it tells whose it is, and is never used twice.
pub fn sandbox_for(task: &Task) -> SandboxId {
    let (short, random) =
        (&task.id.as_str()[..task.id.as_str().len().min(24)], Uuid::new_v4().simple().to_string());
    let name = format!("{short}-{}-{}", task.attempt + 1, &random[..6]);
    SandboxId::parse(name).expect("an id with a suffix is a valid id")
}

/// For a task.
pub fn task() -> TaskId {
    TaskId::parse(format!("task-{}", short())).expect("a prefixed id is a valid id")
}

/// For a ticket that nobody named.
pub fn ticket() -> TicketId {
    TicketId::parse(format!("ticket-{}", short())).expect("a prefixed id is a valid id")
}

/// The time and enough randomness, in fewer letters than a UUID has: people read these.
fn short() -> String {
    let id = Uuid::now_v7().simple().to_string();
    format!("{}{}", &id[..12], &id[24..32])
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
