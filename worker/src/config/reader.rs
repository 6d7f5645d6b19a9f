//! Parses environment variables and collects the problem of each.

mod network;
mod policy;
mod repository;

use super::variables::{self, OBSOLETE};
use super::{Config, Continuous, Problem, Requirements, Resume, SECRETS};
use crate::agents::policy::Mode;
use crate::agents::{self, Agent, AgentKind, Sessions};
use crate::confinement::Confinement;
use crate::secret::Secret;
use crate::task::Task;
use confine::{Policy, Setting, Tier};
use contract::policy::SandboxPolicy;
use domain::SandboxId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// The archive must fit into what the plane keeps of a file (`domain::kept::MAX_FILE_BYTES`), whatever is in it.
const MAX_KEPT_MB: u64 = 100;

const DEFAULT_PLANE: &str = "http://127.0.0.1:18000";

/// Reads variables. Agents read their own settings with it.
#[derive(Debug)]
pub struct Reader<'a> {
    environment: &'a BTreeMap<String, String>,
    agents: &'a [&'static AgentKind],
    problems: Vec<Problem>,
    policy: SandboxPolicy,
    /// Names of all variables that were read.
    #[cfg(test)]
    pub(super) names: std::cell::RefCell<std::collections::BTreeSet<String>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(environment: &'a BTreeMap<String, String>, agents: &'a [&'static AgentKind]) -> Self {
        Self {
            environment,
            agents,
            problems: Vec::new(),
            policy: SandboxPolicy::default(),
            #[cfg(test)]
            names: std::cell::RefCell::default(),
        }
    }

    pub(super) fn problems(self) -> Vec<Problem> {
        self.problems
    }

    /// `None` if a required value is missing or invalid.
    pub(super) fn config(&mut self) -> Option<Config> {
        for (name, why) in OBSOLETE {
            if self.text(name).is_some() {
                self.warn(name, format!("ignored: {why}"));
            }
        }
        if self.text("SECRETS_FILE").is_some_and(|path| !path.starts_with('/')) {
            self.error("SECRETS_FILE", "must be an absolute path");
        }
        self.policy = self.sandbox_policy();
        let sandbox = self.sandbox();
        let push_timeout = self.seconds("PUSH_TIMEOUT_SECONDS", 120);
        let plane = self.url("CALLBACK_URL", &["http://", "https://"]);
        let sockets = self.url("SOCKET_URL", &["ws://", "wss://"]);
        let agent = self.agent();
        let permission_mode = self.permission_mode();
        let cwd = self.cwd();
        let repository = self.repository();
        let sessions = agent.as_ref().map(|agent| agent.sessions());
        let resume = self.resume(sessions.as_ref());
        let continuous = self.continuous();
        let requirements = self.requirements(continuous.is_some(), repository.is_some());
        let task = self.task();
        let token = self.text("SANDBOX_TOKEN").map(Secret::new);
        if token.is_none() {
            let message = "not set; this works only with a plane that runs without authentication";
            self.warn("SANDBOX_TOKEN", message);
        }
        let mut disallowed_tools = self.list("DISALLOWED_TOOLS");
        let may_ask = self.flag("ENABLE_ASK_USER_QUESTION", false);
        if !may_ask && !disallowed_tools.iter().any(|tool| tool == "AskUserQuestion") {
            disallowed_tools.push("AskUserQuestion".into());
        }
        let max_turns = self.number("MAX_TURNS", 50);
        let max_budget_usd = self.amount("MAX_BUDGET_USD", 10.0);
        let heartbeat_interval = self.seconds("HEARTBEAT_INTERVAL", 30);
        let spool_max_mb = self.number("SPOOL_MAX_MB", 256);
        let keep_max_mb = self.number("KEEP_MAX_MB", 50);
        if keep_max_mb.is_some_and(|megabytes| megabytes > MAX_KEPT_MB) {
            self.error("KEEP_MAX_MB", format!("must be at most {MAX_KEPT_MB}"));
        }
        let background_timeout = self.seconds("BACKGROUND_WAIT_SECONDS", 120);
        let preview = self.flag("PREVIEW_ENABLED", true);
        let partial_messages = self.flag("PARTIAL_MESSAGES", true);
        let exit_when_done = self.flag("EXIT_WHEN_DONE", false);
        let network = self.network();
        let services = self.services();
        let confinement = self.confinement(cwd.as_ref(), agent.as_deref());
        // All variables are read, and all problems recorded, before the first missing value returns.
        let sandbox = sandbox?;
        Some(Config {
            plane: plane.unwrap_or_else(|| DEFAULT_PLANE.into()),
            sockets,
            token,
            agent: agent?,
            task,
            cwd: cwd?,
            state_dir: self.state_dir(),
            repository,
            requested_by: self.text("REQUESTED_BY"),
            push_timeout: push_timeout?,
            model: self.text("MODEL").or_else(|| self.text("ANTHROPIC_MODEL")),
            permission_mode: permission_mode?,
            allowed_tools: self.list("ALLOWED_TOOLS"),
            disallowed_tools,
            max_turns: max_turns?,
            max_budget_usd: max_budget_usd?,
            system_prompt: self.text("SYSTEM_PROMPT"),
            append_system_prompt: self.text("SYSTEM_PROMPT_APPEND"),
            resume,
            continuous,
            requirements,
            heartbeat_interval: heartbeat_interval?,
            preview,
            partial_messages,
            spool_max_bytes: spool_max_mb?.saturating_mul(1024 * 1024),
            keep_max_bytes: keep_max_mb?.saturating_mul(1_000_000),
            background_timeout: background_timeout?,
            exit_when_done,
            network,
            services,
            confinement,
            policy: self.policy.clone(),
            log: self.text("LOG").unwrap_or_else(|| "info".into()),
            secrets: self.secrets(),
            sandbox,
        })
    }

    /// Which directories and variables the agent has. `agent` may be missing if its setting is invalid.
    fn confinement(&mut self, cwd: Option<&PathBuf>, agent: Option<&dyn Agent>) -> Confinement {
        let setting = self.isolation();
        let transcripts = match agent.map(Agent::sessions) {
            Some(Sessions::Transcripts(directory)) => Some(directory),
            Some(Sessions::OwnedByAgent) | None => None,
        };
        // Of all agents: an ACP agent may be an adapter of another one, and then writes to the same directory.
        let of_agents = self.agents.iter().flat_map(|agent| agent.directories);
        let of_agents = of_agents.filter_map(|name| self.text(name)).map(PathBuf::from);
        let (home, temporary) = (self.home(), self.temporary());
        let writable = [Some(home.clone()), temporary.clone(), cwd.cloned(), transcripts];
        let writable = writable.into_iter().flatten().chain(of_agents).collect();
        let readable = self.paths("ISOLATION_READABLE");
        let readable = readable.into_iter().chain(agent.into_iter().flat_map(Agent::files)).collect();
        let hidden = std::iter::once(self.state_dir()).chain(self.paths("ISOLATION_HIDDEN")).collect();
        let mut policy = Policy { writable, readable, hidden, ..Policy::default() };
        self.apply_to(&mut policy);
        let has_policy = !(self.policy.filesystem.is_empty() && self.policy.limits.is_empty());
        let (environment, agent_environment) = Default::default();
        let mut confinement =
            Confinement { setting, home, temporary, policy, has_policy, environment, agent_environment };
        let declared = self.list("AGENT_VARIABLES");
        let variables = self.agents.iter().flat_map(|agent| agent.variables);
        let names = variables.map(|variable| variable.name);
        let of_agents: Vec<&str> = names.filter(|name| self.text(name).is_some()).collect();
        let prefixes: Vec<&str> = self.agents.iter().flat_map(|agent| agent.prefixes).copied().collect();
        let keys: Vec<&str> = self.agents.iter().flat_map(|agent| agent.secrets).copied().collect();
        confinement.select_variables(self.environment, &declared, (&of_agents, &prefixes, &keys));
        confinement
    }

    fn isolation(&mut self) -> Setting {
        let Some(text) = self.text("ISOLATION") else { return Setting::Auto };
        Setting::parse(&text).unwrap_or_else(|why| {
            self.error("ISOLATION", why);
            Setting::Auto
        })
    }

    fn is_isolated(&self) -> bool {
        self.text("ISOLATION").is_none_or(|text| text != Tier::None.as_str())
    }

    /// Absolute paths, separated by colons.
    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let text = self.text(name).unwrap_or_default();
        text.split(':').filter(|part| part.starts_with('/')).map(PathBuf::from).collect()
    }

    fn sandbox(&mut self) -> Option<SandboxId> {
        let Some(text) = self.text("SANDBOX_ID") else {
            self.error("SANDBOX_ID", "not set");
            return None;
        };
        SandboxId::parse(text).map_err(|why| self.error("SANDBOX_ID", why.reason)).ok()
    }

    fn url(&mut self, name: &str, schemes: &[&str]) -> Option<String> {
        let text = self.text(name)?;
        if !schemes.iter().any(|scheme| text.starts_with(scheme)) {
            self.error(name, format!("{text:?} must start with {}", schemes.join(" or ")));
        }
        Some(text.trim_end_matches('/').to_owned())
    }

    fn agent(&mut self) -> Option<Box<dyn Agent>> {
        let default = self.agents.first().map_or("", |agent| agent.name);
        let text = self.text("AGENT").unwrap_or_else(|| default.to_owned());
        let Some((kind, argument)) = agents::find(self.agents, &text) else {
            self.error("AGENT", format!("{text:?} is not {}", agents::names(self.agents)));
            return None;
        };
        (kind.configure)(self, argument)
    }

    /// Home directory of the agent. An isolated agent does not get that of the user.
    pub fn home(&self) -> PathBuf {
        let own = || if self.is_isolated() { self.state_dir().join("home") } else { self.user_home() };
        self.text("AGENT_HOME").map_or_else(own, PathBuf::from)
    }

    fn user_home(&self) -> PathBuf {
        self.text("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
    }

    /// `TMPDIR` of the agent: that of the worker, if it was made for the agent.
    fn temporary(&self) -> Option<PathBuf> {
        let given = self.text("TMPDIR").map(PathBuf::from);
        let is_shared = self.is_isolated() && self.text("AGENT_HOME").is_none();
        if is_shared { Some(self.state_dir().join("tmp")) } else { given }
    }

    /// State that must survive a restart of the worker.
    pub fn state_dir(&self) -> PathBuf {
        let default = || {
            let sandbox = self.text("SANDBOX_ID").unwrap_or_default();
            self.user_home().join(".local/state/sunaba").join(sandbox)
        };
        self.text("STATE_DIR").map_or_else(default, PathBuf::from)
    }

    fn permission_mode(&mut self) -> Option<Mode> {
        let Some(text) = self.text("PERMISSION_MODE") else { return Some(Mode::AcceptEdits) };
        let mode = Mode::parse(&text);
        if mode.is_none() {
            let modes = Mode::ALL.map(Mode::as_str).join(", ");
            self.error("PERMISSION_MODE", format!("{text:?} is not one of {modes}"));
        }
        mode
    }

    fn cwd(&mut self) -> Option<PathBuf> {
        let path = self.text("CWD").or_else(|| self.text("WORKSPACE_PATH"));
        let cwd = path.map_or_else(std::env::current_dir, std::path::absolute);
        cwd.map_err(|why| self.error("CWD", why.to_string())).ok()
    }

    fn resume(&mut self, sessions: Option<&Sessions>) -> Option<Resume> {
        let fork = self.flag("FORK_SESSION", false);
        let session = self.text("RESUME_SESSION_ID")?;
        let owned_by_agent = sessions == Some(&Sessions::OwnedByAgent);
        if owned_by_agent && fork {
            self.error("FORK_SESSION", "this agent cannot fork a session");
        }
        if !owned_by_agent && session.parse::<Uuid>().is_err() {
            self.error("RESUME_SESSION_ID", format!("{session:?} is not a session id (UUID)"));
        }
        Some(Resume { session, fork })
    }

    fn continuous(&mut self) -> Option<Continuous> {
        if !self.flag("CONTINUOUS_MODE", false) {
            return None;
        }
        let max_iterations = self.number("MAX_ITERATIONS", 10);
        let max_cost_usd = self.amount("MAX_TOTAL_COST_USD", 20.0);
        let max_duration = self.seconds("MAX_DURATION_SECONDS", 3_600);
        let max_consecutive_errors = self.number("MAX_CONSECUTIVE_ERRORS", 3);
        let completion_threshold = self.number("COMPLETION_THRESHOLD", 1);
        Some(Continuous {
            max_iterations: max_iterations?,
            max_cost_usd: max_cost_usd?,
            max_duration: max_duration?,
            max_consecutive_errors: max_consecutive_errors?,
            completion_signal: self.text("COMPLETION_SIGNAL").unwrap_or_else(|| "TASK_COMPLETE".into()),
            completion_threshold: completion_threshold?,
        })
    }

    /// In continuous mode with a repository, all git requirements default to on; otherwise they default to off.
    fn requirements(&mut self, continuous: bool, repository: bool) -> Requirements {
        let default = continuous && repository;
        let plane_has_access = self.text("GIT_ACCESS").is_some();
        let tests = self.text("TEST_COMMAND");
        if self.flag("REQUIRE_TESTS", false) && tests.is_none() {
            self.error("REQUIRE_TESTS", "set, but TEST_COMMAND is not");
        }
        Requirements {
            clean: self.flag("REQUIRE_CLEAN_GIT", default),
            pushed: self.flag("REQUIRE_CODE_PUSHED", default),
            // The plane opens the pull request after the task, if it has a credential for the repository.
            pull_request: self.flag("REQUIRE_PR_CREATED", default && !plane_has_access),
            tests,
        }
    }

    fn task(&mut self) -> Task {
        let mut task = match self.text("TASK_DATA_BASE64").map(|text| Task::decode(&text)) {
            None => Task::default(),
            Some(Ok(task)) => task,
            Some(Err(why)) => {
                self.error("TASK_DATA_BASE64", why);
                Task::default()
            }
        };
        let set = |field: &mut Option<String>, name: &str| {
            if let Some(text) = self.text(name) {
                *field = Some(text);
            }
        };
        set(&mut task.task_id, "TASK_ID");
        set(&mut task.agent_id, "AGENT_ID");
        set(&mut task.spec_id, "SPEC_ID");
        set(&mut task.ticket_id, "TICKET_ID");
        set(&mut task.ticket_title, "TICKET_TITLE");
        set(&mut task.ticket_description, "TICKET_DESCRIPTION");
        set(&mut task.description, "TASK_DESCRIPTION");
        set(&mut task.initial_prompt, "INITIAL_PROMPT");
        set(&mut task.conversation, "CONVERSATION_CONTEXT");
        set(&mut task.agent_type, "AGENT_TYPE");
        task
    }

    fn secrets(&self) -> Vec<(String, Secret)> {
        let of_agents = self.agents.iter().flat_map(|agent| agent.secrets);
        let names = SECRETS.iter().chain(of_agents);
        names.filter_map(|name| Some(((*name).to_owned(), Secret::new(self.text(name)?)))).collect()
    }

    /// An empty variable counts as not set.
    pub fn text(&self, name: &str) -> Option<String> {
        debug_assert!(variables::is_known(name, self.agents), "{name} is missing in the table of variables");
        #[cfg(test)]
        self.names.borrow_mut().insert(name.to_owned());
        self.environment.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    pub fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.text(name).as_deref().map(str::to_ascii_lowercase).as_deref() {
            None => default,
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                self.error(name, format!("{other:?} is not true or false"));
                default
            }
        }
    }

    pub fn number(&mut self, name: &str, default: u64) -> Option<u64> {
        let Some(text) = self.text(name) else { return Some(default) };
        match text.parse() {
            Ok(number) if number > 0 => Some(number),
            _ => {
                self.error(name, format!("{text:?} is not a positive integer"));
                None
            }
        }
    }

    fn amount(&mut self, name: &str, default: f64) -> Option<f64> {
        let Some(text) = self.text(name) else { return Some(default) };
        match text.parse::<f64>() {
            Ok(amount) if amount.is_finite() && amount > 0.0 => Some(amount),
            _ => {
                self.error(name, format!("{text:?} is not a positive number"));
                None
            }
        }
    }

    fn seconds(&mut self, name: &str, default: u64) -> Option<Duration> {
        self.number(name, default).map(Duration::from_secs)
    }

    /// Reports that the worker cannot start with the value of a variable.
    pub fn error(&mut self, variable: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            variable: variable.to_owned(),
            message: message.into(),
            is_warning: false,
        });
    }

    /// Reports a value of a variable that is not applied.
    pub fn warn(&mut self, variable: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            variable: variable.to_owned(),
            message: message.into(),
            is_warning: true,
        });
    }
}
