//! The data of each event type that the plane and its worker emit: one type per event.
//!
//! [`catalogue`](super::catalogue) has the list of event types with their payloads. `contract::payloads` is the name
//! under which other crates use these types; they are defined here because rules emit and read them.
//!
//! A payload is for reading the data of an event. The plane stores and returns the data as it was sent, so fields and
//! event types that this version does not know are kept. Fields that other workers name differently (OmoiOS, and older
//! versions of our own) have these names as aliases.

pub mod agent;
pub mod calls;
pub mod feedback;
pub mod iteration;
pub mod merge;
pub mod message;
pub mod preview;
pub mod report;
pub mod sandbox;
pub mod task;
pub mod ticket;
pub mod worker;
pub mod workspace;

pub use agent::*;
pub use calls::*;
pub use feedback::*;
pub use iteration::*;
pub use merge::*;
pub use message::*;
pub use preview::*;
pub use report::*;
pub use sandbox::*;
pub use task::*;
pub use ticket::*;
pub use worker::*;
pub use workspace::*;
