//! Options of the commands that talk to a plane.

use super::{OPERATOR_TOKEN, is_local, plane_directory};
use anyhow::Context;
use clap::Args;
use contract::messages::MAX_HISTORY;
use std::fs;
use std::path::PathBuf;

pub const DEFAULT_URL: &str = "http://127.0.0.1:18000";
pub const DEFAULT_DATA: &str = ".sunaba";

/// Address of a plane, and the token for it.
#[derive(Debug, Clone, Args)]
pub struct Address {
    /// URL of the control plane
    #[arg(long, env = "SUNABA_URL", default_value = DEFAULT_URL)]
    pub url: String,
    /// WebSocket URL of the control plane, if different: `wss://…`; used by --watch
    #[arg(long, env = "SUNABA_SOCKETS")]
    pub sockets: Option<String>,
    /// API token [default: for a plane on this machine, the token in its data directory]
    #[arg(long, env = "SUNABA_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Data directory of the local plane, which contains its token
    #[arg(long, default_value = DEFAULT_DATA)]
    pub data: PathBuf,
}

impl Address {
    /// URL without a trailing slash.
    pub fn plane(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// `None` if there is no token: the plane may run without authentication.
    pub fn token(&self) -> anyhow::Result<Option<String>> {
        // The token of the local plane must not be sent to another host.
        if self.token.is_some() || !is_local(&self.url) {
            return Ok(self.token.clone());
        }
        let path = plane_directory(&self.data).join(OPERATOR_TOKEN);
        match fs::read_to_string(&path) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// Make the keys of a plane on AWS, and print them as JSON.
#[derive(Debug, Clone, Args)]
pub struct Keys {
    /// Make the token of an operator of this name, and its hash for Secrets Manager [default: make the key of worker tokens]
    #[arg(long, value_name = "NAME")]
    pub operator: Option<String>,
}

/// Print a new link that signs a browser in to the console of a local plane.
#[derive(Debug, Clone, Args)]
pub struct Link {
    #[command(flatten)]
    pub address: Address,
}

/// Send a message to a running agent.
#[derive(Debug, Clone, Args)]
pub struct Send {
    /// Sandbox id
    pub sandbox: String,
    /// Message text [default: read from standard input; "Stop." with --interrupt and --stop]
    pub text: Option<String>,
    /// Interrupt the current turn and deliver this message before all others
    #[arg(long, short, conflicts_with = "stop")]
    pub interrupt: bool,
    /// Interrupt the current turn and discard messages that the agent has not started; delivered before all others
    #[arg(long)]
    pub stop: bool,
    /// Message type: user_message, interrupt, stop, guidance or system
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "user_message",
        conflicts_with_all = ["interrupt", "stop"]
    )]
    pub message_type: String,
    /// Message id, for idempotent retries
    #[arg(long)]
    pub id: Option<String>,
    /// Wait until the agent has completed the message and print each receipt; fails if it is cancelled or undeliverable
    #[arg(long, short)]
    pub watch: bool,
    #[command(flatten)]
    pub address: Address,
}

/// List the messages of a sandbox.
#[derive(Debug, Clone, Args)]
pub struct Messages {
    /// Sandbox id
    pub sandbox: String,
    /// Number of messages: the newest, at most 100
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=MAX_HISTORY as i64))]
    pub limit: u32,
    #[command(flatten)]
    pub address: Address,
}

/// Send a message again, or cancel it.
#[derive(Debug, Clone, Args)]
pub struct Message {
    /// Sandbox id
    pub sandbox: String,
    /// Message id
    pub message: String,
    #[command(flatten)]
    pub address: Address,
}

/// Print the log of a sandbox's worker.
#[derive(Debug, Clone, Args)]
pub struct Logs {
    /// Sandbox id
    pub sandbox: String,
    /// Print new lines until the sandbox has ended
    #[arg(long, short)]
    pub follow: bool,
    /// Number of lines to print first
    #[arg(long, short = 'n', default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub lines: u32,
    #[command(flatten)]
    pub address: Address,
}

/// Verify the log of a sandbox.
#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// Sandbox id
    pub sandbox: String,
    /// Hash of the log at an event, from an event on the bus: the log must still have it
    #[arg(long, value_name = "SEQ:HASH")]
    pub checkpoint: Option<String>,
    /// Accept that the first events have no hash, because an earlier version stored them. Otherwise the command
    /// fails: removing the hashes must not hide a change
    #[arg(long)]
    pub allow_unhashed: bool,
    #[command(flatten)]
    pub address: Address,
}

/// Check a policy file.
#[derive(Debug, Clone, Args)]
pub struct PolicyCheck {
    /// Policy file, in JSON
    pub file: PathBuf,
    /// Print only the policy of tasks of this project
    #[arg(long, value_name = "ORG/PROJECT")]
    pub project: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Create a ticket.
#[derive(Debug, Clone, Args)]
pub struct Ticket {
    /// Description of the change [default: read from standard input]
    pub text: Option<String>,
    /// Repository: a URL, owner/name, or a directory of this machine, such as `.`
    #[arg(long)]
    pub repo: Option<String>,
    /// Branch that the work starts from and goes back to [default: that of the repository]
    #[arg(long)]
    pub base: Option<String>,
    /// Agent: a name in the operator's list, such as claude [default: the agent of the control plane]
    #[arg(long)]
    pub agent: Option<String>,
    /// Model of the agent
    #[arg(long)]
    pub model: Option<String>,
    /// Project id
    #[arg(long)]
    pub project: Option<String>,
    /// Priority: low, medium, high or critical
    #[arg(long, default_value = "medium")]
    pub priority: String,
    /// Wait until the task has finished and print its progress; fails if the task fails
    #[arg(long, short)]
    pub watch: bool,
    #[command(flatten)]
    pub address: Address,
}

/// List tasks.
#[derive(Debug, Clone, Args)]
pub struct Tasks {
    /// Filter by status: pending, running, completed, failed, …
    #[arg(long)]
    pub status: Option<String>,
    /// Maximum number of tasks
    #[arg(long, default_value_t = 20)]
    pub limit: u32,
    #[command(flatten)]
    pub address: Address,
}

/// Name a task.
#[derive(Debug, Clone, Args)]
pub struct Task {
    /// Task id
    pub task: String,
    #[command(flatten)]
    pub address: Address,
}

/// Show the pull request of a task.
#[derive(Debug, Clone, Args)]
pub struct PullRequest {
    /// Task id
    pub task: String,
    /// Open it first, or update its description
    #[arg(long)]
    pub open: bool,
    /// Let the agent work on the feedback that is left to a person
    #[arg(long = "continue")]
    pub go_on: bool,
    #[command(flatten)]
    pub address: Address,
}

/// Merge the pull request of a task, or all finished branches of a ticket.
#[derive(Debug, Clone, Args)]
pub struct Merge {
    /// Task id; or ticket id, for all its finished branches one after the other
    pub task: String,
    /// With a ticket: a conflict becomes a task for an agent
    #[arg(long)]
    pub resolve: bool,
    /// How to merge: one commit, a commit with two parents, or the commits of the branch on top of the base
    #[arg(long, value_parser = ["squash", "merge", "rebase"], default_value = "squash")]
    pub method: String,
    /// The newest commit that you have reviewed; if there is a newer one, nothing is merged
    #[arg(long)]
    pub commit: Option<String>,
    /// Keep the branch afterwards
    #[arg(long)]
    pub keep_branch: bool,
    #[command(flatten)]
    pub address: Address,
}

/// Download the work of a task that is not in a repository.
#[derive(Debug, Clone, Args)]
pub struct Download {
    /// Task id
    pub task: String,
    /// Download the changes as a patch for `git apply`
    #[arg(long, conflicts_with = "bundle")]
    pub patch: bool,
    /// Download commits that the code host did not get, for `git fetch`
    #[arg(long)]
    pub bundle: bool,
    /// File to write; - for standard output [default: the task id, in the current directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Number of the attempt [default: the latest that kept any work]
    #[arg(long, value_name = "NUMBER")]
    pub attempt: Option<u32>,
    #[command(flatten)]
    pub address: Address,
}

/// Print what a task has changed.
#[derive(Debug, Clone, Args)]
pub struct Diff {
    /// Task id
    pub task: String,
    /// Print the number of changed lines of each file only
    #[arg(long)]
    pub stat: bool,
    #[command(flatten)]
    pub address: Address,
}
