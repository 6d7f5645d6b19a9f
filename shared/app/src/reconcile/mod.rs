//! Reconciliation: bring sandboxes, tasks and tickets from the state they are in to the state they should be in.

pub(crate) mod jobs;
pub mod sandbox;
pub mod sweep;
pub mod sweep_providers;
pub mod take_over;
pub mod task;
pub mod ticket;
pub mod ticket_merge;
pub(crate) mod uptime;
