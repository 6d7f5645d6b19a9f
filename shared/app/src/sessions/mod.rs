//! Sessions: the agent's own transcript, kept so that another sandbox can resume it.

pub mod append;
pub mod read;
