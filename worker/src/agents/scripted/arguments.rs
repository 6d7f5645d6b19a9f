//! What a player is started with: the flags of the CLI, and what the environment said.

use std::collections::BTreeMap;
use std::path::PathBuf;
use uuid::Uuid;

/// What a player is started with.
#[derive(Debug, Clone)]
pub struct PlayArguments {
    /// A built-in script's name, with or without `scripted:`, or a path.
    pub script: String,
    /// `--session-id`: the name of a new session.
    pub session: Option<Uuid>,
    /// `--resume`: the session to go on with.
    pub resume: Option<Uuid>,
    /// `--fork-session`: go on under a new name, leave the old session as it is.
    pub fork: bool,
    /// `--model`.
    pub model: String,
    /// `--permission-mode`.
    pub permission_mode: String,
    /// `--max-turns`: answers in one turn.
    pub max_turns: Option<u64>,
    /// `--max-budget-usd`.
    pub max_budget_usd: Option<f64>,
    /// `--allowedTools`.
    pub allowed_tools: Vec<String>,
    /// `--disallowedTools`.
    pub disallowed_tools: Vec<String>,
    /// `--replay-user-messages`.
    pub replay_user_messages: bool,
    /// `--include-partial-messages`.
    pub partial_messages: bool,
    /// `--session-mirror`.
    pub session_mirror: bool,
    /// `CLAUDE_CONFIG_DIR`: where transcripts are.
    pub config_dir: PathBuf,
    /// `CLAUDE_CODE_RESUME_INTERRUPTED_TURN`: go on with a turn that was cut off, without being told to.
    pub resume_interrupted_turn: bool,
    /// `CLAUDE_CODE_RESUME_REASON`: stamped on the frames of such a turn.
    pub resume_reason: Option<String>,
    /// Where it works.
    pub cwd: PathBuf,
    /// How long a wait is, as a factor: 1 as the script says, 0 not at all. `--play-speed=2` halves it.
    pub pace: f64,
    /// What `{"play":"crash"}` does.
    pub crash: Crash,
}

/// What `{"play":"crash"}` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// SIGKILL to the own process.
    Kill,
    /// Return 137 at once, where the process is not the player's own.
    Return,
}

impl PlayArguments {
    /// Reads `<script> <flags of the CLI…>`. What is not known is ignored, as long as it looks like a flag. Folders
    /// and the environment are the caller's to fill in.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut words = words.iter().map(String::as_str).peekable();
        let script = words.next().filter(|word| !word.starts_with('-')).ok_or("which script?")?;
        let mut arguments = Self::of(script);
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix('-') else {
                return Err(format!("{word:?} is not a flag"));
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            match flag.split_once('=') {
                Some((name, value)) => arguments.set(name, value)?,
                None if TAKES_A_VALUE.contains(&flag) => {
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
            return Err("--session-id goes with --resume only if --fork-session is given, too".to_owned());
        }
        Ok(arguments)
    }

    /// With what the environment says: where its record is, whether to go on with an unfinished turn, and how fast.
    ///
    /// # Errors
    /// A sentence that names the variable.
    pub fn in_environment(mut self, environment: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |name: &str| environment.get(name).filter(|text| !text.is_empty());
        if let Some(folder) = text("CLAUDE_CONFIG_DIR") {
            self.config_dir = PathBuf::from(folder);
        }
        if let Some(speed) = text("PLAY_SPEED") {
            self.set("play-speed", speed).map_err(|_| format!("PLAY_SPEED: {speed:?} is not a number"))?;
        }
        self.resume_interrupted_turn = text("CLAUDE_CODE_RESUME_INTERRUPTED_TURN").is_some();
        self.resume_reason = text("CLAUDE_CODE_RESUME_REASON").cloned();
        self.cwd = std::env::current_dir().map_err(|why| format!("the folder cannot be used: {why}"))?;
        Ok(self)
    }

    /// The script, and what the CLI takes if it is told nothing.
    fn of(script: &str) -> Self {
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
        let bad = |what: &str| format!("--{flag}={value}: not {what}");
        match flag {
            "session-id" => self.session = Some(value.parse().map_err(|_| bad("a uuid"))?),
            "resume" => self.resume = Some(value.parse().map_err(|_| bad("a uuid"))?),
            "model" => value.clone_into(&mut self.model),
            "permission-mode" if MODES.contains(&value) => value.clone_into(&mut self.permission_mode),
            "permission-mode" => return Err(bad(&format!("one of {}", MODES.join(", ")))),
            "max-turns" => self.max_turns = Some(value.parse().map_err(|_| bad("a number"))?),
            "max-budget-usd" => self.max_budget_usd = Some(value.parse().map_err(|_| bad("an amount"))?),
            "allowedTools" => self.allowed_tools = names(value),
            "disallowedTools" => self.disallowed_tools = names(value),
            "play-speed" => {
                let speed: f64 = value.parse().map_err(|_| bad("a number"))?;
                self.pace = if speed > 0.0 { 1.0 / speed } else { 0.0 };
            }
            _ => {}
        }
        Ok(())
    }
}

/// The permission modes of the CLI.
const MODES: [&str; 7] = ["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto", "manual"];

/// Flags whose value may be the next word.
const TAKES_A_VALUE: [&str; 14] = [
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
