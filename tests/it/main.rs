//! The promises of the plane, each tested where it is made: over HTTP and sockets, on the real binary or the same
//! code in this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

mod access;
mod architecture;
mod catalogue;
mod chaos;
mod closed_pipe;
mod command;
mod console;
mod cost;
mod following;
mod ingest;
mod lambda;
mod messages;
mod orchestration;
mod payloads;
mod permissions;
mod reading;
mod real_cli;
mod refusals;
mod sessions;
mod settings;
mod sockets;
mod stage;
mod support;
mod tasks;
mod template;
mod tickets;
mod version;
mod worker;
