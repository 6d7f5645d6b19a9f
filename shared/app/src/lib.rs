//! Use cases, one module each, with four public names: `Deps`, `Command`, `Outcome` and `run`.
//!
//! Deliberately absent: HTTP, sockets, Lambda. The `Deps` of a use case are exactly the resources that it uses, so
//! they also list its permissions.

pub mod branch_workflow;
pub mod clock;
mod conflict_retry;
pub mod error;
pub mod events;
pub mod feedback;
pub mod health;
pub mod ids;
pub mod kept;
pub mod messages;
pub mod orchestration;
mod paging;
pub mod quotas;
pub mod reconcile;
pub mod repositories;
pub mod sandboxes;
pub mod sessions;
pub mod sockets;
pub mod tasks;
pub mod tickets;
mod visibility;
pub mod webhooks;

pub use clock::Clock;
pub use error::Error;
pub use ids::IdSource;
pub use quotas::QuotaCounters;
pub use sandboxes::keyed_locks::KeyedLocks;
pub use sockets::subscriptions::Subscriptions;
