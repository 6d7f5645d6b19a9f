//! The `sunaba-worker` and `sunaba worker` commands.

use crate::agents::{AgentKind, PROGRAM_COMMAND};
use crate::config::{Config, Problem, environment, variables};
use crate::namespace::BRIDGE_COMMAND;
use crate::platform;
use crate::run::run;
use crate::secrets_file;
use clap::{Args, Subcommand};
use egress::bridge::{self, Bridge};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use terminal::{print_error, print_line};
use tokio::signal::unix::{Signal, SignalKind, signal};
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
    /// Run an agent that is part of this program (started by the worker)
    #[command(name = PROGRAM_COMMAND, hide = true, disable_help_flag = true)]
    Agent {
        /// Name of the agent, followed by its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Connect the network namespace of an agent with sockets of the worker (started by the worker)
    #[command(name = BRIDGE_COMMAND, hide = true)]
    Bridge {
        /// `<port>=<socket>` and `inbound=<socket>`
        arguments: Vec<String>,
    },
}

impl Worker {
    /// Runs the subcommand with these agents. `program` is the command line of this program, used to start it again as a
    /// child.
    pub async fn main(self, program: Vec<String>, agents: &[&'static AgentKind]) -> ExitCode {
        match self.command.unwrap_or(Command::Run) {
            Command::Run => run_worker(program, agents).await,
            Command::Check => check(agents),
            Command::Agent { arguments } => run_agent(arguments, agents).await,
            Command::Bridge { arguments } => run_bridge(&arguments).await,
        }
    }
}

async fn run_worker(program: Vec<String>, agents: &[&'static AgentKind]) -> ExitCode {
    let environment = match complete_environment(agents) {
        Ok(environment) => environment,
        Err(why) => return fail(&why),
    };
    let (config, problems) = Config::read(&environment, agents);
    let Some(config) = config else {
        print_problems(&problems);
        return ExitCode::from(2);
    };
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
    let Ok((terminate, interrupt)) = signals else {
        return fail("cannot install signal handlers");
    };
    // Its own task: in a program with several threads, a second signal is handled even while the worker blocks one.
    let signals = tokio::spawn(handle_signals(terminate, interrupt, stop_sender));
    tokio::select! {
        ended = run(config, program, stop) => match ended {
            Ok(code) => code,
            Err(error) => fail(&format!("{error:#}")),
        },
        Err(why) = signals => fail(&format!("the signal handler failed: {why}")),
    }
}

/// The variables of this process and those of `SECRETS_FILE`. From here on, the agent cannot read them from this process.
fn complete_environment(agents: &[&'static AgentKind]) -> Result<BTreeMap<String, String>, String> {
    let mut environment = environment();
    // First, because afterwards this process cannot open its own standard input by name either.
    let read = secrets_file::read_into(&mut environment, agents);
    confine::protect_this_process().map_err(|why| format!("cannot protect the worker's memory: {why}"))?;
    read.map_err(|why| format!("{why:#}"))?;
    Ok(environment)
}

/// Becomes a confined program, if this process was started for that. Restrictions apply to a thread, so this comes before
/// any other is started. `arguments` are those of this process.
pub fn become_confined(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1).peekable();
    arguments.next_if(|argument| argument == "worker");
    let command = arguments
        .next_if(|argument| argument == confine::HELPER_COMMAND || argument == confine::ENTER_COMMAND)?;
    let arguments: Vec<_> = arguments.collect();
    let why = if command == confine::HELPER_COMMAND {
        confine::become_program(&arguments)
    } else {
        confine::enter_namespace(&arguments)
    };
    print_error(&format!("sunaba-worker: {why:#}"));
    Some(ExitCode::from(CANNOT_EXECUTE))
}

/// The exit code with which shells report a program that cannot be executed.
const CANNOT_EXECUTE: u8 = 126;

/// The first signal requests a stop. The second exits immediately.
async fn handle_signals(mut terminate: Signal, mut interrupt: Signal, stop: watch::Sender<bool>) {
    for is_first in [true, false] {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if is_first {
            let _ = stop.send(true);
        }
    }
    std::process::exit(130)
}

fn check(agents: &[&'static AgentKind]) -> ExitCode {
    let (config, problems) = Config::read(&environment(), agents);
    if let Some(config) = &config {
        for (name, value) in config.describe() {
            print_line(&format!("{name:<12} {value}"));
        }
    }
    if let Some(limitations) = platform::limitations() {
        print_line(&format!("\nnote: {limitations}"));
    }
    let path = environment().get("PATH").cloned().unwrap_or_default();
    let missing = config.as_ref().and_then(|config| config.agent.check(&path).err());
    let problems: Vec<Problem> = problems.into_iter().chain(missing).collect();
    if !problems.is_empty() {
        print_line("");
    }
    for problem in &problems {
        print_line(&format!("{} {problem}", if problem.is_warning { "warning:" } else { "error:" }));
    }
    if problems.iter().any(|problem| !problem.is_warning) { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Runs the program of an agent, as its own process.
async fn run_agent(mut arguments: Vec<String>, agents: &[&'static AgentKind]) -> ExitCode {
    if arguments.is_empty() {
        return fail("no agent given");
    }
    let name = arguments.remove(0);
    let kind = agents.iter().find(|kind| kind.name == name);
    match kind.and_then(|kind| kind.program) {
        Some(program) => program(arguments).await,
        None => fail(&format!("this program contains no agent {name:?}")),
    }
}

/// Prints a line with the number of this process when the bridge accepts connections.
async fn run_bridge(arguments: &[String]) -> ExitCode {
    let Some(bridge) = Bridge::parse(arguments) else {
        return fail("an argument of the bridge is invalid");
    };
    let ready = || print_line(&format!("ready {}", std::process::id()));
    match bridge::run(bridge, ready).await {
        Err(why) => fail(&format!("the bridge cannot listen: {why}")),
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
