//! The `sunaba-worker` binary.

use clap::Parser;
use std::process::ExitCode;

/// Run a coding agent in this sandbox and report its events to the control plane
#[derive(Debug, Parser)]
#[command(name = "sunaba-worker", version, about)]
struct Cli {
    #[command(flatten)]
    worker: worker::cli::Worker,
}

fn main() -> ExitCode {
    worker::cli::become_confined(std::env::args_os()).unwrap_or_else(run)
}

// One thread: the worker is mostly idle, and the sandbox's memory belongs to the agent.
#[tokio::main(flavor = "current_thread")]
async fn run() -> ExitCode {
    let program =
        std::env::current_exe().map_or_else(|_| "sunaba-worker".into(), |path| path.display().to_string());
    Cli::parse().worker.main(vec![program], worker::agents::AGENTS).await
}
