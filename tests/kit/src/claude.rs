//! The real Claude Code, driven by a test over its standard input and output, with a scripted model behind it.

mod recording;

pub use recording::{Direction, Line, Recording};

use crate::model::Model;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Whatever takes longer does not come.
const SOON: Duration = Duration::from_secs(60);

/// The model that is asked for, so that its price is known.
pub const MODEL: &str = "claude-sonnet-4-5";

/// How it is started, always: the two-way protocol, with everything that it can tell.
pub const FLAGS: [&str; 12] = [
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
    "--permission-mode=default",
    "--replay-user-messages",
    "--include-partial-messages",
    "--session-mirror",
    "--setting-sources=user",
    "--model",
    MODEL,
];

/// Where tools and captures of this build are: cargo's target folder.
pub fn target() -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own binary");
    // `target/debug/deps/it-0123456789abcdef`, or `target/release/bench`. Cargo marks the folder.
    let marked = |folder: &&Path| folder.join("CACHEDIR.TAG").exists();
    this.ancestors().find(marked).expect("this is built into cargo's target folder").to_owned()
}

/// The CLI in the version that this project speaks to.
pub fn binary() -> PathBuf {
    let path = target().join("tools/claude/node_modules/.bin/claude");
    assert!(path.exists(), "Claude Code is not at {}: run `cargo xtask tools`", path.display());
    path
}

/// A fresh machine as far as the CLI can see: its home, its configuration, and a workspace.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    /// What the agent works on.
    pub workspace: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub config: PathBuf,
}

impl Home {
    /// An empty one.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("claude-").expect("a temporary folder can be made");
        let workspace = folder.path().join("workspace");
        let config = folder.path().join("home/.claude");
        for made in [&workspace, &config, &folder.path().join("tmp")] {
            std::fs::create_dir_all(made).expect("a temporary folder can be written");
        }
        Self { folder, workspace, config }
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// `TMPDIR`: what tools in the background write goes there.
    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// The whole environment that the CLI gets, or a worker that starts it: this and nothing else.
    pub fn environment(&self, model: &Model) -> Vec<(&'static str, OsString)> {
        let mut all = vec![
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("HOME", self.home().into()),
            ("TMPDIR", self.temporary().into()),
            ("CLAUDE_CODE_TMPDIR", self.temporary().into()),
            ("CLAUDE_CONFIG_DIR", self.config.clone().into()),
            ("ANTHROPIC_BASE_URL", model.url().into()),
            ("ANTHROPIC_API_KEY", "key-of-the-tests".into()),
        ];
        all.extend(QUIET.map(|name| (name, "1".into())));
        all
    }

    /// Where the CLI keeps the transcript of a session in this workspace.
    pub fn transcript(&self, session: &str) -> PathBuf {
        self.config.join("projects").join(key(&self.workspace)).join(format!("{session}.jsonl"))
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

/// What makes the CLI keep to itself, and lets it run as root.
pub const QUIET: [&str; 7] = [
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE",
    "DISABLE_AUTOUPDATER",
    "DISABLE_BUG_COMMAND",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "IS_SANDBOX",
];

/// The name of a folder's transcripts: every character that is not a letter or a digit becomes a dash.
pub fn key(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// A CLI that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Cli {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    recording: Recording,
    asked: u32,
    said: u32,
}

impl Cli {
    /// Starts it with [`FLAGS`] and these, which name the session: `--session-id=…` or `--resume=…`.
    pub fn start(home: &Home, model: &Model, flags: &[&str]) -> Self {
        Self::start_with(home, model, flags, &[])
    }

    /// As [`Cli::start`], with more in its environment.
    pub fn start_with(home: &Home, model: &Model, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(binary())
            .args(FLAGS)
            .args(flags)
            .current_dir(&home.workspace)
            .env_clear()
            .envs(home.environment(model))
            .env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("the CLI can be started");
        let output = child.stdout.take().expect("its standard output is a pipe");
        Self {
            input: child.stdin.take(),
            output: BufReader::new(output).lines(),
            child,
            recording: Recording::of(home, model),
            asked: 0,
            said: 0,
        }
    }

    /// Everything that was said by either side.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Writes a frame.
    pub async fn send(&mut self, frame: Value) {
        let input = self.input.as_mut().expect("its standard input is open");
        input.write_all(format!("{frame}\n").as_bytes()).await.expect("the CLI reads");
        input.flush().await.expect("the CLI reads");
        self.recording.push(Direction::In, frame);
    }

    /// Asks something of the CLI itself, and waits for the answer.
    pub async fn control(&mut self, request: Value) -> Value {
        let id = self.ask(request).await;
        let answer =
            |frame: &Value| frame["type"] == "control_response" && frame["response"]["request_id"] == *id;
        self.until(answer).await["response"].clone()
    }

    /// Asks something of the CLI itself. Returns the id that its answer will have.
    pub async fn ask(&mut self, request: Value) -> String {
        self.asked += 1;
        let id = format!("req_{}", self.asked);
        self.send(json!({"type": "control_request", "request_id": id, "request": request})).await;
        id
    }

    /// What everything begins with.
    pub async fn initialize(&mut self) -> Value {
        self.control(json!({"subtype": "initialize", "hooks": null})).await
    }

    /// Says something to the agent. Returns the name under which its receipts come.
    pub async fn say(&mut self, text: &str) -> String {
        self.said += 1;
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.said);
        let message = json!({"role": "user", "content": text});
        self.send(json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": uuid,
        }))
        .await;
        uuid
    }

    /// Answers a request of the CLI, such as `can_use_tool`.
    pub async fn answer(&mut self, request: &Value, response: Value) {
        let response =
            json!({"subtype": "success", "request_id": request["request_id"], "response": response});
        self.send(json!({"type": "control_response", "response": response})).await;
    }

    /// Waits until it asks whether it may use a tool.
    pub async fn permission(&mut self) -> Value {
        self.until(|frame| frame["request"]["subtype"] == "can_use_tool").await
    }

    /// Waits until it asks whether it may use a tool, and allows it.
    pub async fn allow(&mut self) -> Value {
        let asked = self.permission().await;
        let input = asked["request"]["input"].clone();
        self.answer(&asked, json!({"behavior": "allow", "updatedInput": input})).await;
        asked
    }

    /// Waits for the end of a turn.
    pub async fn result(&mut self) -> Value {
        self.until(|frame| frame["type"] == "result").await
    }

    /// Waits until something said has come so far: `queued`, `started`, `completed`, `cancelled`.
    pub async fn receipt(&mut self, uuid: &str, state: &str) -> Value {
        self.until(|frame| frame["command_uuid"] == uuid && frame["state"] == state).await
    }

    /// Reads on until a frame fits.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let begun = self.recording.lines().len();
        let read = async {
            loop {
                match self.next().await {
                    Some(frame) if fits(&frame) => return Some(frame),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        match timeout(SOON, read).await {
            Ok(Some(frame)) => frame,
            outcome => {
                let heard = self.recording.lines()[begun..].iter().map(|line| line.frame.to_string());
                let heard: Vec<String> = heard.map(|text| text.chars().take(300).collect()).collect();
                let why = if outcome.is_ok() { "The CLI ended" } else { "Time ran out" };
                panic!("{why} before the frame came that was waited for. It said:\n{}", heard.join("\n"))
            }
        }
    }

    /// The next frame, or `None` when it has ended.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.output.next_line().await.expect("its output is text")?;
        let frame: Value = serde_json::from_str(&line).expect("every line of its output is JSON");
        self.recording.push(Direction::Out, frame.clone());
        Some(frame)
    }

    /// Closes its standard input: nothing more will be said.
    pub fn hang_up(&mut self) {
        drop(self.input.take());
    }

    /// Closes its standard input and reads until it ends.
    pub async fn close(mut self) -> (ExitStatus, Recording) {
        self.hang_up();
        let end = async {
            while self.next().await.is_some() {}
            self.child.wait().await.expect("a child can be waited for")
        };
        let status = timeout(SOON, end).await.expect("it ends when there is nothing to read");
        (status, self.recording)
    }

    /// `kill -9`, as when a sandbox is lost.
    pub async fn kill(mut self) -> Recording {
        self.child.kill().await.expect("a child can be killed");
        self.recording
    }
}
