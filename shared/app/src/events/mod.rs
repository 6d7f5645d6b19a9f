//! Events: ingest, read, scan and push the logs of sandboxes, tasks and tickets.

pub mod body;
pub mod broadcast;
pub(crate) mod emit;
pub mod history;
pub mod ingest;
pub mod publish;
pub mod read;
pub(crate) mod scan;
pub mod trajectory;
