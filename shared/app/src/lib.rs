//! Use cases, one module each: `Deps` is what it needs, `Command` what is asked, `Outcome` what came of it.
//!
//! Deliberately absent: HTTP, sockets, Lambda. A use case names in its `Deps` exactly what it touches, which is
//! also the list of its permissions.

pub mod clock;
pub mod error;
pub mod events;
pub mod health;
pub mod ids;
pub mod messages;
pub mod orchestration;
mod race;
pub mod reconcile;
pub mod sandboxes;
pub mod sessions;
pub mod sockets;
pub mod tasks;
pub mod tickets;
mod visibility;

pub use clock::Clock;
pub use error::Error;
pub use ids::IdSource;
pub use sandboxes::keyed_locks::KeyedLocks;
pub use sockets::subscriptions::Subscriptions;
