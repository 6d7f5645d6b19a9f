//! Tests of the sandbox providers: the shared contract, and the failures of each.
#![expect(clippy::unwrap_used, reason = "test helpers")]

mod daytona;
mod process;
mod registration;
mod support;
mod throw_away;
