//! Every shape that crosses a process: HTTP bodies, WebSocket frames, jobs, notices on the bus, problem+json.
//!
//! Shapes are tolerant in what they take (unknown fields are ignored) and say exactly which field is wrong.
//! Deliberately absent: what to do with any of it.

pub mod bad_input;
pub mod events;
pub mod execution;
pub mod fields;
pub mod ingest;
pub mod jobs;
pub mod limits;
pub mod messages;
pub mod monitoring;
pub mod notice;
pub mod problem;
pub mod query;
pub mod requests;
pub mod sandboxes;
pub mod sessions;
pub mod socket;
pub mod tasks;
pub mod tickets;

pub use bad_input::BadInput;
