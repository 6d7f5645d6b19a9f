//! The `sunaba-worker` and `sunaba worker` commands.

use crate::agents::scripted::{self, PlayArguments};
use crate::config::{Config, Problem, environment, variables};
use crate::isolation;
use crate::platform;
use crate::run::run;
use crate::workspace::credential;
use clap::{Args, Subcommand};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal::{print_error, print_line};
use tokio::io::BufReader;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Run a coding agent in this sandbox and report its events to the control plane
#[derive(Debug, Args)]
#[command(after_help = variables::help())]
pub struct Worker {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the worker (the default)
    Run,
    /// Print the resolved configuration and all configuration problems
    Check,
    /// Play a script as if it were Claude Code (started by the worker)
    #[command(hide = true, disable_help_flag = true)]
    Play {
        /// Script, followed by the arguments of the Claude Code CLI
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Git credential helper (started by git)
    #[command(hide = true)]
    Credential {
        /// `get`, `store` or `erase`
        operation: String,
    },
}

impl Worker {
    /// Runs the subcommand. `program` is the command line of this program, used to start it again as a child.
    pub async fn main(self, program: Vec<String>) -> ExitCode {
        match self.command.unwrap_or(Command::Run) {
            Command::Run => run_worker(program).await,
            Command::Check => check(),
            Command::Play { arguments } => play(arguments).await,
            Command::Credential { operation } => forward_credential_request(&operation),
        }
    }
}

async fn run_worker(program: Vec<String>) -> ExitCode {
    let (config, problems) = Config::read(&environment());
    let Some(config) = config else {
        print_problems(&problems);
        return ExitCode::from(2);
    };
    if let Some(policy) = &config.isolation {
        let error = isolation::reexec(policy, &program);
        return fail(&format!("ISOLATION is set but cannot be enforced: {error:#}"));
    }
    init_logging(&config.log);
    if let Some(limitations) = platform::limitations() {
        tracing::warn!("{limitations}");
    }
    for problem in problems {
        tracing::warn!("{problem}");
    }
    let (stop_sender, stop) = watch::channel(false);
    let signals =
        signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
    let Ok((mut terminate, mut interrupt)) = signals else {
        return fail("cannot install signal handlers");
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stop_sender.send(true);
        // A second signal exits immediately.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    match run(config, program, stop).await {
        Ok(code) => code,
        Err(error) => fail(&format!("{error:#}")),
    }
}

fn check() -> ExitCode {
    let (config, problems) = Config::read(&environment());
    if let Some(config) = &config {
        for (name, value) in config.describe() {
            print_line(&format!("{name:<12} {value}"));
        }
    }
    if let Some(limitations) = platform::limitations() {
        print_line(&format!("\nnote: {limitations}"));
    }
    let missing = config.as_ref().and_then(missing_program);
    let problems: Vec<Problem> = problems.into_iter().chain(missing).collect();
    if !problems.is_empty() {
        print_line("");
    }
    for problem in &problems {
        print_line(&format!("{} {problem}", if problem.is_warning { "warning:" } else { "error:" }));
    }
    if problems.iter().any(|problem| !problem.is_warning) { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Checks that the agent's program exists.
fn missing_program(config: &Config) -> Option<Problem> {
    use crate::config::Agent;
    let (program, variable) = match &config.agent {
        Agent::Claude => (config.claude_path.clone(), "CLAUDE_PATH"),
        Agent::Acp(command) => (command.first()?.clone(), "AGENT"),
        Agent::Scripted(script) => {
            let message = scripted::load(script).err()?;
            return Some(Problem { variable: "AGENT".into(), message, is_warning: false });
        }
    };
    let found = if program.contains('/') {
        PathBuf::from(&program).is_file()
    } else {
        let path = environment().get("PATH").cloned().unwrap_or_default();
        path.split(':').any(|directory| PathBuf::from(directory).join(&program).is_file())
    };
    let message = format!("program {program:?} not found");
    (!found).then(|| Problem { variable: variable.into(), message, is_warning: false })
}

async fn play(arguments: Vec<String>) -> ExitCode {
    let environment = environment();
    let arguments =
        PlayArguments::parse(&arguments).and_then(|arguments| arguments.in_environment(&environment));
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(why) => return fail(&why),
    };
    let stdin = BufReader::new(tokio::io::stdin());
    let code = scripted::play(arguments, stdin, tokio::io::stdout()).await;
    // A pending read of standard input cannot be cancelled.
    std::process::exit(code)
}

/// Forwards a credential request from git to the running worker.
fn forward_credential_request(operation: &str) -> ExitCode {
    let environment = environment();
    let Some(socket) = environment.get(credential::SOCKET_VARIABLE) else {
        return fail("no worker is running to provide git credentials");
    };
    match credential::request(Path::new(socket), operation, std::io::stdin(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&format!("the worker did not provide credentials: {why}")),
    }
}

fn init_logging(filter: &str) {
    let filter =
        filter.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
}

fn print_problems(problems: &[Problem]) {
    for problem in problems {
        print_error(&format!("sunaba-worker: {problem}"));
    }
}

fn fail(why: &str) -> ExitCode {
    print_error(&format!("sunaba-worker: {why}"));
    ExitCode::FAILURE
}
