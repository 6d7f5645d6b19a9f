//! The interface between the worker and its agents. An agent is a folder that implements [`Agent`], and a line in a list
//! of [`AgentKind`]s. The supervisor uses nothing else of it.

use super::policy::Policy;
use super::{AgentHandle, LastTurn};
use crate::config::variables::Variable;
use crate::config::{Problem, Reader};
use crate::event::Event;
use confine::Launcher;
use contract::agent::either;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;
use uuid::Uuid;

/// An agent that a worker can be configured with. Programs that contain a worker have a list of them.
pub struct AgentKind {
    /// Value of `AGENT`, or the part before a colon.
    pub name: &'static str,
    /// What follows the colon, such as `<command>`. `None` if nothing does.
    pub argument: Option<&'static str>,
    /// Heading of its variables in the help text.
    pub title: &'static str,
    /// Variables that only this agent has.
    pub variables: &'static [Variable],
    /// Those of its variables whose values are redacted from everything that is sent.
    pub secrets: &'static [&'static str],
    /// Beginnings of the names of further variables that it receives.
    pub prefixes: &'static [&'static str],
    /// Those of its variables that hold URLs to which it connects.
    pub urls: &'static [&'static str],
    /// Services to which it sends keys. It receives worthless keys, and endpoints of the worker that replace them.
    pub services: &'static [Service],
    /// Those of its variables that hold directories to which it writes. When it is isolated, they stay writable.
    pub directories: &'static [&'static str],
    /// Reads the settings of the agent. Reports problems to the reader, and returns `None` if one is an error.
    pub configure: fn(&mut Reader<'_>, argument: &str) -> Option<Box<dyn Agent>>,
    /// The agent itself, if it is part of the worker's executable. It runs as a separate process:
    /// see [`Launch::own_program`].
    pub program: Option<fn(Vec<String>) -> ProgramFuture>,
}

/// A service that agents use with a key, such as the API of a model.
#[derive(Debug)]
pub struct Service {
    /// First segment of the endpoint's path.
    pub name: &'static str,
    /// The variable with its URL. The agent receives that of the endpoint in it.
    pub url: &'static str,
    /// Its URL, if the variable is not set.
    pub default_url: fn(&Reader<'_>) -> &'static str,
    /// The variables with its keys, and how clients send each.
    pub keys: &'static [(&'static str, KeyForm)],
}

/// How clients send a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// `Authorization: Bearer …`
    Bearer,
    /// `x-api-key: …`
    ApiKey,
}

/// Runs an agent's program with the arguments of the command line.
pub type ProgramFuture = Pin<Box<dyn Future<Output = ExitCode>>>;

/// The subcommand of a worker that runs the program of an agent.
pub const PROGRAM_COMMAND: &str = "agent";

/// A configured agent. Recovery and start are separate calls, because the worker decides in between whether an
/// unfinished turn is resumed.
pub trait Agent: fmt::Debug + Send + Sync {
    /// Name in `agent.started`.
    fn name(&self) -> &'static str;

    /// Describes the agent to the operator, for `check`.
    fn describe(&self) -> String;

    /// Checks whether the agent can be started, for example whether its program is on the `path`.
    fn check(&self, path: &str) -> Result<(), Problem>;

    /// Files outside of its workspace that it reads, besides its own program.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Where the agent's sessions are.
    fn sessions(&self) -> Sessions {
        Sessions::OwnedByAgent
    }

    /// Returns what the agent did in this session before the worker started, or `None` if that is unknown. Called
    /// before each start. The next [`Agent::start`] continues from there.
    fn recover(&mut self, _launch: &Launch) -> Option<Recovered> {
        None
    }

    /// Starts the agent. Failures are reported as the exit of the agent.
    fn start(&mut self, launch: Launch) -> AgentHandle;
}

/// Where the sessions of an agent are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sessions {
    /// The agent stores them and resumes them by their id. It cannot fork one.
    OwnedByAgent,
    /// Transcripts in this directory, with UUIDs as ids (see [`crate::transcript`]). The worker copies them to the
    /// plane, and restores a session that was written in another sandbox.
    Transcripts(PathBuf),
}

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Command line of the worker.
    pub worker: Vec<String>,
    /// Starts the agent and its child processes.
    pub launcher: Launcher,
    pub cwd: PathBuf,
    /// Added to the environment of the agent.
    pub env: Vec<(String, String)>,
    /// The session to continue. With [`Sessions::Transcripts`] always set; it is new if it has no transcript.
    pub session: Option<String>,
    /// The session of which a new session is a copy.
    pub fork_of: Option<Uuid>,
    /// Number of transcript lines that were written in another sandbox.
    pub inherited: u64,
    /// Whether the agent continues an unfinished turn by itself.
    pub resume_turn: bool,
    pub model: Option<String>,
    pub policy: Policy,
    /// Tools that need no permission request, in the agent's own syntax.
    pub allowed_tools: Vec<String>,
    pub disallowed_tools: Vec<String>,
    /// Maximum number of model responses for one prompt.
    pub max_turns: u64,
    pub max_budget_usd: f64,
    /// Replaces the agent's own system prompt.
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    /// Whether text is emitted while it is being streamed.
    pub partial_messages: bool,
    /// How long background tasks count as activity after a turn.
    pub background_timeout: Duration,
}

impl Launch {
    /// Command line of an agent that is part of the worker's executable.
    pub fn own_program(&self, kind: &str) -> Vec<String> {
        let mut command = self.worker.clone();
        command.extend([PROGRAM_COMMAND.to_owned(), kind.to_owned()]);
        command
    }
}

/// What an agent did before the worker started.
#[derive(Debug, Default)]
pub struct Recovered {
    /// All events of this sandbox, in order. Those that were emitted before have the same ids.
    pub events: Vec<Event>,
    /// Messages that the agent has read.
    pub read_messages: HashSet<Uuid>,
    /// The texts of those messages.
    pub prompts: Vec<String>,
    pub last_turn: LastTurn,
    /// Number of model responses.
    pub turns: u64,
}

/// Finds the kind of agent and its argument for a value of `AGENT`.
pub fn find<'a>(kinds: &[&'static AgentKind], text: &'a str) -> Option<(&'static AgentKind, &'a str)> {
    let (name, argument) = match text.split_once(':') {
        Some((name, argument)) => (name, Some(argument).filter(|argument| !argument.trim().is_empty())),
        None => (text, None),
    };
    let kind = kinds.iter().find(|kind| kind.name == name)?;
    let is_complete =
        kind.argument.is_some() == argument.is_some() && text.contains(':') == argument.is_some();
    is_complete.then_some((*kind, argument.unwrap_or_default()))
}

/// The possible values of `AGENT`, for errors: `claude, openhands or acp:<command>`.
pub fn names(kinds: &[&'static AgentKind]) -> String {
    let names: Vec<String> = kinds
        .iter()
        .map(|kind| {
            kind.argument.map_or_else(|| kind.name.to_owned(), |argument| format!("{}:{argument}", kind.name))
        })
        .collect();
    either(&names)
}

/// Checks that a program exists. `variable` is the setting that names it.
pub fn find_program(program: &str, path: &str, variable: &str) -> Result<(), Problem> {
    let found = if program.contains('/') {
        Path::new(program).is_file()
    } else {
        path.split(':').any(|directory| Path::new(directory).join(program).is_file())
    };
    if found {
        return Ok(());
    }
    let message = format!("program {program:?} not found");
    Err(Problem { variable: variable.into(), message, is_warning: false })
}

impl fmt::Debug for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentKind").field("name", &self.name).finish_non_exhaustive()
    }
}
