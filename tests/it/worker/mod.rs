//! The worker as a process, with the real Claude Code or a script as its agent, against a plane for each test.

mod acp;
mod completion;
mod files;
mod live_updates;
mod network;
mod plane_outage;
mod policy;
mod relay;
mod repository;
mod repository_settings;
mod restarts;
mod resuming;
mod scripted;
mod secrets;
mod settings;
mod shutdown;
mod steering;
mod toolchains;
mod turns;

use crate::support::{OPERATOR, TestPlane};
use contract::payloads::{self, Payload};
use domain::JsonObject;
use kit::claude::{Home, MODEL, binary};
use kit::model::{Model, Script};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// A test fails when it waits longer than this.
const DEADLINE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A command that runs until a file `go` exists, because Claude Code rejects long sleeps. It ends after five minutes,
/// longer than any test waits, so that it cannot outlive its agent forever.
const GATED: &str = "for _ in $(seq 6000); do [ -e go ] && break; sleep 0.05; done; echo gate opened";

/// The folder of an ACP agent of the tests, and this test, which the agent executes.
fn readable(variables: &[(&str, &str)]) -> String {
    let agent = variables.iter().find(|(name, _)| *name == "AGENT").map(|(_, agent)| *agent);
    let Some(command) = agent.and_then(|agent| agent.strip_prefix("acp:")) else { return String::new() };
    let files = command.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    let folders = files.filter_map(Path::parent).map(Path::to_owned);
    let readable: Vec<_> =
        folders.chain(std::env::current_exe()).map(|path| path.display().to_string()).collect();
    readable.join(":")
}

/// A plane, a scripted model and a home folder for one worker.
struct Fixture {
    plane: TestPlane,
    model: Model,
    home: Home,
    sandbox: String,
    token: String,
}

impl Fixture {
    async fn new(script: Script) -> Self {
        let (plane, model, home) = (TestPlane::start().await, Model::start(script).await, Home::new());
        let token = plane.register("box", "acme").await;
        Self { plane, model, home, sandbox: "box".into(), token }
    }

    /// The complete environment of a worker.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
        for (name, value) in self.home.environment(&self.model) {
            variables.insert(name.into(), value);
        }
        let own = [
            ("SANDBOX_ID", self.sandbox.clone()),
            ("SANDBOX_TOKEN", self.token.clone()),
            ("CALLBACK_URL", self.plane.url.clone()),
            ("CWD", self.home.workspace.display().to_string()),
            ("STATE_DIR", self.home.home().join("state").display().to_string()),
            ("CLAUDE_PATH", binary().display().to_string()),
            ("MODEL", MODEL.to_owned()),
            ("SETTING_SOURCES", "user".to_owned()),
            ("LOG", "debug".to_owned()),
        ];
        variables.extend(own.map(|(name, value)| (name.into(), value.into())));
        variables
    }

    /// Starts a worker with additional environment variables.
    fn start_worker(&self, variables: &[(&str, &str)]) -> Worker {
        let mut environment = self.environment();
        environment.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        environment.insert("ISOLATION_READABLE".into(), readable(variables).into());
        let log = std::fs::File::create(self.home.home().join("worker.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_sunaba"))
            .arg("worker")
            .current_dir(&self.home.workspace)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Worker { child }
    }

    /// Writes a script and returns the value of `AGENT` that selects it.
    fn script(&self, steps: &[Value]) -> String {
        let path = self.home.home().join("script.jsonl");
        let lines: Vec<String> = steps.iter().map(|step| format!("{step}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        format!("scripted:{}", path.display())
    }

    /// The sandbox, as the API returns it.
    async fn sandbox_details(&self) -> Value {
        self.plane.get(&format!("/api/v1/sandboxes/{}", self.sandbox), OPERATOR).await.ok()
    }

    /// Lets a [`GATED`] command end.
    fn open_gate(&self) {
        std::fs::write(self.home.workspace.join("go"), "").unwrap();
    }

    /// Polls the sandbox until it matches.
    async fn wait_for_sandbox(&self, matches: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let sandbox = self.sandbox_details().await;
                if matches(&sandbox) {
                    return sandbox;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(DEADLINE, found).await.expect("the sandbox reaches the expected state")
    }

    /// Waits until the worker has scanned the workspace once: it reports changes from then on.
    async fn wait_for_first_scan(&self) {
        let state = self.home.home().join("state");
        let scanned = async {
            while !(state.exists() && files(&state).iter().any(|file| file.ends_with("last-snapshot.json"))) {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(DEADLINE, scanned).await.expect("the worker scans the workspace");
    }

    /// Standard error of the worker so far.
    fn worker_log(&self) -> String {
        std::fs::read_to_string(self.home.home().join("worker.log")).unwrap_or_default()
    }

    async fn log(&self) -> Vec<Value> {
        self.plane.log(&self.sandbox).await
    }

    /// Waits for an event whose payload matches.
    async fn wait_for<P: Payload>(&self, matches: impl Fn(&P) -> bool) -> Value {
        let matches =
            |data: &Value| payloads::read(&JsonObject::of(data)).is_some_and(|payload| matches(&payload));
        self.wait_for_data(P::EVENT_TYPE, matches).await
    }

    /// Waits for an event of this type whose data matches.
    async fn wait_for_data(&self, event_type: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let log = self.log().await;
                let found = log
                    .into_iter()
                    .find(|event| event["event_type"] == event_type && matches(&event["event_data"]));
                if let Some(event) = found {
                    return event;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        match timeout(DEADLINE, found).await {
            Ok(event) => event,
            Err(_) => {
                let worker = self.worker_log();
                let log: Vec<String> = self.log().await.iter().map(describe).collect();
                panic!("{event_type} did not arrive. Log:\n{}\nWorker log:\n{worker}", log.join("\n"));
            }
        }
    }

    /// Waits for an event of this type.
    async fn wait_for_event(&self, event_type: &str) -> Value {
        self.wait_for_data(event_type, |_| true).await
    }

    /// Sends a message and returns its id.
    async fn send_message(&self, message_type: &str, content: &str) -> String {
        let body = json!({"content": content, "message_type": message_type});
        let path = format!("/api/v1/sandboxes/{}/messages", self.sandbox);
        let response = self.plane.post(&path, OPERATOR, body).await.ok();
        response["message_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a message has reached this state.
    async fn wait_for_receipt(&self, message: &str, state: &str) -> Value {
        self.wait_for_data(&format!("message.{state}"), |data| data["message_id"] == message).await
    }
}

/// A running worker process.
struct Worker {
    child: Child,
}

impl Worker {
    fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends SIGTERM, waits for the process to exit, and returns its exit code.
    async fn terminate(mut self) -> Option<i32> {
        let status = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().await.unwrap();
        assert!(status.success());
        let ended = timeout(DEADLINE, self.child.wait()).await.expect("a worker exits on SIGTERM");
        ended.unwrap().code()
    }

    /// Waits for the process to exit and returns its exit code.
    async fn wait_for_exit(mut self) -> Option<i32> {
        timeout(DEADLINE, self.child.wait()).await.expect("the worker exits").unwrap().code()
    }
}

/// A step of a script: a tool call.
fn tool(name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "name": name, "input": input})
}

/// A step of a script: a shell command.
fn command(command: &str) -> Value {
    tool("Bash", json!({"command": command, "description": "Work"}))
}

/// A step of a script: a text of the agent.
fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A step of a script: the end of a turn. The agent waits for the next message.
fn turn_end() -> Value {
    json!({"play": "turn_end"})
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main"];
    let output =
        std::process::Command::new("git").args(identity).args(arguments).current_dir(folder).output();
    let output = output.unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// All files in a folder, recursively.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}

/// Data of the events with this payload.
fn data_of<P: Payload>(log: &[Value]) -> Vec<P> {
    let events = log.iter().filter(|event| event["event_type"] == P::EVENT_TYPE);
    events.map(|event| payloads::read(&JsonObject::of(&event["event_data"])).unwrap()).collect()
}

/// An event on one line, for failure messages.
fn describe(event: &Value) -> String {
    let data: String = event["event_data"].to_string().chars().take(300).collect();
    format!("{} {} {data}", event["seq"], event["event_type"].as_str().unwrap_or_default())
}

/// Types of the events in a log, in order.
fn event_types(log: &[Value]) -> Vec<&str> {
    log.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}
