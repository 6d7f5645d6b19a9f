//! What runs inside a sandbox: it drives an agent, tells the plane everything that the agent does, and brings it what
//! people say to it.
//!
//! Four things run side by side from the first second, and none waits for another: the agent (`agents`), the way up
//! (`outbox`, a spool on disk that is sent in numbered batches), the way down (`inbox`), and the heartbeat. `session`
//! holds them together. Deliberately absent: AWS. A worker has the plane's address and a token, nothing more.

pub mod agents;
pub mod cli;
pub mod clock;
pub mod completion;
pub mod config;
pub mod event;
#[cfg(test)]
mod fake_plane;
pub mod heartbeat;
pub mod inbox;
pub mod isolation;
pub mod outbox;
pub mod platform;
pub mod preview;
pub mod run;
pub mod secret;
mod session;
pub mod state;
pub mod task;
pub mod transcript;
pub mod workspace;
