//! The `sunaba` command.

use clap::Parser;
use edge::logging::{self, Format};
use local::cli::{Cli, Command, PolicyCommand};
use local::config::{Dev, this_executable};
use local::{branches, dev, download, keys, link, logs, messages, policy, send, tasks, ticket, verify};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    worker::cli::become_confined(std::env::args_os()).unwrap_or_else(run)
}

#[tokio::main]
async fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Dev(options) => serve(&options).await.map(|()| ExitCode::SUCCESS),
        Command::Link(options) => link::run(&options).await,
        Command::Ticket(options) => ticket::run(&options).await,
        Command::Tasks(options) => tasks::list(&options).await,
        Command::Diff(options) => branches::diff(&options).await,
        Command::Download(options) => download::download(&options).await,
        Command::Pr(options) => branches::pull_request(&options).await,
        Command::Merge(options) => branches::merge(&options).await,
        Command::Cancel(options) => tasks::cancel(&options).await,
        Command::Retry(options) => tasks::retry(&options).await,
        Command::Send(options) => send::run(&options).await,
        Command::Messages(options) => messages::list(&options).await,
        Command::Resend(options) => messages::resend(&options).await,
        Command::CancelMessage(options) => messages::cancel(&options).await,
        Command::Logs(options) => logs::run(&options).await,
        Command::Verify(options) => verify::run(&options).await,
        Command::Keys(options) => keys::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Policy(options) => match &options.command {
            PolicyCommand::Check(options) => policy::check(options),
        },
        Command::Worker(worker) => Ok(worker.main(program(), &local::agents::agents()).await),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // Without a backtrace: the cause is usually an option, not a bug.
            terminal::print_error(&format!("sunaba: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The command line of the worker, for the processes that it starts.
fn program() -> Vec<String> {
    let executable = this_executable().map_or_else(|_| "sunaba".into(), |path| path.display().to_string());
    vec![executable, "worker".into()]
}

async fn serve(options: &Dev) -> anyhow::Result<()> {
    logging::init(Format::Human, &options.log);
    // Its keys are in its memory, and agents without isolation are processes of the same user.
    confine::protect_this_process()?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let running = dev::start(options).await?;
    announce(&running.link(), &running.notices);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    running.stop().await;
    Ok(())
}

/// A single write, because a program may read the first line and close the pipe.
fn announce(link: &str, notices: &[String]) {
    let notices: String = notices.iter().map(|notice| format!("  {notice}\n")).collect();
    terminal::print(&format!("Sunaba is ready: {link}\n{notices}"));
}
