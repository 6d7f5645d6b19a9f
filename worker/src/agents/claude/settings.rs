//! Arguments and environment of the CLI.

use crate::agents::policy::Policy;
use confine::Launcher;
use std::path::PathBuf;
use std::time::Duration;
use uuid::Uuid;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The program and the arguments before the CLI's own: `claude`, or the script player.
    pub command: Vec<String>,
    pub launcher: Launcher,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    pub session: Session,
    /// Whether the CLI continues an unfinished turn on its own after a resume.
    pub resume_interrupted_turn: bool,
    pub model: Option<String>,
    pub policy: Policy,
    /// In the CLI's own syntax: `Bash(git *)`.
    pub allowed_tools: Vec<String>,
    pub disallowed_tools: Vec<String>,
    /// Maximum number of model responses for one prompt.
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    /// Replaces the CLI's own system prompt.
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Whether text is emitted while it is being streamed.
    pub partial_messages: bool,
    /// How long background tasks count as activity after a turn.
    pub background_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// A new session with this id.
    New(Uuid),
    /// A session whose transcript exists.
    Resume(Uuid),
    /// A new session that starts as a copy of another one.
    Fork { from: Uuid, to: Uuid },
}

impl Settings {
    /// Always `--flag=value`, because a separate value that starts with a dash would be parsed as a flag.
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
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }

    /// Disables telemetry and updates, and sets whether an unfinished turn is continued.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let disabled =
            ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"];
        let mut environment: Vec<(String, String)> =
            disabled.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        if self.resume_interrupted_turn && matches!(self.session, Session::Resume(_)) {
            environment.push(("CLAUDE_CODE_RESUME_INTERRUPTED_TURN".into(), "1".into()));
            environment.push(("CLAUDE_CODE_RESUME_REASON".into(), "container_recreated".into()));
        }
        environment.extend(self.env.iter().cloned());
        environment
    }
}
