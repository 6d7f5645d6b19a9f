//! What the commands are told that talk to a plane.

use super::{OPERATOR_TOKEN, is_local};
use anyhow::Context;
use clap::Args;
use std::fs;
use std::path::PathBuf;

/// Which plane, and who is asking.
#[derive(Debug, Clone, Args)]
pub struct Address {
    /// Where the plane is
    #[arg(long, env = "SUNABA_URL", default_value = "http://127.0.0.1:18000")]
    pub url: String,
    /// Where its sockets are, if they are elsewhere: `wss://…`; for --watch
    #[arg(long, env = "SUNABA_SOCKETS")]
    pub sockets: Option<String>,
    /// A token that may do it; when absent and the plane is on this machine, that of its data folder
    #[arg(long, env = "SUNABA_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Folder of the local plane, which keeps its token
    #[arg(long, default_value = ".sunaba")]
    pub data: PathBuf,
}

impl Address {
    /// The plane, without a slash at the end.
    pub fn plane(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// The token to send with; `None` where none is known: a plane may ask nobody.
    pub fn token(&self) -> anyhow::Result<Option<String>> {
        // The local plane's token is nobody else's business.
        if self.token.is_some() || !is_local(&self.url) {
            return Ok(self.token.clone());
        }
        let path = self.data.join(OPERATOR_TOKEN);
        match fs::read_to_string(&path) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// Says something to a working agent.
#[derive(Debug, Clone, Args)]
pub struct Send {
    /// The sandbox
    pub sandbox: String,
    /// What to say; when absent it is read from standard input, and --interrupt and --stop say "Stop."
    pub text: Option<String>,
    /// Stop what the agent does, and have it read this; overtakes other messages
    #[arg(long, short, conflicts_with = "stop")]
    pub interrupt: bool,
    /// Stop everything, also what the agent was told and has not begun; overtakes other messages
    #[arg(long)]
    pub stop: bool,
    /// What it is meant to do: user_message, interrupt, stop, guidance or system
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "user_message",
        conflicts_with_all = ["interrupt", "stop"]
    )]
    pub message_type: String,
    /// A name for the message: sent again under the same name, it is the same message
    #[arg(long)]
    pub id: Option<String>,
    /// Stay until the agent is done with it, and show each step; fails if it is cancelled
    #[arg(long, short)]
    pub watch: bool,
    /// The plane.
    #[command(flatten)]
    pub address: Address,
}

/// Shows the log of a sandbox's worker.
#[derive(Debug, Clone, Args)]
pub struct Logs {
    /// The sandbox
    pub sandbox: String,
    /// Stay until the sandbox has ended, and show new lines as they come
    #[arg(long, short)]
    pub follow: bool,
    /// How many lines are shown at first
    #[arg(long, short = 'n', default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub lines: u32,
    /// The plane.
    #[command(flatten)]
    pub address: Address,
}

/// Has something done.
#[derive(Debug, Clone, Args)]
pub struct Ticket {
    /// What is to be done; when absent it is read from standard input
    pub text: Option<String>,
    /// The repository, as a URL or owner/name
    #[arg(long)]
    pub repo: Option<String>,
    /// Who does it: claude, acp:COMMAND, scripted:FILE; when absent, as the plane's settings say
    #[arg(long)]
    pub agent: Option<String>,
    /// The model
    #[arg(long)]
    pub model: Option<String>,
    /// The project
    #[arg(long)]
    pub project: Option<String>,
    /// How much it matters: low, medium, high or critical
    #[arg(long, default_value = "medium")]
    pub priority: String,
    /// Stay until it is done, and show each step; fails if it is not
    #[arg(long, short)]
    pub watch: bool,
    /// The plane.
    #[command(flatten)]
    pub address: Address,
}

/// Shows what there is to do.
#[derive(Debug, Clone, Args)]
pub struct Tasks {
    /// Only those in this state: pending, running, completed, failed, …
    #[arg(long)]
    pub status: Option<String>,
    /// Most that are shown
    #[arg(long, default_value_t = 20)]
    pub limit: u32,
    /// The plane.
    #[command(flatten)]
    pub address: Address,
}

/// Calls a task off, or asks for it again.
#[derive(Debug, Clone, Args)]
pub struct Task {
    /// The task
    pub task: String,
    /// The plane.
    #[command(flatten)]
    pub address: Address,
}
