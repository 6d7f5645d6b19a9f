//! The command line of `sunaba`. `docs/cli.md` is generated from it.

use crate::config::Dev;
use crate::config::commands::{
    Diff, Download, Keys, Link, Logs, Merge, Message, Messages, PolicyCheck, PullRequest, Send, Task, Tasks,
    Ticket, Verify,
};
use clap::{Args, Parser, Subcommand};

/// Sunaba: a control plane for AI coding agents in sandboxes
#[derive(Debug, Parser)]
#[command(name = "sunaba", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the control plane in this process
    Dev(Box<Dev>),
    /// Print a new link that signs a browser in to the console
    Link(Link),
    /// Create a ticket
    Ticket(Ticket),
    /// List tasks
    Tasks(Tasks),
    /// Cancel a task
    Cancel(Task),
    /// Retry a task that has failed or was cancelled
    Retry(Task),
    /// Print what a task has changed on its branch
    Diff(Diff),
    Download(Download),
    /// Show the pull request of a task, its checks, and whether it can be merged
    Pr(PullRequest),
    /// Merge the pull request of a task, or all finished branches of a ticket
    Merge(Merge),
    /// Send a message to a running agent
    Send(Send),
    /// List the messages of a sandbox and their delivery state
    Messages(Messages),
    /// Send an undeliverable message again
    Resend(Message),
    /// Cancel a message that no worker has acknowledged
    CancelMessage(Message),
    /// Print the log of a sandbox's worker
    Logs(Logs),
    /// Verify that the log of a sandbox was not changed after it was stored
    Verify(Verify),
    /// Make the keys of a plane on AWS and print them as JSON
    Keys(Keys),
    /// Check a policy file
    Policy(Policy),
    /// Run an agent in this sandbox and report its events to the control plane
    Worker(worker::cli::Worker),
}

#[derive(Debug, Args)]
pub struct Policy {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print all errors in a policy file, or the policies that apply to tasks
    Check(PolicyCheck),
}
