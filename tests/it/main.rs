//! Integration tests: what the plane promises its users, tested over HTTP and sockets against the real binary or the
//! same code in this process.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test at the right line")]

mod access;
mod agents;
mod api_document;
mod architecture;
mod chaos;
mod closed_pipe;
mod command;
mod console;
mod cost;
mod documents;
mod ended_sandbox;
mod escape;
mod follower;
mod harness;
mod ingest;
mod lambda;
mod large_events;
mod message_commands;
mod messages;
mod orchestration;
mod pagination;
mod payloads;
mod permissions;
mod policy_command;
mod principals;
mod quotas;
mod real_cli;
mod rejections;
mod sessions;
mod settings;
mod sign_in;
mod sockets;
mod support;
mod tasks;
mod template;
mod throw_away_provider;
mod tickets;
mod unknown_events;
mod verification;
mod version;
mod worker;
