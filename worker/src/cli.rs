//! The command: `sunaba-worker`, and `sunaba worker`.

use crate::agents::scripted::{self, PlayArguments};
use crate::config::{Config, Problem, environment};
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

/// Runs an agent in this sandbox, and tells the plane what it does
#[derive(Debug, Args)]
#[command(after_help = VARIABLES)]
pub struct Worker {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the worker (the default)
    Run,
    /// Print what the worker would use, and every problem at once
    Check,
    /// Play a script as if it were Claude Code (started by the worker)
    #[command(hide = true, disable_help_flag = true)]
    Play {
        /// The script, and the CLI's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Give git its credentials (started by git)
    #[command(hide = true)]
    Credential {
        /// `get`, `store` or `erase`
        operation: String,
    },
}

const VARIABLES: &str = "\
Environment (`check` shows what is made of it):
  SANDBOX_ID, SANDBOX_TOKEN, CALLBACK_URL    who this is, and where the plane is
  SOCKET_URL                                 where its sockets are, if elsewhere (on AWS)
  AGENT                                      claude (default) | acp:<command> | openhands | scripted:<file or name>
  TASK_DESCRIPTION, INITIAL_PROMPT, TICKET_TITLE, TICKET_DESCRIPTION, TASK_DATA_BASE64
                                             what is to be done; without any of them the agent waits to be told
  CWD                                        where to work (default: here)
  GITHUB_REPO or REPOSITORY_URL, BRANCH_NAME, GITHUB_TOKEN
                                             the code to work on
  MODEL, ANTHROPIC_*, MAX_TURNS, MAX_BUDGET_USD, SYSTEM_PROMPT, SYSTEM_PROMPT_APPEND, SETTING_SOURCES
  PERMISSION_MODE, ALLOWED_TOOLS, DISALLOWED_TOOLS
  RESUME_SESSION_ID, FORK_SESSION            go on with a session, or with a copy of it
  CONTINUOUS_MODE, MAX_ITERATIONS, MAX_TOTAL_COST_USD, MAX_DURATION_SECONDS, MAX_CONSECUTIVE_ERRORS,
  COMPLETION_SIGNAL, COMPLETION_THRESHOLD    go on until it is done, within limits
  REQUIRE_CLEAN_GIT, REQUIRE_CODE_PUSHED, REQUIRE_PR_CREATED, TEST_COMMAND
                                             what must hold then
  HEARTBEAT_INTERVAL, PREVIEW_ENABLED, PARTIAL_MESSAGES, SPOOL_MAX_MB, STATE_DIR, EXIT_WHEN_DONE, LOG
  ISOLATION, ISOLATION_READABLE              files | files,network: stay inside of its own folders, and what it may read";

impl Worker {
    /// Does it. `program` is how this program is called, for the parts of it that it starts again.
    pub async fn main(self, program: Vec<String>) -> ExitCode {
        match self.command.unwrap_or(Command::Run) {
            Command::Run => work(program).await,
            Command::Check => check(),
            Command::Play { arguments } => play(arguments).await,
            Command::Credential { operation } => give_credential(&operation),
        }
    }
}

async fn work(program: Vec<String>) -> ExitCode {
    let (config, problems) = Config::read(&environment());
    let Some(config) = config else {
        complain(&problems);
        return ExitCode::from(2);
    };
    if let Some(walls) = &config.walls {
        let why = isolation::enter(walls, &program);
        return fail(&format!("ISOLATION was asked for, and is not possible: {why:#}"));
    }
    log(&config.log);
    if let Some(limitations) = platform::limitations() {
        tracing::warn!("{limitations}");
    }
    for problem in problems {
        tracing::warn!("{problem}");
    }
    let (tell, stop) = watch::channel(false);
    let signals =
        signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
    let Ok((mut terminate, mut interrupt)) = signals else {
        return fail("this system does not let the worker wait for signals");
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = tell.send(true);
        // A second one means at once.
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    match run(config, program, stop).await {
        Ok(code) => code,
        Err(why) => fail(&format!("{why:#}")),
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
        print_line(&format!("\nnote:  {limitations}"));
    }
    let missing = config.as_ref().and_then(missing_program);
    let problems: Vec<Problem> = problems.into_iter().chain(missing).collect();
    if !problems.is_empty() {
        print_line("");
    }
    for problem in &problems {
        print_line(&format!("{} {problem}", if problem.harmless { "note: " } else { "wrong:" }));
    }
    if problems.iter().any(|problem| !problem.harmless) { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Whether the agent's program can be found.
fn missing_program(config: &Config) -> Option<Problem> {
    use crate::config::Agent;
    let (program, variable) = match &config.agent {
        Agent::Claude => (config.claude.clone(), "CLAUDE_PATH"),
        Agent::Acp(command) => (command.first()?.clone(), "AGENT"),
        Agent::Scripted(script) => {
            let what = scripted::load(script).err()?;
            return Some(Problem { variable: "AGENT".into(), what, harmless: false });
        }
    };
    let found = if program.contains('/') {
        PathBuf::from(&program).is_file()
    } else {
        let path = environment().get("PATH").cloned().unwrap_or_default();
        path.split(':').any(|folder| PathBuf::from(folder).join(&program).is_file())
    };
    let what = format!("there is no program {program:?}");
    (!found).then(|| Problem { variable: variable.into(), what, harmless: false })
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
    // A read of the real standard input cannot be called off.
    std::process::exit(code)
}

/// Passes git's question on to the worker that serves it.
fn give_credential(operation: &str) -> ExitCode {
    let environment = environment();
    let Some(socket) = environment.get(credential::SOCKET_VARIABLE) else {
        return fail("git asked for credentials, and no worker is there to give them");
    };
    match credential::ask(Path::new(socket), operation, std::io::stdin(), std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&format!("the worker gives no credentials: {why}")),
    }
}

fn log(filter: &str) {
    let filter =
        filter.parse::<Targets>().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
}

fn complain(problems: &[Problem]) {
    for problem in problems {
        print_error(&format!("sunaba-worker: {problem}"));
    }
}

fn fail(why: &str) -> ExitCode {
    print_error(&format!("sunaba-worker: {why}"));
    ExitCode::FAILURE
}
