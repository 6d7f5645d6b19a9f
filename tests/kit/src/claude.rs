//! Drives the real Claude Code CLI over its standard input and output, with a scripted model.

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

const TIMEOUT: Duration = Duration::from_secs(60);

/// A fixed model, so that its price is known.
pub const MODEL: &str = "claude-sonnet-4-5";

/// Flags of every start: the bidirectional protocol, with all optional frames.
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

/// Cargo's target folder, which contains tools and captures.
pub fn target() -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own binary");
    // The binary is `target/debug/deps/it-0123456789abcdef` or `target/release/bench`. Cargo marks the folder with a tag.
    let marked = |folder: &&Path| folder.join("CACHEDIR.TAG").exists();
    this.ancestors().find(marked).expect("this is built into cargo's target folder").to_owned()
}

/// The CLI in the version that `cargo xtask tools` installs.
pub fn binary() -> PathBuf {
    let path = target().join("tools/claude/node_modules/.bin/claude");
    assert!(path.exists(), "Claude Code is not at {}: run `cargo xtask tools`", path.display());
    path
}

/// An isolated environment for the CLI: home, configuration and workspace.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    pub workspace: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub config: PathBuf,
}

impl Home {
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("claude-").expect("a temporary folder can be created");
        let workspace = folder.path().join("workspace");
        let config = folder.path().join("home/.claude");
        for path in [&workspace, &config, &folder.path().join("tmp")] {
            std::fs::create_dir_all(path).expect("a temporary folder can be written");
        }
        Self { folder, workspace, config }
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// `TMPDIR`. Background tools write their output there.
    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// The complete environment of the CLI, or of a worker that starts it.
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

    /// The file of a session's transcript.
    pub fn transcript(&self, session: &str) -> PathBuf {
        self.config.join("projects").join(key(&self.workspace)).join(format!("{session}.jsonl"))
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

/// Variables that disable background traffic, and allow the CLI to run as root.
pub const QUIET: [&str; 7] = [
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE",
    "DISABLE_AUTOUPDATER",
    "DISABLE_BUG_COMMAND",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "IS_SANDBOX",
];

/// The CLI's name for a workspace: every character that is not a letter or a digit becomes a dash.
pub fn key(folder: &Path) -> String {
    folder.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// A running CLI. It is killed when dropped.
#[derive(Debug)]
pub struct Cli {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    recording: Recording,
    control_requests: u32,
    messages: u32,
}

impl Cli {
    /// Starts the CLI with [`FLAGS`] and `flags`, which select the session: `--session-id=…` or `--resume=…`.
    pub fn start(home: &Home, model: &Model, flags: &[&str]) -> Self {
        Self::start_with(home, model, flags, &[])
    }

    /// As [`Cli::start`], with additional environment variables.
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
            control_requests: 0,
            messages: 0,
        }
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    pub async fn send(&mut self, frame: Value) {
        let input = self.input.as_mut().expect("its standard input is open");
        input.write_all(format!("{frame}\n").as_bytes()).await.expect("the CLI reads");
        input.flush().await.expect("the CLI reads");
        self.recording.push(Direction::In, frame);
    }

    /// Sends a control request and waits for its response.
    pub async fn control(&mut self, request: Value) -> Value {
        let id = self.send_control_request(request).await;
        let answer =
            |frame: &Value| frame["type"] == "control_response" && frame["response"]["request_id"] == *id;
        self.until(answer).await["response"].clone()
    }

    /// Sends a control request. Returns its id.
    pub async fn send_control_request(&mut self, request: Value) -> String {
        self.control_requests += 1;
        let id = format!("req_{}", self.control_requests);
        self.send(json!({"type": "control_request", "request_id": id, "request": request})).await;
        id
    }

    /// Sends the first request of the protocol.
    pub async fn initialize(&mut self) -> Value {
        self.control(json!({"subtype": "initialize", "hooks": null})).await
    }

    /// Sends a user message. Returns the id that its receipts carry.
    pub async fn send_message(&mut self, text: &str) -> String {
        self.messages += 1;
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.messages);
        let message = json!({"role": "user", "content": text});
        self.send(json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": uuid,
        }))
        .await;
        uuid
    }

    /// Answers a control request of the CLI, such as `can_use_tool`.
    pub async fn answer(&mut self, request: &Value, response: Value) {
        let response =
            json!({"subtype": "success", "request_id": request["request_id"], "response": response});
        self.send(json!({"type": "control_response", "response": response})).await;
    }

    /// Waits for a permission request.
    pub async fn permission(&mut self) -> Value {
        self.until(|frame| frame["request"]["subtype"] == "can_use_tool").await
    }

    /// Waits for a permission request and allows it.
    pub async fn allow(&mut self) -> Value {
        let request = self.permission().await;
        let input = request["request"]["input"].clone();
        self.answer(&request, json!({"behavior": "allow", "updatedInput": input})).await;
        request
    }

    /// Waits for the end of a turn.
    pub async fn result(&mut self) -> Value {
        self.until(|frame| frame["type"] == "result").await
    }

    /// Waits until a message reaches a state: `queued`, `started`, `completed` or `cancelled`.
    pub async fn receipt(&mut self, uuid: &str, state: &str) -> Value {
        self.until(|frame| frame["command_uuid"] == uuid && frame["state"] == state).await
    }

    /// Reads frames until one matches.
    pub async fn until(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        let begun = self.recording.lines().len();
        let read = async {
            loop {
                match self.next().await {
                    Some(frame) if matches(&frame) => return Some(frame),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        match timeout(TIMEOUT, read).await {
            Ok(Some(frame)) => frame,
            outcome => {
                let received = self.recording.lines()[begun..].iter().map(|line| line.frame.to_string());
                let received: Vec<String> = received.map(|text| text.chars().take(300).collect()).collect();
                let why = if outcome.is_ok() { "The CLI exited" } else { "Timed out" };
                panic!("{why} before the expected frame. Received:\n{}", received.join("\n"))
            }
        }
    }

    /// The next frame, or `None` after the CLI closed its output.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.output.next_line().await.expect("its output is text")?;
        let frame: Value = serde_json::from_str(&line).expect("every line of its output is JSON");
        self.recording.push(Direction::Out, frame.clone());
        Some(frame)
    }

    /// Closes the standard input of the CLI.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Closes the standard input and reads until the CLI exits.
    pub async fn close(mut self) -> (ExitStatus, Recording) {
        self.close_input();
        let end = async {
            while self.next().await.is_some() {}
            self.child.wait().await.expect("a child can be waited for")
        };
        let status = timeout(TIMEOUT, end).await.expect("the CLI exits at the end of its input");
        (status, self.recording)
    }

    /// Sends SIGKILL, as when a sandbox is lost.
    pub async fn kill(mut self) -> Recording {
        self.child.kill().await.expect("a child can be killed");
        self.recording
    }
}
