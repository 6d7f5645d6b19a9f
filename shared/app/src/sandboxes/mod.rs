//! Sandboxes: register, read, list, monitor and terminate them, and serialise the writes to one of them.

pub mod get;
pub mod git_access;
pub mod keyed_locks;
pub mod list;
pub mod monitor;
pub mod preview;
pub mod register;
pub mod rotate_token;
pub mod terminate;
pub mod verify;
pub mod worker_log;
pub(crate) mod write_guard;
