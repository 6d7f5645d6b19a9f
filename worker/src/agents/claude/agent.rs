//! Claude Code as an [`Agent`], and recovery from its transcript.

use super::normalizer::Normalizer;
use super::recovery::{forked_lines, recover};
use super::{Session, Settings, start};
use crate::agents::{
    Agent, AgentHandle, AgentKind, AgentOutput, KeyForm, LastTurn, Launch, Recovered, Service, Sessions,
    find_program, instructions,
};
use crate::config::variables::DefaultValue::{Described, Fixed, Unset};
use crate::config::variables::{Variable, variable};
use crate::config::{Problem, Reader};
use crate::transcript;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use uuid::Uuid;

pub const CLAUDE: AgentKind = AgentKind {
    name: "claude",
    argument: None,
    title: "Claude Code",
    variables: &VARIABLES,
    secrets: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    prefixes: &["ANTHROPIC_", "CLAUDE_CODE_", "DISABLE_"],
    urls: &["ANTHROPIC_BASE_URL"],
    services: &[Service {
        name: "anthropic",
        url: "ANTHROPIC_BASE_URL",
        default_url: |_| "https://api.anthropic.com",
        keys: &[
            ("ANTHROPIC_API_KEY", KeyForm::ApiKey),
            ("ANTHROPIC_AUTH_TOKEN", KeyForm::Bearer),
            ("CLAUDE_CODE_OAUTH_TOKEN", KeyForm::Bearer),
        ],
    }],
    directories: &["CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR"],
    configure,
    program: None,
};

const VARIABLES: [Variable; 8] = [
    variable("CLAUDE_PATH", Fixed("claude"), "Program of the Claude Code CLI"),
    variable(
        "CLAUDE_CONFIG_DIR",
        Described("~/.claude"),
        "Configuration and transcripts of the Claude Code CLI",
    ),
    variable("CLAUDE_CODE_TMPDIR", Unset, "Temporary files of the Claude Code CLI"),
    variable(
        "SETTING_SOURCES",
        Unset,
        "Setting sources of the Claude Code CLI, separated by commas; those of the repository (project, local) only if POLICY allows them",
    ),
    variable(
        "ANTHROPIC_BASE_URL",
        Unset,
        "URL of the model API; the worker forwards to it. Default with a key: https://api.anthropic.com",
    ),
    variable("ANTHROPIC_API_KEY", Unset, "Key of the model API; the agent does not receive it"),
    variable("ANTHROPIC_AUTH_TOKEN", Unset, "Token of the model API; the agent does not receive it"),
    variable("CLAUDE_CODE_OAUTH_TOKEN", Unset, "Token of Claude Code; the agent does not receive it"),
];

fn configure(reader: &mut Reader<'_>, _argument: &str) -> Option<Box<dyn Agent>> {
    let path = reader.text("CLAUDE_PATH").unwrap_or_else(|| "claude".into());
    let directory =
        reader.text("CLAUDE_CONFIG_DIR").map_or_else(|| reader.home().join(".claude"), PathBuf::from);
    let sources = reader.text("SETTING_SOURCES");
    let repository_settings = reader.allows_repository_settings();
    let is_of_repository = |source: &str| matches!(source.trim(), "project" | "local");
    if !repository_settings
        && sources.as_ref().is_some_and(|sources| sources.split(',').any(is_of_repository))
    {
        reader.warn("SETTING_SOURCES", "not applied: POLICY does not allow settings of the repository");
    }
    let setting_sources = if repository_settings { sources } else { Some(USER_SETTINGS.to_owned()) };
    let conversation = Conversation::new(directory);
    Some(Box::new(Claude { path, setting_sources, repository_settings, conversation }))
}

/// The setting sources without those in the repository. Only of the operator: `.mcp.json`, hooks, commands, sub-agents and
/// instructions of the repository belong to the source `project` as well. `tests/it/worker/repository_settings.rs` tests it.
const USER_SETTINGS: &str = "user";

#[derive(Debug)]
struct Claude {
    path: String,
    setting_sources: Option<String>,
    /// Whether settings of the repository apply.
    repository_settings: bool,
    conversation: Conversation,
}

impl Agent for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn describe(&self) -> String {
        format!("Claude Code ({})", self.path)
    }

    fn check(&self, path: &str) -> Result<(), Problem> {
        find_program(&self.path, path, "CLAUDE_PATH")
    }

    fn sessions(&self) -> Sessions {
        self.conversation.sessions()
    }

    fn recover(&mut self, launch: &Launch) -> Option<Recovered> {
        self.conversation.recover(launch)
    }

    fn start(&mut self, mut launch: Launch) -> AgentHandle {
        if !self.repository_settings {
            let own = launch.append_system_prompt.take();
            let texts = own.into_iter().chain(instructions::of_repository(&launch.cwd));
            launch.append_system_prompt = Some(texts.collect::<Vec<_>>().join("\n\n"));
        }
        let sources = self.setting_sources.iter().map(|sources| format!("--setting-sources={sources}"));
        self.conversation.start(vec![self.path.clone()], sources.collect(), launch)
    }
}

/// A conversation with a program that speaks the protocol of the Claude Code CLI and writes its transcripts.
#[derive(Debug)]
pub struct Conversation {
    /// Configuration and transcripts.
    directory: PathBuf,
    recovered: Option<Normalizer>,
}

impl Conversation {
    pub fn new(directory: PathBuf) -> Self {
        // Links above it are those of the user.
        let directory = directory.canonicalize().unwrap_or(directory);
        Self { directory, recovered: None }
    }

    pub fn sessions(&self) -> Sessions {
        Sessions::Transcripts(self.directory.clone())
    }

    /// Replays the transcript of the session. See [`Agent::recover`].
    pub fn recover(&mut self, launch: &Launch) -> Option<Recovered> {
        self.recovered = None;
        let path = transcript::path(&self.directory, &launch.cwd, launch.session.as_deref()?);
        let (normalizer, recovered) = replay(&path, &launch.cwd, launch.fork_of, launch.inherited)?;
        self.recovered = Some(normalizer);
        Some(recovered)
    }

    /// Starts the program, with further arguments. See [`Agent::start`].
    pub fn start(&mut self, command: Vec<String>, arguments: Vec<String>, launch: Launch) -> AgentHandle {
        let session = launch.session.as_deref().and_then(|session| session.parse().ok());
        let session: Uuid = session.unwrap_or_else(Uuid::new_v4);
        let begin = match (&self.recovered, launch.fork_of) {
            (Some(_), _) => Session::Resume(session),
            (None, Some(from)) => Session::Fork { from, to: session },
            (None, None) => Session::New(session),
        };
        let mut env = vec![("CLAUDE_CONFIG_DIR".to_owned(), self.directory.display().to_string())];
        env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
        env.extend(launch.env);
        let normalizer = self.recovered.take().unwrap_or_else(|| Normalizer::new(launch.cwd.clone()));
        let settings = Settings {
            command,
            cwd: launch.cwd,
            env,
            launcher: launch.launcher,
            session: begin,
            resume_interrupted_turn: launch.resume_turn,
            model: launch.model,
            policy: launch.policy,
            allowed_tools: launch.allowed_tools,
            disallowed_tools: launch.disallowed_tools,
            max_turns: Some(launch.max_turns),
            max_budget_usd: Some(launch.max_budget_usd),
            system_prompt: launch.system_prompt,
            append_system_prompt: launch.append_system_prompt,
            arguments,
            partial_messages: launch.partial_messages,
            background_timeout: launch.background_timeout,
        };
        start(&settings, normalizer)
    }
}

/// `None` if there is no transcript, or no message in it. Entries that were written in another sandbox, or copied from a forked session, give
/// no events.
fn replay(path: &Path, cwd: &Path, fork_of: Option<Uuid>, inherited: u64) -> Option<(Normalizer, Recovered)> {
    let mut transcript = Vec::new();
    transcript::open(path).ok()?.read_to_end(&mut transcript).ok()?;
    // Lossy: a crash may leave an incomplete character at the end.
    let transcript = String::from_utf8_lossy(&transcript);
    let lines: Vec<&str> = transcript.lines().collect();
    let inherited = match fork_of {
        Some(from) => forked_lines(&path.with_file_name(format!("{from}.jsonl")), &lines),
        None => usize::try_from(inherited).unwrap_or(usize::MAX),
    };
    let (inherited, own) = lines.split_at(inherited.min(lines.len()));
    let before = recover(Normalizer::new(cwd.to_owned()), inherited.iter().copied());
    let after = recover(before.normalizer, own.iter().copied());
    let events = after.outputs.into_iter().filter_map(|output| match output {
        AgentOutput::Event(event) => Some(event),
        _ => None,
    });
    let (mut read_messages, mut prompts) = (before.read_messages, before.prompts);
    read_messages.extend(after.read_messages);
    prompts.extend(after.prompts);
    let last_turn = if after.last_turn == LastTurn::None { before.last_turn } else { after.last_turn };
    let turns = after.normalizer.turn();
    let events: Vec<_> = events.collect();
    let has_messages = last_turn != LastTurn::None || !read_messages.is_empty() || !events.is_empty();
    // A program that is killed early leaves a file without a message. It cannot resume that, and does not begin a session
    // that has a file.
    if !has_messages && fs::remove_file(path).is_ok() {
        return None;
    }
    let recovered = Recovered { events, read_messages, prompts, last_turn, turns };
    Some((after.normalizer, recovered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_without_a_message_is_discarded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session.jsonl");
        let recovered = |lines: &str| {
            fs::write(&path, lines).unwrap();
            (replay(&path, Path::new("/w"), None, 0).is_some(), path.exists())
        };
        let mode = r#"{"type":"mode","mode":"normal"}"#;
        let message = r#"{"type":"user","uuid":"u","message":{"content":"do it"}}"#;
        assert_eq!(recovered(""), (false, false));
        assert_eq!(recovered(&format!("{mode}\n")), (false, false));
        assert_eq!(recovered(&format!("{mode}\n{message}\n")), (true, true));
        fs::remove_file(&path).unwrap();
        assert!(replay(&path, Path::new("/w"), None, 0).is_none());
    }
}
