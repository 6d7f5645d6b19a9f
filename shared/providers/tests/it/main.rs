//! The providers of sandboxes: what all of them promise, and what each has to cope with.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod daytona;
mod process;
mod support;
