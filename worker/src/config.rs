//! Worker configuration, read from environment variables. All problems are reported, not only the first.

mod reader;
pub mod variables;

pub use reader::Reader;

use crate::agents::policy::Mode;
use crate::agents::{Agent, AgentKind, KeyForm, Service};
use crate::confinement::Confinement;
use crate::secret::Secret;
use crate::task::Task;
use crate::workspace::Repository;
use contract::policy::SandboxPolicy;
use domain::SandboxId;
use egress::policy::NetworkPolicy;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

#[derive(Debug)]
pub struct Config {
    pub sandbox: SandboxId,
    /// Base URL of the control plane, without a trailing slash.
    pub plane: String,
    /// WebSocket URL, if it differs from the plane's.
    pub sockets: Option<String>,
    pub token: Option<Secret>,
    pub agent: Box<dyn Agent>,
    pub task: Task,
    pub cwd: PathBuf,
    /// State that must survive a restart of the worker.
    pub state_dir: PathBuf,
    pub repository: Option<Repository>,
    /// Who asked for the task, for commits.
    pub requested_by: Option<String>,
    /// How long the outcome of the task waits until its branch has reached the host.
    pub push_timeout: Duration,
    /// Overrides the agent's default model.
    pub model: Option<String>,
    pub permission_mode: Mode,
    /// Tools that need no permission request.
    pub allowed_tools: Vec<String>,
    pub disallowed_tools: Vec<String>,
    /// Maximum number of model responses per prompt.
    pub max_turns: u64,
    pub max_budget_usd: f64,
    /// Replaces the agent's system prompt.
    pub system_prompt: Option<String>,
    /// Appended to the agent's system prompt.
    pub append_system_prompt: Option<String>,
    pub resume: Option<Resume>,
    /// Iterate until the task is done, within these limits. `None` runs the task once.
    pub continuous: Option<Continuous>,
    pub requirements: Requirements,
    pub heartbeat_interval: Duration,
    /// Whether to detect dev servers of the agent.
    pub preview: bool,
    /// Whether to stream text while the model is writing it.
    pub partial_messages: bool,
    /// Disk quota of the outbox.
    pub spool_max_bytes: u64,
    /// Limit of the files of a workspace that are kept, before compression.
    pub keep_max_bytes: u64,
    /// How long background tasks of the agent keep its turn open.
    pub background_timeout: Duration,
    /// Exit when the task is done instead of waiting for messages.
    pub exit_when_done: bool,
    /// The trust domain of the agent.
    pub confinement: Confinement,
    /// What the plane allows this task. The other fields contain what follows from it.
    pub policy: SandboxPolicy,
    /// What the agent may connect to through the worker's proxy. `None` keeps the proxy of the worker's own environment.
    pub network: Option<NetworkPolicy>,
    /// Services whose keys the worker holds for the agent.
    pub services: Vec<ServiceKeys>,
    /// Log filter, such as `info` or `worker=debug`.
    pub log: String,
    /// Names and values to redact from everything that is sent.
    pub secrets: Vec<(String, Secret)>,
}

/// A service, and the keys that the worker has for it.
#[derive(Debug, Clone)]
pub struct ServiceKeys {
    pub service: &'static Service,
    pub upstream: Url,
    /// Variable, form and value of each key.
    pub keys: Vec<(&'static str, KeyForm, Secret)>,
}

/// A session to resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The agent's own session id. Claude Code uses UUIDs.
    pub session: String,
    /// Resume a copy and leave the original unchanged.
    pub fork: bool,
}

/// Limits of continuous mode.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuous {
    /// Maximum number of successful iterations.
    pub max_iterations: u64,
    /// Maximum total cost of all iterations.
    pub max_cost_usd: f64,
    pub max_duration: Duration,
    pub max_consecutive_errors: u64,
    /// Text with which the agent signals that the task is done.
    pub completion_signal: String,
    /// Number of consecutive iterations that must contain the signal.
    pub completion_threshold: u64,
}

/// Conditions for a task to count as done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// All changes are committed.
    pub clean: bool,
    /// All commits are pushed.
    pub pushed: bool,
    /// A pull request exists.
    pub pull_request: bool,
    /// Test command that must succeed.
    pub tests: Option<String>,
}

/// A problem with an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub variable: String,
    pub message: String,
    /// The worker can start in spite of it.
    pub is_warning: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.message)
    }
}

/// Variables with the URL of a proxy.
pub(crate) const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/// Variables that hold secrets, besides those of agents. Their values are redacted from everything that is sent.
pub const SECRETS: [&str; 4] = ["SANDBOX_TOKEN", "GITHUB_TOKEN", "GH_TOKEN", "OMOIOS_API_KEY"];

/// Variables that the agent never gets: with them it could act as the worker or push under another identity.
pub const HIDDEN_FROM_AGENT: [&str; 7] = [
    "SANDBOX_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "OMOIOS_API_KEY",
    "TASK_DATA_BASE64",
    // Set when the worker itself runs under Claude Code. The CLI would refuse to start nested.
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
];

/// Environment variables of this process that are valid UTF-8.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

impl Config {
    /// Reads the configuration of a worker that has these agents. It is `None` if any problem is an error; warnings are
    /// returned with it.
    pub fn read(
        environment: &BTreeMap<String, String>,
        agents: &[&'static AgentKind],
    ) -> (Option<Self>, Vec<Problem>) {
        let mut reader = Reader::new(environment, agents);
        let config = reader.config();
        let problems = reader.problems();
        let fatal = problems.iter().any(|problem| !problem.is_warning);
        (config.filter(|_| !fatal), problems)
    }

    /// For the `Authorization` header.
    pub fn plaintext_token(&self) -> Option<String> {
        self.token.as_ref().map(|token| token.reveal().to_owned())
    }

    /// Names and values without secrets, as printed by `check`.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
        let is_set = |secret: Option<&Secret>| if secret.is_some() { "set" } else { "none" }.to_owned();
        let mode = match &self.continuous {
            None => "single run".to_owned(),
            Some(limits) => format!(
                "continuous: at most {} iterations, ${:.2}, {} s, {} consecutive failures; signal {:?}",
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
            ("token", is_set(self.token.as_ref())),
            ("agent", self.agent.describe()),
            ("model", self.model.clone().unwrap_or_else(|| "agent default".into())),
            ("workspace", self.cwd.display().to_string()),
            ("state", self.state_dir.display().to_string()),
            ("repository", or_none(repository.map(|repository| repository.url.as_str()))),
            ("branch", or_none(repository.and_then(|repository| repository.branch.as_deref()))),
            ("base", or_none(repository.and_then(|repository| repository.base.as_deref()))),
            ("git token", is_set(repository.and_then(|repository| repository.token.as_ref()))),
            ("permissions", self.permission_mode.as_str().to_owned()),
            ("limits", format!("{} turns and ${:.2} per prompt", self.max_turns, self.max_budget_usd)),
            ("isolation", self.confinement.describe()),
            (
                "network",
                self.network.as_ref().map_or_else(|| "proxy of the environment".into(), ToString::to_string),
            ),
            ("policy", self.policy.to_json()),
            ("mode", mode),
            ("resume", or_none(self.resume.as_ref().map(|resume| resume.session.as_str()))),
            ("task", self.task.headline()),
        ]
    }
}

#[cfg(test)]
mod tests;
