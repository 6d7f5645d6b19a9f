//! The one-process host: the same entry points as on Lambda, on an AWS that lives in this process.

pub mod aws;
pub mod config;
pub mod console;
pub mod dev;
pub mod hosts;
pub mod logs;
pub mod sandboxes;
pub mod send;
pub mod tasks;
pub mod ticket;

/// A line for whoever runs a command.
#[expect(clippy::print_stdout, reason = "this is what the command is asked for")]
fn say(line: &str) {
    println!("{line}");
}
