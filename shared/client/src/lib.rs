//! A client of the plane that loses nothing: [`Sender`] numbers its batches and repeats them until they are
//! stored, [`Follower`] sees every event exactly once, in order, [`Messenger`] sends each message once, and [`Inbox`]
//! takes and confirms them, whatever breaks on the way.
//!
//! The recipe in words is in `docs/protocol.md`.

mod backoff;
mod call;
mod follower;
mod inbox;
mod messenger;
mod resume;
mod sender;

pub use call::Refused;
pub use follower::{Follow, Followed, Follower, SILENCE};
pub use inbox::{Inbox, Pull, ReceiptIn};
pub use messenger::{MessageIn, Messenger};
pub use resume::Resume;
pub use sender::{EventIn, Sender};
