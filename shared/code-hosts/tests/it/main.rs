//! Tests of the code hosts: the shared contract, and the failures of each.
#![expect(clippy::unwrap_used, reason = "test helpers")]

mod apps;
mod catalogue;
mod changes;
mod chaos;
mod conflicts;
mod contract;
mod feedback;
mod github;
mod local;
mod programs;
mod pulls;
mod support;
mod trees;
