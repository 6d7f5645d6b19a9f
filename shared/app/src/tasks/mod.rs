//! Tasks: create, read, change, dispatch, complete and review them.

pub(crate) mod branch;
pub mod change_dependencies;
pub(crate) mod commit;
pub mod complete;
pub mod create;
pub mod dependencies;
pub mod diff;
pub mod dispatch;
pub mod get;
pub mod list;
pub mod merge;
pub mod of_sandbox;
pub mod pull_request;
pub(crate) mod requeue;
pub mod review;
pub mod transition;
pub mod unblock;
pub mod update;
