//! A client of the plane that loses nothing: [`Sender`] numbers its batches and repeats them until they are
//! stored, [`Follower`] sees every event exactly once, in order, whatever breaks on the way.
//!
//! The recipe in words is in `docs/protocol.md`.

mod backoff;
mod follower;
mod resume;
mod sender;

pub use follower::{Follow, Followed, Follower, SILENCE};
pub use resume::Resume;
pub use sender::{EventIn, SendError, Sender};
