//! Arguments of the player: the flags of the CLI and its environment variables.

use std::collections::BTreeMap;
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Debug, Clone)]
pub struct PlayArguments {
    /// The name of a built-in script, with or without `scripted:`, or a path.
    pub script: String,
    /// `--session-id`: the id of a new session.
    pub session: Option<Uuid>,
    /// `--resume`: the session to continue.
    pub resume: Option<Uuid>,
    /// `--fork-session`: continue in a copy and leave the old session unchanged.
    pub fork: bool,
    pub model: String,
    pub permission_mode: String,
    /// `--max-turns`: maximum number of messages in one turn.
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    /// `--allowedTools`.
    pub allowed_tools: Vec<String>,
    /// `--disallowedTools`.
    pub disallowed_tools: Vec<String>,
    pub replay_user_messages: bool,
    /// `--include-partial-messages`.
    pub partial_messages: bool,
    pub session_mirror: bool,
    /// `CLAUDE_CONFIG_DIR`: the directory of the transcripts.
    pub config_dir: PathBuf,
    /// `CLAUDE_CODE_RESUME_INTERRUPTED_TURN`: continue an unfinished turn without a new message.
    pub resume_interrupted_turn: bool,
    /// `CLAUDE_CODE_RESUME_REASON`: added to the frames of such a turn.
    pub resume_reason: Option<String>,
    pub cwd: PathBuf,
    /// Factor for all waits: 1 is the script's timing, 0 skips them. `--play-speed=2` sets 0.5.
    pub pace: f64,
    pub crash: Crash,
}

/// What `{"play":"crash"}` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Sends SIGKILL to its own process.
    Kill,
    /// Returns 137, for a player that runs inside another process.
    Return,
}

impl PlayArguments {
    /// Parses `<script> <flags of the CLI…>`. Unknown flags are ignored. Directories and the environment are not set
    /// here.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut words = words.iter().map(String::as_str).peekable();
        let script = words.next().filter(|word| !word.starts_with('-')).ok_or("no script given")?;
        let mut arguments = Self::with_defaults(script);
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-') else {
                return Err(format!("{word:?} is not a flag"));
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            match flag.split_once('=') {
                Some((name, value)) => arguments.set(name, value)?,
                None if FLAGS_WITH_VALUE.contains(&flag) => {
                    let value = words.next().ok_or_else(|| format!("--{flag} needs a value"))?;
                    arguments.set(flag, value)?;
                }
                None => arguments.switch(flag),
            }
        }
        if arguments.fork && arguments.resume.is_none() {
            return Err("--fork-session needs --resume".to_owned());
        }
        if arguments.session.is_some() && arguments.resume.is_some() && !arguments.fork {
            return Err("--session-id with --resume needs --fork-session".to_owned());
        }
        Ok(arguments)
    }

    /// Applies environment variables and the current directory.
    ///
    /// # Errors
    /// A message that names the variable.
    pub fn in_environment(mut self, environment: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |name: &str| environment.get(name).filter(|text| !text.is_empty());
        if let Some(directory) = text("CLAUDE_CONFIG_DIR") {
            self.config_dir = PathBuf::from(directory);
        }
        if let Some(speed) = text("PLAY_SPEED") {
            self.set("play-speed", speed).map_err(|_| format!("PLAY_SPEED: {speed:?} is not a number"))?;
        }
        self.resume_interrupted_turn = text("CLAUDE_CODE_RESUME_INTERRUPTED_TURN").is_some();
        self.resume_reason = text("CLAUDE_CODE_RESUME_REASON").cloned();
        self.cwd =
            std::env::current_dir().map_err(|error| format!("cannot read the current directory: {error}"))?;
        Ok(self)
    }

    /// The CLI's defaults.
    fn with_defaults(script: &str) -> Self {
        Self {
            script: script.to_owned(),
            session: None,
            resume: None,
            fork: false,
            model: "scripted".to_owned(),
            permission_mode: "default".to_owned(),
            max_turns: None,
            max_budget_usd: None,
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            replay_user_messages: false,
            partial_messages: false,
            session_mirror: false,
            config_dir: PathBuf::from(".claude"),
            resume_interrupted_turn: false,
            resume_reason: None,
            cwd: PathBuf::from("."),
            pace: 1.0,
            crash: Crash::Kill,
        }
    }

    fn switch(&mut self, flag: &str) {
        match flag {
            "fork-session" => self.fork = true,
            "replay-user-messages" => self.replay_user_messages = true,
            "include-partial-messages" => self.partial_messages = true,
            "session-mirror" => self.session_mirror = true,
            _ => {}
        }
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let invalid = |expected: &str| format!("--{flag}={value}: not {expected}");
        match flag {
            "session-id" => self.session = Some(value.parse().map_err(|_| invalid("a uuid"))?),
            "resume" => self.resume = Some(value.parse().map_err(|_| invalid("a uuid"))?),
            "model" => value.clone_into(&mut self.model),
            "permission-mode" if MODES.contains(&value) => value.clone_into(&mut self.permission_mode),
            "permission-mode" => return Err(invalid(&format!("one of {}", MODES.join(", ")))),
            "max-turns" => self.max_turns = Some(value.parse().map_err(|_| invalid("a number"))?),
            "max-budget-usd" => self.max_budget_usd = Some(value.parse().map_err(|_| invalid("an amount"))?),
            "allowedTools" => self.allowed_tools = names(value),
            "disallowedTools" => self.disallowed_tools = names(value),
            "play-speed" => {
                let speed: f64 = value.parse().map_err(|_| invalid("a number"))?;
                self.pace = if speed > 0.0 { 1.0 / speed } else { 0.0 };
            }
            _ => {}
        }
        Ok(())
    }
}

/// Permission modes of the CLI.
const MODES: [&str; 7] = ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual"];

/// Flags whose value may be a separate argument.
const FLAGS_WITH_VALUE: [&str; 14] = [
    "output-format",
    "input-format",
    "permission-prompt-tool",
    "permission-mode",
    "session-id",
    "resume",
    "model",
    "max-turns",
    "max-budget-usd",
    "allowedTools",
    "disallowedTools",
    "append-system-prompt",
    "settings",
    "play-speed",
];

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
