//! What the integration tests stand on: a plane to start and kill, and networks that misbehave.

pub mod chaos;
pub mod cutter;
pub mod process;
