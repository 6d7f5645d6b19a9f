//! The process that runs inside a sandbox. It drives a coding agent, reports everything the agent does to the control
//! plane, and delivers messages to the agent.
//!
//! Four tasks run concurrently from startup, and none blocks another: the agent (`agents`), uploads (`outbox`, a spool
//! on disk that is sent in numbered batches), messages (`inbox`) and the heartbeat. `supervisor` coordinates them.
//! Deliberately absent: AWS. A worker knows only the plane's URL and a token.

mod agent_files;
pub mod agents;
pub mod cli;
pub mod clock;
pub mod completion;
pub mod config;
pub mod confinement;
pub mod event;
#[cfg(test)]
mod fake_plane;
pub mod heartbeat;
pub mod inbox;
mod keeping;
mod namespace;
pub mod network;
pub mod outbox;
pub mod platform;
pub mod preview;
mod proc;
pub mod relay;
pub mod run;
pub mod secret;
pub mod secrets_file;
pub mod state;
mod supervisor;
pub mod task;
pub mod tasks;
pub mod transcript;
pub mod workspace;
