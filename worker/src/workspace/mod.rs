//! The folder that an agent works in.

pub mod diff;
pub(crate) mod git;
mod patch;
pub(crate) mod process;
mod shadow;
pub mod snapshot;
