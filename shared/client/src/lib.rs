//! A client of the plane that loses nothing: [`Sender`] numbers its batches and repeats them until they are
//! stored, [`Follower`] sees every event exactly once, in order, [`Messenger`] sends each message once, [`Inbox`] takes
//! and confirms them, and [`Transcripts`] reads an agent's own record, whatever breaks on the way. A worker, which has a
//! spool and a plan of its own for what is not answered, asks through [`Once`] and is woken by a [`Bell`]. A person at a
//! terminal asks through [`Plane`].
//!
//! The recipe in words is in `docs/protocol.md`.

mod backoff;
mod bell;
mod call;
mod follower;
mod http;
mod inbox;
mod messenger;
mod once;
mod plane;
mod resume;
mod sender;
#[cfg(test)]
mod tls_tests;
mod transcripts;

pub use backoff::Backoff;
pub use bell::{Bell, Hang};
pub use call::{Attempt, Failed, Refused};
pub use follower::{Follow, Followed, Follower, SILENCE};
pub use inbox::{Inbox, Pull, ReceiptIn};
pub use messenger::{MessageIn, Messenger};
pub use once::Once;
pub use plane::Plane;
pub use resume::Resume;
pub use sender::{EventIn, Sender};
pub use transcripts::Transcripts;
