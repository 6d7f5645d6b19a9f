//! The `sunaba` command.

use clap::{Parser, Subcommand};
use edge::logging::{self, Format};
use local::config::Dev;
use local::dev;
use tokio::signal::unix::{SignalKind, signal};

/// Sunaba: the control plane for AI coding agents that work in sandboxes
#[derive(Debug, Parser)]
#[command(name = "sunaba", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the whole plane in this process
    Dev(Dev),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Dev(options) => {
            logging::init(Format::Human, &options.log);
            let running = dev::start(&options).await?;
            announce(&running.link());
            let (mut terminate, mut interrupt) =
                (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            running.stop().await;
            Ok(())
        }
    }
}

/// The one line on standard output: whoever started this can read it and go on.
#[expect(clippy::print_stdout, reason = "this is what the command is asked for")]
fn announce(link: &str) {
    println!("Sunaba is ready: {link}");
}
