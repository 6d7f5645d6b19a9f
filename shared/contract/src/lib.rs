//! Every data format that crosses a process boundary: HTTP bodies, WebSocket frames, jobs, events on EventBridge,
//! problem+json.
//!
//! Decoders ignore unknown fields and name the field that is invalid. Deliberately absent: business rules.

pub mod agent;
pub mod bad_input;
pub mod branch_workflow;
pub mod event_bus;
pub mod events;
pub mod execution;
pub mod fields;
pub mod ingest;
pub mod jobs;
pub mod limits;
pub mod messages;
pub mod monitoring;
pub mod payloads;
pub mod policy;
pub mod problem;
mod problem_code;
pub mod query;
pub mod repositories;
pub mod repository;
pub mod requests;
pub mod sandboxes;
pub mod sessions;
pub mod sign_in;
pub mod socket;
mod socket_code;
pub mod tasks;
pub mod tickets;
pub mod webhooks;
pub mod workspaces;

pub use agent::AgentDefinition;
pub use bad_input::BadInput;
pub use problem_code::ProblemCode;
pub use socket_code::SocketCode;
