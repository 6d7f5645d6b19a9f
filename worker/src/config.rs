//! What a worker is told by its environment. Every problem is reported, not only the first.

mod reader;

use crate::agents::policy::Mode;
use crate::isolation::Walls;
use crate::secret::Secret;
use crate::task::Task;
use crate::workspace::Repository;
use domain::SandboxId;
use reader::Reader;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a worker uses.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whose worker this is.
    pub sandbox: SandboxId,
    /// Where the plane is, without a slash at the end.
    pub plane: String,
    /// Where its sockets are, if they are elsewhere.
    pub sockets: Option<String>,
    /// What proves that this is the sandbox's worker.
    pub token: Option<Secret>,
    /// Which agent.
    pub agent: Agent,
    /// The CLI's program.
    pub claude: String,
    /// What is to be done.
    pub task: Task,
    /// Where.
    pub cwd: PathBuf,
    /// Where the worker keeps what must survive it.
    pub state_dir: PathBuf,
    /// Where the CLI keeps its own things.
    pub claude_dir: PathBuf,
    /// The code to work on.
    pub repository: Option<Repository>,
    /// Which model, if not the agent's own choice.
    pub model: Option<String>,
    /// What the agent may do.
    pub permission_mode: Mode,
    /// Tools that it may use without asking.
    pub allowed_tools: Vec<String>,
    /// Tools that it may not use.
    pub disallowed_tools: Vec<String>,
    /// Most answers of the model for one prompt.
    pub max_turns: u64,
    /// Most that a session may cost.
    pub max_budget_usd: f64,
    /// In place of the agent's own instructions.
    pub system_prompt: Option<String>,
    /// After the agent's own instructions.
    pub append_system_prompt: Option<String>,
    /// Where the CLI looks for settings.
    pub setting_sources: Option<String>,
    /// A session to go on with.
    pub resume: Option<Resume>,
    /// Whether to go on until a goal is reached, and how far.
    pub continuous: Option<Continuous>,
    /// What must hold before the task counts as done.
    pub requirements: Requirements,
    /// How often to show a sign of life.
    pub heartbeat: Duration,
    /// Whether to look for a dev server.
    pub preview: bool,
    /// Whether to show text while it is being written.
    pub partial_messages: bool,
    /// Most bytes that wait on disk.
    pub spool_max_bytes: u64,
    /// For how long what an agent left running in the background counts as work.
    pub background_patience: Duration,
    /// Whether to leave when the task is done, instead of waiting for messages.
    pub exit_when_done: bool,
    /// What the worker and its agent must stay inside of, if anything.
    pub walls: Option<Walls>,
    /// How much to log.
    pub log: String,
    /// Values that must not leave, by name.
    pub secrets: Vec<(String, Secret)>,
}

/// Which agent is driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Any agent that speaks ACP: its command.
    Acp(Vec<String>),
    /// A script, for demonstrations and tests.
    Scripted(String),
}

/// A session to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Which, as its agent calls it. Claude Code's are uuids.
    pub session: String,
    /// As a copy, which leaves the first as it is.
    pub fork: bool,
}

/// How far to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuous {
    /// Most iterations that went well.
    pub max_iterations: u64,
    /// Most that all of them may cost.
    pub max_cost_usd: f64,
    /// Longest time.
    pub max_duration: Duration,
    /// Most failures in a row.
    pub max_consecutive_errors: u64,
    /// What the agent says when it believes that it is done.
    pub completion_signal: String,
    /// In how many iterations in a row it must say so.
    pub completion_threshold: u64,
}

/// What must hold before a task counts as done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Everything is committed.
    pub clean: bool,
    /// Everything is pushed.
    pub pushed: bool,
    /// There is a pull request.
    pub pull_request: bool,
    /// This command succeeds.
    pub tests: Option<String>,
}

/// Something that is wrong with the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The variable.
    pub variable: String,
    /// What is wrong, and what to do.
    pub what: String,
    /// Whether the worker can start all the same.
    pub harmless: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.what)
    }
}

/// What an older worker read and this one does not need.
const GONE: [(&str, &str); 4] = [
    ("POLL_INTERVAL", "messages come at once; there is nothing to poll"),
    ("NOTES_FILE", "the agent's session remembers; nothing is written into the repository"),
    ("PREVIEW_PORT", "the port of a dev server is noticed by itself"),
    ("SESSION_TRANSCRIPT_B64", "set RESUME_SESSION_ID: the plane has the record"),
];

/// Variables that hold secrets. Their values are taken out of everything that leaves.
const SECRETS: [&str; 8] = [
    "SANDBOX_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "LLM_API_KEY",
    "OMOIOS_API_KEY",
];

/// What the agent has no use for: who has it could speak as the worker, or push as somebody else.
pub const KEPT_FROM_THE_AGENT: [&str; 7] = [
    "SANDBOX_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "OMOIOS_API_KEY",
    "TASK_DATA_BASE64",
    // Set by a CLI around this one; it would think that it is nested.
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
];

/// The environment of this process.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

impl Config {
    /// Reads an environment. The problems come with the configuration, if there is one in spite of them.
    pub fn read(environment: &BTreeMap<String, String>) -> (Option<Self>, Vec<Problem>) {
        let mut reader = Reader::new(environment);
        let config = reader.config();
        let problems = reader.problems();
        let fatal = problems.iter().any(|problem| !problem.harmless);
        (config.filter(|_| !fatal), problems)
    }

    /// Where the agent keeps its own record. A script must not write among the sessions of whoever tries it.
    pub fn record_dir(&self) -> PathBuf {
        match &self.agent {
            Agent::Scripted(_) => self.state_dir.join("claude"),
            Agent::Claude | Agent::Acp(_) => self.claude_dir.clone(),
        }
    }

    /// The token in clear, for those who send it to the plane.
    pub fn token_in_clear(&self) -> Option<String> {
        self.token.as_ref().map(|token| token.reveal().to_owned())
    }

    /// What it would use, for `check`: names and values, without secrets.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
        let given = |secret: Option<&Secret>| if secret.is_some() { "given" } else { "none" }.to_owned();
        let agent = match &self.agent {
            Agent::Claude => format!("Claude Code ({})", self.claude),
            Agent::Acp(command) => format!("ACP: {}", command.join(" ")),
            Agent::Scripted(script) => format!("the script {script}"),
        };
        let mode = match &self.continuous {
            None => "one run".to_owned(),
            Some(limits) => format!(
                "until done: at most {} iterations, ${:.2}, {} s, {} failures in a row; signal {:?}",
                limits.max_iterations,
                limits.max_cost_usd,
                limits.max_duration.as_secs(),
                limits.max_consecutive_errors,
                limits.completion_signal,
            ),
        };
        let repository = self.repository.as_ref();
        vec![
            ("sandbox", self.sandbox.to_string()),
            ("plane", self.plane.clone()),
            ("sockets", or_none(self.sockets.as_deref())),
            ("token", given(self.token.as_ref())),
            ("agent", agent),
            ("model", self.model.clone().unwrap_or_else(|| "the agent's own choice".into())),
            ("workspace", self.cwd.display().to_string()),
            ("state", self.state_dir.display().to_string()),
            ("repository", or_none(repository.map(|repository| repository.url.as_str()))),
            ("branch", or_none(repository.and_then(|repository| repository.branch.as_deref()))),
            ("git token", given(repository.and_then(|repository| repository.token.as_ref()))),
            ("permissions", self.permission_mode.as_str().to_owned()),
            ("limits", format!("{} turns and ${:.2} a prompt", self.max_turns, self.max_budget_usd)),
            ("isolation", self.walls.as_ref().map_or_else(|| "none".into(), Walls::describe)),
            ("mode", mode),
            ("resume", or_none(self.resume.as_ref().map(|resume| resume.session.as_str()))),
            ("task", self.task.headline()),
        ]
    }
}

#[cfg(test)]
mod tests;
