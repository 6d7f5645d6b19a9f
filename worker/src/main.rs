//! The `sunaba-worker` binary.

use clap::Parser;
use std::process::ExitCode;

/// Runs an agent in this sandbox, and tells the plane what it does
#[derive(Debug, Parser)]
#[command(name = "sunaba-worker", version, about)]
struct Cli {
    #[command(flatten)]
    worker: worker::cli::Worker,
}

// One thread: a worker waits most of the time, and a sandbox's memory belongs to its agent.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let program =
        std::env::current_exe().map_or_else(|_| "sunaba-worker".into(), |path| path.display().to_string());
    Cli::parse().worker.main(vec![program]).await
}
