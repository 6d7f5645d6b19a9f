//! Clients of the control plane that survive lost connections and lost responses.
//!
//! | type | does |
//! |---|---|
//! | [`EventSender`] | sends numbered batches and retries each until it is stored |
//! | [`Follower`] | receives every event of a log exactly once, in order |
//! | [`Messenger`] | sends messages to an agent, each exactly once |
//! | [`Inbox`] | pulls an agent's messages and acknowledges them |
//! | [`Transcripts`] | reads an agent's session transcript |
//! | [`SandboxApi`], [`WakeUpSocket`] | for a worker: single attempts (the worker's spool retries) and a wake-up signal |
//! | [`Plane`] | for command-line tools |
//!
//! `docs/protocol.md` describes the protocol.

mod backoff;
mod call;
mod event_sender;
mod follower;
mod http;
mod inbox;
mod messenger;
mod plane;
mod reorder_buffer;
mod sandbox_api;
#[cfg(test)]
mod tls_tests;
mod transcripts;
mod wake_up;

pub use backoff::Wait;
pub use call::{Attempt, CODE_HOST_UNAVAILABLE, Failed, Refused};
pub use contract::sandboxes::GitAccess;
pub use domain::backoff::Backoff;
pub use event_sender::{EventIn, EventSender};
pub use follower::{Follow, Followed, Follower, IDLE_TIMEOUT};
pub use inbox::{Inbox, Pull, ReceiptIn};
pub use messenger::{MessageIn, Messenger};
pub use plane::Plane;
pub use reorder_buffer::ReorderBuffer;
pub use sandbox_api::SandboxApi;
pub use transcripts::Transcripts;
pub use wake_up::{WakeUpOptions, WakeUpSocket};
