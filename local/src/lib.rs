//! The single-process host: the same entry points as on Lambda, on an in-process AWS.

pub mod agents;
pub mod aws;
pub mod branches;
pub mod cli;
pub mod config;
pub mod console;
mod data_directory;
pub mod dev;
pub mod download;
pub mod hosts;
pub mod keys;
pub mod link;
pub mod logs;
pub mod messages;
pub mod policy;
pub mod sandboxes;
pub mod send;
pub mod tasks;
pub mod ticket;
pub mod ticket_merge;
pub mod verify;
