//! How the CLI is started: its arguments and its environment.

use crate::agents::policy::Policy;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

/// How to start it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program and what comes before the CLI's own arguments: `claude`, or a player of scripts.
    pub command: Vec<String>,
    /// The workspace, absolute.
    pub cwd: PathBuf,
    /// Added to its environment.
    pub env: Vec<(String, String)>,
    /// Taken out of its environment.
    pub env_removed: Vec<String>,
    /// Its session.
    pub session: Session,
    /// Whether a turn that was not finished goes on by itself.
    pub continues: bool,
    /// Which model, if not its default.
    pub model: Option<String>,
    /// What it may do.
    pub policy: Policy,
    /// Tools, in the CLI's own syntax: `Bash(git *)`.
    pub allowed_tools: Vec<String>,
    /// The same, for tools that it may not use.
    pub disallowed_tools: Vec<String>,
    /// Most answers of the model for one prompt.
    pub max_turns: Option<u64>,
    /// Most that the session may cost.
    pub max_budget_usd: Option<f64>,
    /// In place of the CLI's own instructions.
    pub system_prompt: Option<String>,
    /// After the CLI's own instructions.
    pub append_system_prompt: Option<String>,
    /// Where it looks for settings: `user,project,local`.
    pub setting_sources: Option<String>,
    /// Whether text is told while it is being written.
    pub partial_messages: bool,
    /// For how long what runs in the background counts as work.
    pub background_patience: Duration,
}

/// Which session to work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A new one of this name.
    New(Uuid),
    /// One whose record is there.
    Resume(Uuid),
    /// A new one that begins as a copy.
    Fork {
        /// Of which.
        from: Uuid,
        /// Its own name.
        to: Uuid,
    },
}

impl Settings {
    /// The arguments of the CLI. Always `--flag=value`: a value that begins with a dash would be taken for a flag.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.command.iter().skip(1).cloned().collect();
        let fixed = [
            "-p",
            "--output-format=stream-json",
            "--input-format=stream-json",
            "--verbose",
            "--permission-prompt-tool=stdio",
            "--replay-user-messages",
            "--session-mirror",
        ];
        arguments.extend(fixed.map(String::from));
        arguments.push(format!("--permission-mode={}", self.policy.mode.as_str()));
        if self.partial_messages {
            arguments.push("--include-partial-messages".into());
        }
        match &self.session {
            Session::New(id) => arguments.push(format!("--session-id={id}")),
            Session::Resume(id) => arguments.push(format!("--resume={id}")),
            Session::Fork { from, to } => {
                let flags =
                    [format!("--resume={from}"), "--fork-session".into(), format!("--session-id={to}")];
                arguments.extend(flags);
            }
        }
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                arguments.push(format!("--{name}={value}"));
            }
        };
        option("model", self.model.clone());
        option("allowedTools", Some(self.allowed_tools.join(",")));
        option("disallowedTools", Some(self.disallowed_tools.join(",")));
        option("max-turns", self.max_turns.map(|turns| turns.to_string()));
        option("max-budget-usd", self.max_budget_usd.map(|budget| budget.to_string()));
        option("system-prompt", self.system_prompt.clone());
        option("append-system-prompt", self.append_system_prompt.clone());
        option("setting-sources", self.setting_sources.clone());
        arguments
    }

    /// Its environment: nothing but the model, no second worker, and whether an unfinished turn goes on.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let quiet = ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"];
        let mut environment: Vec<(String, String)> =
            quiet.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        if self.continues && matches!(self.session, Session::Resume(_)) {
            environment.push(("CLAUDE_CODE_RESUME_INTERRUPTED_TURN".into(), "1".into()));
            environment.push(("CLAUDE_CODE_RESUME_REASON".into(), "container_recreated".into()));
        }
        environment.extend(self.env.iter().cloned());
        environment
    }
}
