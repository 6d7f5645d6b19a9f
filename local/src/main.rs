//! The `sunaba` command.

use clap::{Parser, Subcommand};
use edge::logging::{self, Format};
use local::config::commands::{Logs, Send, Task, Tasks, Ticket};
use local::config::{Dev, this_program};
use local::{dev, logs, send, tasks, ticket};
use std::process::ExitCode;
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
    Dev(Box<Dev>),
    /// Have something done
    Ticket(Ticket),
    /// Show what there is to do
    Tasks(Tasks),
    /// Call a task off
    Cancel(Task),
    /// Ask again for a task that has failed or was called off
    Retry(Task),
    /// Say something to a working agent
    Send(Send),
    /// Show the log of a sandbox's worker
    Logs(Logs),
    /// Run an agent here, and tell the plane what it does
    Worker(worker::cli::Worker),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Dev(options) => serve(&options).await.map(|()| ExitCode::SUCCESS),
        Command::Ticket(options) => ticket::run(&options).await,
        Command::Tasks(options) => tasks::list(&options).await,
        Command::Cancel(options) => tasks::cancel(&options).await,
        Command::Retry(options) => tasks::retry(&options).await,
        Command::Send(options) => send::run(&options).await,
        Command::Logs(options) => logs::run(&options).await,
        Command::Worker(worker) => Ok(worker.main(program()).await),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // The error and its causes, without a backtrace: the user has to change an option, not the program.
            terminal::print_error(&format!("sunaba: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// How the worker calls itself when it is part of this program.
fn program() -> Vec<String> {
    let this = this_program().map_or_else(|_| "sunaba".into(), |path| path.display().to_string());
    vec![this, "worker".into()]
}

async fn serve(options: &Dev) -> anyhow::Result<()> {
    logging::init(Format::Human, &options.log);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let running = dev::start(options).await?;
    announce(&running.link(), &running.about_sandboxes);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    running.stop().await;
    Ok(())
}

/// Prints everything at once: a program may read the first line and close the pipe.
fn announce(link: &str, about: &[String]) {
    let about: String = about.iter().map(|sentence| format!("  {sentence}\n")).collect();
    terminal::print(&format!("Sunaba is ready: {link}\n{about}"));
}
