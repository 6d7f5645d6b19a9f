//! A client of the player.

use super::super::{Crash, PlayArguments, play};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split,
};
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Maximum wait for a frame.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// A working directory and a config directory.
pub struct Fixture {
    pub folder: TempDir,
    pub session: Uuid,
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder, session: Uuid::new_v4() }
    }

    pub fn cwd(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a script file and returns its path.
    pub fn script(&self, lines: &[Value]) -> String {
        let path = self.folder.path().join("script.jsonl");
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// The worker's flags, without waits and with all permissions.
    pub fn arguments(&self, script: &str) -> PlayArguments {
        let flags = "-p --output-format stream-json --input-format stream-json --verbose \
            --permission-prompt-tool stdio --permission-mode=bypassPermissions --replay-user-messages \
            --include-partial-messages --session-mirror --setting-sources=user --play-speed=0";
        let mut words = vec![script.to_owned()];
        words.extend(flags.split_whitespace().map(str::to_owned));
        words.push(format!("--session-id={}", self.session));
        let mut arguments = PlayArguments::parse(&words).unwrap();
        arguments.config_dir = self.folder.path().join("config");
        arguments.cwd = self.cwd();
        arguments.crash = Crash::Return;
        arguments
    }

    /// The same for an existing session.
    pub fn resumed(&self, script: &str) -> PlayArguments {
        let mut arguments = self.arguments(script);
        arguments.session = None;
        arguments.resume = Some(self.session);
        arguments.resume_interrupted_turn = true;
        arguments
    }

    pub fn transcript(&self) -> Vec<Value> {
        entries(&super::super::transcript::path_of(
            &self.folder.path().join("config"),
            &self.cwd(),
            self.session,
        ))
    }
}

pub fn entries(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A running player and its pipes.
pub struct Client {
    stdin: Option<WriteHalf<DuplexStream>>,
    frames: Lines<BufReader<ReadHalf<DuplexStream>>>,
    task: JoinHandle<i32>,
}

impl Client {
    pub fn start(arguments: PlayArguments) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = split(theirs);
        let task = tokio::spawn(play(arguments, BufReader::new(read), write));
        let (read, write) = split(ours);
        Self { stdin: Some(write), frames: BufReader::new(read).lines(), task }
    }

    pub async fn write(&mut self, frame: Value) {
        let line = format!("{frame}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    pub async fn send_message(&mut self, text: &str) -> String {
        let uuid = Uuid::new_v4().to_string();
        self.write(json!({"type": "user", "message": {"role": "user", "content": text},
            "parent_tool_use_id": null, "session_id": "", "uuid": uuid}))
            .await;
        uuid
    }

    pub async fn request(&mut self, id: &str, request: Value) {
        self.write(json!({"type": "control_request", "request_id": id, "request": request})).await;
    }

    pub async fn next(&mut self) -> Option<Value> {
        let line =
            tokio::time::timeout(FRAME_TIMEOUT, self.frames.next_line()).await.expect("a frame in time");
        line.ok().flatten().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// All frames up to and including the first match.
    pub async fn until(&mut self, matches: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let Some(frame) = self.next().await else {
                panic!("the player exited before a match; last frame: {:#?}", frames.last());
            };
            let found = matches(&frame);
            frames.push(frame);
            if found {
                return frames;
            }
        }
    }

    /// All frames until the end of the turn.
    pub async fn finish_turn(&mut self) -> Vec<Value> {
        self.until(|frame| {
            frame["type"] == "transcript_mirror"
                && frame["entries"].as_array().unwrap().iter().any(|entry| entry["scriptTurnEnd"] == true)
        })
        .await
    }

    /// Closes stdin. Returns the remaining frames and the exit code.
    pub async fn close(mut self) -> (Vec<Value>, i32) {
        if let Some(mut stdin) = self.stdin.take() {
            stdin.shutdown().await.unwrap();
        }
        self.wait_for_exit().await
    }

    pub async fn wait_for_exit(mut self) -> (Vec<Value>, i32) {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        (frames, self.task.await.unwrap())
    }

    /// Aborts the player at an arbitrary point.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// A short label for a frame.
pub fn label(frame: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let block = &frame["message"]["content"][0];
    match frame["type"].as_str().unwrap() {
        "system" => format!("system/{}", text(&frame["subtype"])),
        "command_lifecycle" => text(&frame["state"]),
        "assistant" if block["type"] == "tool_use" => format!("uses {}", text(&block["name"])),
        "assistant" => format!("writes {}", text(&block["type"])),
        "user" if frame["isReplay"] == true => "replay".to_owned(),
        "user" if block["type"] == "tool_result" && block["is_error"] == true => "failed".to_owned(),
        "user" if block["type"] == "tool_result" => "succeeded".to_owned(),
        "user" => "note".to_owned(),
        "stream_event" => text(&frame["event"]["type"]),
        "result" => format!("result {}", text(&frame["terminal_reason"])),
        other => other.to_owned(),
    }
}

/// The labels, without streaming and mirror frames.
pub fn summary(frames: &[Value]) -> String {
    let omitted = ["stream_event", "transcript_mirror"];
    let shown = frames.iter().filter(|frame| !omitted.contains(&frame["type"].as_str().unwrap()));
    shown.map(label).collect::<Vec<_>>().join(", ")
}

pub fn find<'a>(frames: &'a [Value], kind: &str) -> &'a Value {
    frames.iter().find(|frame| frame["type"] == kind).unwrap()
}

pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub fn bash(command: &str) -> Value {
    json!({"type": "tool_use", "name": "Bash", "input": {"command": command}})
}

pub fn file(name: &str) -> Value {
    json!({"type": "tool_use", "name": "Write", "input": {"file_path": name, "content": "hi\n"}})
}
