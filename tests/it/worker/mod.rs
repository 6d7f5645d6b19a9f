//! The worker, as a process, with the real Claude Code or a script as its agent and a plane of the test's own.

mod acp;
mod away;
mod ending;
mod files;
mod leaving;
mod repository;
mod resuming;
mod review;
mod scripted;
mod secrets;
mod settings;
mod steering;
mod turns;
mod watching;

use crate::support::{OPERATOR, TestPlane};
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

/// Whatever takes longer does not come.
const SOON: Duration = Duration::from_secs(120);
/// How often a test looks at the log.
const LOOK: Duration = Duration::from_millis(20);

/// A command that goes on until there is a file `go`. Claude Code refuses to sleep for long. After five minutes, longer
/// than any test waits, it ends by itself: a command that has outlived its agent must not run for ever.
const GATED: &str = "for _ in $(seq 6000); do [ -e go ] && break; sleep 0.05; done; echo gone on";

/// A plane, a model and a folder.
struct Stage {
    plane: TestPlane,
    model: Model,
    home: Home,
    sandbox: String,
    token: String,
}

impl Stage {
    async fn new(script: Script) -> Self {
        let (plane, model, home) = (TestPlane::start().await, Model::start(script).await, Home::new());
        let token = plane.register("box", "acme").await;
        Self { plane, model, home, sandbox: "box".into(), token }
    }

    /// What a worker finds in its environment, and nothing else.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<OsString, OsString> = BTreeMap::new();
        for (name, value) in self.home.environment(&self.model) {
            all.insert(name.into(), value);
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
        all.extend(own.map(|(name, value)| (name.into(), value.into())));
        all
    }

    /// Starts a worker with these variables on top.
    fn worker(&self, variables: &[(&str, &str)]) -> Worker {
        let mut environment = self.environment();
        environment.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
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

    /// Writes a script, and says how it is named to a worker.
    fn script(&self, steps: &[Value]) -> String {
        let path = self.home.home().join("script.jsonl");
        let lines: Vec<String> = steps.iter().map(|step| format!("{step}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        format!("scripted:{}", path.display())
    }

    /// The sandbox as the plane shows it.
    async fn shown(&self) -> Value {
        self.plane.get(&format!("/api/v1/sandboxes/{}", self.sandbox), OPERATOR).await.ok()
    }

    /// Lets a [`GATED`] command end.
    fn let_go(&self) {
        std::fs::write(self.home.workspace.join("go"), "").unwrap();
    }

    /// Waits until the plane shows something.
    async fn until_shown(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let shown = self.shown().await;
                if fits(&shown) {
                    return shown;
                }
                sleep(LOOK).await;
            }
        };
        timeout(SOON, found).await.expect("the plane shows it")
    }

    /// Waits until the worker has looked at the workspace for the first time: what changes from now on is seen.
    async fn until_looked_at(&self) {
        let state = self.home.home().join("state");
        let looked = async {
            while !(state.exists() && files(&state).iter().any(|file| file.ends_with("last.json"))) {
                sleep(LOOK).await;
            }
        };
        timeout(SOON, looked).await.expect("the worker looks at the workspace");
    }

    /// What the worker said so far.
    fn worker_log(&self) -> String {
        std::fs::read_to_string(self.home.home().join("worker.log")).unwrap_or_default()
    }

    async fn log(&self) -> Vec<Value> {
        self.plane.log(&self.sandbox).await
    }

    /// Waits until the log holds an event of this type for which this is so, and returns it.
    async fn until(&self, event_type: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let log = self.log().await;
                let found = log
                    .into_iter()
                    .find(|event| event["event_type"] == event_type && fits(&event["event_data"]));
                if let Some(event) = found {
                    return event;
                }
                sleep(LOOK).await;
            }
        };
        match timeout(SOON, found).await {
            Ok(event) => event,
            Err(_) => {
                let worker = self.worker_log();
                let log: Vec<String> = self.log().await.iter().map(line).collect();
                panic!("{event_type} did not come. The log:\n{}\nThe worker said:\n{worker}", log.join("\n"));
            }
        }
    }

    /// Waits until there is one of this type.
    async fn until_any(&self, event_type: &str) -> Value {
        self.until(event_type, |_| true).await
    }

    /// Sends a message and returns its id.
    async fn say(&self, message_type: &str, content: &str) -> String {
        let body = json!({"content": content, "message_type": message_type});
        let path = format!("/api/v1/sandboxes/{}/messages", self.sandbox);
        let answer = self.plane.post(&path, OPERATOR, body).await.ok();
        answer["message_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a message has come so far.
    async fn receipt(&self, message: &str, state: &str) -> Value {
        self.until(&format!("message.{state}"), |data| data["message_id"] == message).await
    }
}

/// A worker that runs.
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

    /// Asks it to stop, and waits until it is gone: its exit code.
    async fn terminate(mut self) -> Option<i32> {
        let sent = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().await.unwrap();
        assert!(sent.success());
        let ended = timeout(SOON, self.child.wait()).await.expect("a worker ends when it is told to");
        ended.unwrap().code()
    }

    /// Waits until it is gone by itself.
    async fn ended(mut self) -> Option<i32> {
        timeout(SOON, self.child.wait()).await.expect("it ends by itself").unwrap().code()
    }
}

/// A step of a script: a tool.
fn tool(name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "name": name, "input": input})
}

/// A step of a script: a command.
fn command(command: &str) -> Value {
    tool("Bash", json!({"command": command, "description": "Work"}))
}

/// A step of a script: something said.
fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A step of a script: nothing more until somebody says something.
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

/// Every file in a folder, however deep.
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

/// The events of a type.
fn of<'a>(log: &'a [Value], event_type: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["event_type"] == event_type).map(|event| &event["event_data"]).collect()
}

/// An event as a person reads it.
fn line(event: &Value) -> String {
    let data: String = event["event_data"].to_string().chars().take(300).collect();
    format!("{} {} {data}", event["seq"], event["event_type"].as_str().unwrap_or_default())
}

/// The types of a log's events, in order.
fn types(log: &[Value]) -> Vec<&str> {
    log.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}
