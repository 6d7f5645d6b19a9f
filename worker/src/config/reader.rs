//! Taking an environment apart, variable by variable, and noting what is wrong with each.

use super::{Agent, Config, Continuous, GONE, Problem, Requirements, Resume, SECRETS};
use crate::agents::policy::Mode;
use crate::isolation::Walls;
use crate::secret::Secret;
use crate::task::Task;
use crate::workspace::Repository;
use domain::SandboxId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// Where the plane is when nobody says so.
const PLANE: &str = "http://127.0.0.1:18000";

/// Reads one environment.
pub(super) struct Reader<'a> {
    environment: &'a BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(environment: &'a BTreeMap<String, String>) -> Self {
        Self { environment, problems: Vec::new() }
    }

    /// What is wrong with it, once it was read.
    pub(super) fn problems(self) -> Vec<Problem> {
        self.problems
    }

    /// All of it, as far as it makes sense.
    pub(super) fn config(&mut self) -> Option<Config> {
        for (name, why) in GONE {
            if self.text(name).is_some() {
                self.complain(name, format!("not used: {why}"), true);
            }
        }
        let sandbox = self.sandbox();
        let plane = self.address("CALLBACK_URL", &["http://", "https://"]);
        let sockets = self.address("SOCKET_URL", &["ws://", "wss://"]);
        let agent = self.agent();
        let permission_mode = self.permission_mode();
        let cwd = self.cwd();
        let repository = self.repository();
        let resume = self.resume(agent.as_ref());
        let continuous = self.continuous();
        let requirements = self.requirements(continuous.is_some(), repository.is_some());
        let task = self.task();
        let token = self.text("SANDBOX_TOKEN").map(Secret::new);
        if token.is_none() {
            let what = "not set: only a plane that runs without authentication will answer";
            self.complain("SANDBOX_TOKEN", what, true);
        }
        let mut disallowed_tools = self.list("DISALLOWED_TOOLS");
        let asks = self.flag("ENABLE_ASK_USER_QUESTION", false);
        if !asks && !disallowed_tools.iter().any(|tool| tool == "AskUserQuestion") {
            disallowed_tools.push("AskUserQuestion".into());
        }
        let home = self.text("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let state_dir = self.text("STATE_DIR").map(PathBuf::from);
        let claude_dir = self.text("CLAUDE_CONFIG_DIR").map_or_else(|| home.join(".claude"), PathBuf::from);
        let max_turns = self.number("MAX_TURNS", 50);
        let max_budget_usd = self.amount("MAX_BUDGET_USD", 10.0);
        let heartbeat = self.seconds("HEARTBEAT_INTERVAL", 30);
        let spool_max_mb = self.number("SPOOL_MAX_MB", 256);
        let background_patience = self.seconds("BACKGROUND_WAIT_SECONDS", 120);
        let preview = self.flag("PREVIEW_ENABLED", true);
        let partial_messages = self.flag("PARTIAL_MESSAGES", true);
        let exit_when_done = self.flag("EXIT_WHEN_DONE", false);
        let walls = self.walls(cwd.as_ref(), state_dir.as_ref(), &claude_dir);
        // Everything was looked at, and every problem noted, before the first one ends it.
        let sandbox = sandbox?;
        Some(Config {
            plane: plane.unwrap_or_else(|| PLANE.into()),
            sockets,
            token,
            agent: agent?,
            claude: self.text("CLAUDE_PATH").unwrap_or_else(|| "claude".into()),
            task,
            cwd: cwd?,
            state_dir: state_dir.unwrap_or_else(|| home.join(".local/state/sunaba").join(sandbox.as_str())),
            claude_dir,
            repository,
            model: self.text("MODEL").or_else(|| self.text("ANTHROPIC_MODEL")),
            permission_mode: permission_mode?,
            allowed_tools: self.list("ALLOWED_TOOLS"),
            disallowed_tools,
            max_turns: max_turns?,
            max_budget_usd: max_budget_usd?,
            system_prompt: self.text("SYSTEM_PROMPT"),
            append_system_prompt: self.text("SYSTEM_PROMPT_APPEND"),
            setting_sources: self.text("SETTING_SOURCES"),
            resume,
            continuous,
            requirements,
            heartbeat: heartbeat?,
            preview,
            partial_messages,
            spool_max_bytes: spool_max_mb?.saturating_mul(1024 * 1024),
            background_patience: background_patience?,
            exit_when_done,
            walls,
            log: self.text("LOG").unwrap_or_else(|| "info".into()),
            secrets: self.secrets(),
            sandbox,
        })
    }

    /// What it may use of this machine, if it is to be kept inside.
    fn walls(
        &mut self,
        cwd: Option<&PathBuf>,
        state_dir: Option<&PathBuf>,
        claude_dir: &Path,
    ) -> Option<Walls> {
        let asked = self.list("ISOLATION");
        let known = |part: &String| ["files", "network"].contains(&part.as_str());
        if asked.is_empty() || asked == ["none"] {
            return None;
        }
        if !asked.iter().all(known) || !asked.iter().any(|part| part == "files") {
            self.complain("ISOLATION", "must be none, or files, or files,network", false);
            return None;
        }
        let folders = |text: Option<String>| -> Vec<PathBuf> {
            let text = text.unwrap_or_default();
            text.split(':').filter(|part| part.starts_with('/')).map(PathBuf::from).collect()
        };
        let own = ["HOME", "TMPDIR"].map(|name| self.text(name).map(PathBuf::from));
        let own = own.into_iter().flatten().chain(cwd.cloned()).chain(state_dir.cloned());
        let own = own.chain([claude_dir.to_owned()]).collect();
        let readable = [folders(self.text("PATH")), folders(self.text("ISOLATION_READABLE"))].concat();
        let ports = asked.iter().any(|part| part == "network").then(|| self.ports());
        Some(Walls { own, readable, ports })
    }

    /// Where it has to connect to: the plane, the model, the code, and whoever passes it on to them.
    fn ports(&self) -> Vec<u16> {
        let plane = self.text("CALLBACK_URL").unwrap_or_else(|| PLANE.into());
        let named = [
            "SOCKET_URL",
            "ANTHROPIC_BASE_URL",
            "REPOSITORY_URL",
            "HTTPS_PROXY",
            "HTTP_PROXY",
            "https_proxy",
            "http_proxy",
        ];
        let urls = named.iter().filter_map(|name| self.text(name)).chain([plane]);
        let mut ports: Vec<u16> = urls.filter_map(|url| port(&url)).chain([443]).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn sandbox(&mut self) -> Option<SandboxId> {
        let Some(text) = self.text("SANDBOX_ID") else {
            self.complain("SANDBOX_ID", "not set: the plane must know whose worker this is", false);
            return None;
        };
        SandboxId::parse(text).map_err(|why| self.complain("SANDBOX_ID", why.reason, false)).ok()
    }

    fn address(&mut self, name: &str, schemes: &[&str]) -> Option<String> {
        let text = self.text(name)?;
        if !schemes.iter().any(|scheme| text.starts_with(scheme)) {
            self.complain(name, format!("{text:?} must start with {}", schemes.join(" or ")), false);
        }
        Some(text.trim_end_matches('/').to_owned())
    }

    fn agent(&mut self) -> Option<Agent> {
        let text = self.text("AGENT").unwrap_or_else(|| "claude".into());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match text.split_once(':') {
            None if text == "claude" => Some(Agent::Claude),
            None if text == "openhands" => Some(Agent::Acp(words("openhands acp"))),
            Some(("acp", command)) if !command.trim().is_empty() => Some(Agent::Acp(words(command))),
            Some(("scripted", script)) if !script.is_empty() => Some(Agent::Scripted(script.to_owned())),
            _ => {
                let what = format!("{text:?} is not claude, acp:<command>, openhands or scripted:<file>");
                self.complain("AGENT", what, false);
                None
            }
        }
    }

    fn permission_mode(&mut self) -> Option<Mode> {
        let Some(text) = self.text("PERMISSION_MODE") else { return Some(Mode::AcceptEdits) };
        let mode = Mode::parse(&text);
        if mode.is_none() {
            let modes = Mode::ALL.map(Mode::as_str).join(", ");
            self.complain("PERMISSION_MODE", format!("{text:?} is not one of {modes}"), false);
        }
        mode
    }

    fn cwd(&mut self) -> Option<PathBuf> {
        let named = self.text("CWD").or_else(|| self.text("WORKSPACE_PATH"));
        let cwd = named.map_or_else(std::env::current_dir, std::path::absolute);
        cwd.map_err(|why| self.complain("CWD", why.to_string(), false)).ok()
    }

    fn repository(&mut self) -> Option<Repository> {
        let parts =
            || Some(format!("{}/{}", self.text("GITHUB_REPO_OWNER")?, self.text("GITHUB_REPO_NAME")?));
        let location = self.text("REPOSITORY_URL").or_else(|| self.text("GITHUB_REPO")).or_else(parts);
        let branch = self.text("BRANCH_NAME");
        let Some(location) = location else {
            if branch.is_some() {
                self.complain("BRANCH_NAME", "set, but there is no GITHUB_REPO or REPOSITORY_URL", true);
            }
            return None;
        };
        if location.contains('@') && location.starts_with("http") {
            let what =
                "must hold no user or token: set GITHUB_TOKEN, which is kept out of files and commands";
            self.complain("REPOSITORY_URL", what, false);
            return None;
        }
        let token = self.text("GITHUB_TOKEN").or_else(|| self.text("GH_TOKEN")).map(Secret::new);
        match Repository::new(&location, token, branch.as_deref()) {
            Ok(repository) => Some(repository),
            Err(why) => {
                self.complain("GITHUB_REPO", why.to_string(), false);
                None
            }
        }
    }

    fn resume(&mut self, agent: Option<&Agent>) -> Option<Resume> {
        let fork = self.flag("FORK_SESSION", false);
        let session = self.text("RESUME_SESSION_ID")?;
        let acp = matches!(agent, Some(Agent::Acp(_)));
        if acp && fork {
            self.complain("FORK_SESSION", "an agent that speaks ACP cannot copy a session", false);
        }
        if !acp && session.parse::<Uuid>().is_err() {
            self.complain("RESUME_SESSION_ID", format!("{session:?} is not the id of a session"), false);
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

    /// In continuous mode with a repository, everything is required unless it is switched off; otherwise only what is
    /// asked for.
    fn requirements(&mut self, continuous: bool, repository: bool) -> Requirements {
        let usual = continuous && repository;
        let tests = self.text("TEST_COMMAND");
        if self.flag("REQUIRE_TESTS", false) && tests.is_none() {
            self.complain("REQUIRE_TESTS", "set, but TEST_COMMAND does not say how to run them", false);
        }
        Requirements {
            clean: self.flag("REQUIRE_CLEAN_GIT", usual),
            pushed: self.flag("REQUIRE_CODE_PUSHED", usual),
            pull_request: self.flag("REQUIRE_PR_CREATED", usual),
            tests,
        }
    }

    fn task(&mut self) -> Task {
        let mut task = match self.text("TASK_DATA_BASE64").map(|text| Task::decode(&text)) {
            None => Task::default(),
            Some(Ok(task)) => task,
            Some(Err(why)) => {
                self.complain("TASK_DATA_BASE64", why, false);
                Task::default()
            }
        };
        let put = |field: &mut Option<String>, name: &str| {
            if let Some(text) = self.text(name) {
                *field = Some(text);
            }
        };
        put(&mut task.task_id, "TASK_ID");
        put(&mut task.agent_id, "AGENT_ID");
        put(&mut task.spec_id, "SPEC_ID");
        put(&mut task.ticket_id, "TICKET_ID");
        put(&mut task.ticket_title, "TICKET_TITLE");
        put(&mut task.ticket_description, "TICKET_DESCRIPTION");
        put(&mut task.description, "TASK_DESCRIPTION");
        put(&mut task.initial_prompt, "INITIAL_PROMPT");
        put(&mut task.conversation, "CONVERSATION_CONTEXT");
        put(&mut task.agent_type, "AGENT_TYPE");
        task
    }

    fn secrets(&self) -> Vec<(String, Secret)> {
        let found =
            SECRETS.iter().filter_map(|name| Some(((*name).to_owned(), Secret::new(self.text(name)?))));
        found.collect()
    }

    /// A variable that is empty is not set.
    fn text(&self, name: &str) -> Option<String> {
        self.environment.get(name).map(|text| text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn flag(&mut self, name: &str, usual: bool) -> bool {
        match self.text(name).as_deref().map(str::to_ascii_lowercase).as_deref() {
            None => usual,
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                self.complain(name, format!("{other:?} is neither true nor false"), false);
                usual
            }
        }
    }

    fn number(&mut self, name: &str, usual: u64) -> Option<u64> {
        let Some(text) = self.text(name) else { return Some(usual) };
        match text.parse() {
            Ok(number) if number > 0 => Some(number),
            _ => {
                self.complain(name, format!("{text:?} is not a whole number above 0"), false);
                None
            }
        }
    }

    fn amount(&mut self, name: &str, usual: f64) -> Option<f64> {
        let Some(text) = self.text(name) else { return Some(usual) };
        match text.parse::<f64>() {
            Ok(amount) if amount.is_finite() && amount > 0.0 => Some(amount),
            _ => {
                self.complain(name, format!("{text:?} is not an amount above 0"), false);
                None
            }
        }
    }

    fn seconds(&mut self, name: &str, usual: u64) -> Option<Duration> {
        self.number(name, usual).map(Duration::from_secs)
    }

    fn complain(&mut self, variable: &str, what: impl Into<String>, harmless: bool) {
        self.problems.push(Problem { variable: variable.to_owned(), what: what.into(), harmless });
    }
}

/// The port that an address means.
fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    match host.rsplit_once(':') {
        // An address of IPv6 has colons of its own, inside of brackets.
        Some((_, port)) if !port.contains(']') => port.parse().ok(),
        _ if ["https", "wss"].contains(&scheme) => Some(443),
        _ => Some(80),
    }
}
