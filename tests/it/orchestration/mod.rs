//! From a ticket to a finished sandbox: on the real binary with scripted agents, under faults and under load.

mod branches;
pub mod chaos;
mod daytona;
mod kept_work;
mod policy;
mod process_provider;
mod queue;
mod reconcile;
mod recovery;
mod termination;

use crate::command::process_options;
use crate::support::{ApiResponse, JWT_SECRET, OPERATOR};
use app::IdSource;
use app::ids::RandomIds;
use kit::process::{Process, ProcessOptions};
use kit::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A plane in its own process, which a test can kill and restart.
struct PlaneProcess {
    process: Option<Process>,
    options: ProcessOptions,
    url: String,
    http: reqwest::Client,
    folder: TempDir,
}

impl PlaneProcess {
    /// Agents of requests are the scripts that tests write.
    async fn start(arguments: &[&str]) -> Self {
        Self::start_as(&[&["--allow-agent-commands"], arguments].concat()).await
    }

    /// Users have tokens: sandboxes are isolated, and requests contain no commands.
    async fn start_with_users() -> Self {
        Self::start_as(&["--jwt-secret", JWT_SECRET]).await
    }

    async fn start_as(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut options = process_options(&folder);
        options.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        options.log = Some(folder.path().join("plane.log"));
        let process = Process::start(&options).await;
        let url = process.url.clone();
        // A restarted plane listens on the same port.
        options.port = url.rsplit(':').next().unwrap().parse().unwrap();
        Self { process: Some(process), options, url, http: reqwest::Client::new(), folder }
    }

    /// `kill -9`.
    async fn kill(&mut self) {
        self.process.take().unwrap().kill().await;
    }

    /// Starts it on the same folder and port.
    async fn restart(&mut self) {
        self.process = Some(Process::start(&self.options).await);
    }

    /// Writes an agent script and returns the `agent` value that selects it.
    fn write_script(&self, steps: &[Value]) -> String {
        let path = self.folder.path().join(format!("{}.jsonl", RandomIds.request()));
        let lines: Vec<String> = steps.iter().map(|step| format!("{step}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        format!("scripted:{}", path.display())
    }

    async fn request(&self, method: Method, path: &str, body: Option<Value>) -> ApiResponse {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(OPERATOR);
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        ApiResponse::of(request.send().await.unwrap()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, None).await.ok()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.request(Method::POST, path, Some(body)).await;
        assert!(answer.status < 300, "{path}: {}", answer.body);
        answer.body
    }

    /// Creates a ticket with these additional fields and returns its id.
    async fn create_ticket(&self, fields: Value) -> String {
        let mut body = json!({"title": "Say hello", "description": "Say hello.", "check_duplicates": false});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.post("/api/v1/tickets", body).await["id"].as_str().unwrap().to_owned()
    }

    /// Waits until the first task of the ticket matches.
    async fn wait_for_task(&self, ticket: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/api/v1/tasks?ticket_id={ticket}");
        let what = format!("the task of {ticket}");
        let list = self.wait_until(&path, &what, |list| list["tasks"].get(0).is_some_and(&matches)).await;
        list["tasks"][0].clone()
    }

    async fn wait_for_status(&self, ticket: &str, status: &str) -> Value {
        self.wait_for_task(ticket, |task| task["status"] == status).await
    }

    /// Waits until the provider has deleted the sandbox, then returns it.
    async fn wait_until_released(&self, sandbox: &str) -> Value {
        let path = format!("/api/v1/sandboxes/{sandbox}/events?event_type=sandbox.released");
        self.wait_until(&path, &format!("the release of {sandbox}"), |page| page["events"].get(0).is_some())
            .await;
        self.get(&format!("/api/v1/sandboxes/{sandbox}")).await
    }

    async fn wait_until(&self, path: &str, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = async {
            loop {
                last = self.get(path).await;
                if matches(&last) {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let found = timeout(TIMEOUT, found).await;
        assert!(found.is_ok(), "{what} is not as expected: {last:#}\n{}", self.log_text());
        last
    }

    /// The log of the plane process.
    fn log_text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("plane.log")).unwrap_or_default()
    }

    /// All events of an entity; `kind` is `sandboxes`, `tasks` or `tickets`.
    async fn events(&self, kind: &str, id: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/{kind}/{id}/events?after_seq=0&limit=500")).await;
        assert_eq!(page["has_more"], false);
        page["events"].as_array().unwrap().clone()
    }

    async fn event_types(&self, kind: &str, id: &str) -> Vec<String> {
        self.events(kind, id)
            .await
            .iter()
            .map(|event| event["event_type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// An operator's socket, subscribed to all events.
    async fn subscribe(&self) -> Socket {
        let url = format!("{}/api/v1/ws/events", self.url.replacen("http", "ws", 1));
        let mut socket = Socket::open(&url).await.unwrap();
        socket.send(json!({"type": "auth", "token": OPERATOR})).await;
        assert_eq!(socket.receive().await["status"], "authenticated");
        assert_eq!(socket.receive().await["status"], "subscribed");
        socket
    }

    fn sandbox_folder(&self, sandbox: &str) -> PathBuf {
        self.options.data.join("sandboxes").join(sandbox)
    }

    /// The processes of a sandbox; of all sandboxes if the id is empty.
    fn processes(&self, sandbox: &str) -> Vec<u32> {
        let marker = self.sandbox_folder(sandbox).display().to_string();
        let id = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let has_marker = |id: &u32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&marker)
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(id).filter(has_marker).collect()
    }

    async fn wait_for_processes(&self, sandbox: &str, min: usize) -> Vec<u32> {
        let found = async {
            loop {
                let found = self.processes(sandbox);
                if found.len() >= min {
                    return found;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(TIMEOUT, found).await.expect("the sandbox has processes")
    }

    /// Waits until a process of the sandbox has this command line. Others, such as git, come and go.
    async fn wait_for_command(&self, sandbox: &str, command: &str) {
        let runs = |process: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.trim_end_matches('\0').replace('\0', " ") == command
        };
        let found = async {
            while !self.processes(sandbox).iter().any(runs) {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(TIMEOUT, found).await.expect("the agent runs the command");
    }

    /// A file in the workspace of a sandbox, which its agent sees as well.
    fn in_workspace(&self, sandbox: &str, name: &str) -> PathBuf {
        self.sandbox_folder(sandbox).join("workspace").join(name)
    }

    /// Asserts that no process and no file of the sandbox is left on the machine.
    fn check_removed(&self, sandbox: &str) {
        assert_eq!(self.processes(sandbox), Vec::<u32>::new(), "processes of {sandbox}");
        assert!(!self.sandbox_folder(sandbox).exists(), "the folder of {sandbox}");
    }

    async fn active_tasks(&self) -> u64 {
        let tasks = self.get("/api/v1/tasks?limit=100").await;
        let active = ["claiming", "assigned", "running", "completing"];
        let is_active = |task: &&Value| active.iter().any(|status| task["status"] == *status);
        tasks["tasks"].as_array().unwrap().iter().filter(is_active).count() as u64
    }
}

impl Drop for PlaneProcess {
    /// Sandboxes outlive their plane, so the test kills them itself.
    fn drop(&mut self) {
        drop(self.process.take());
        for id in self.processes("") {
            let _killed = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
    }
}

/// A script that completes at once.
fn quick_script() -> Vec<Value> {
    vec![json!({"type": "text", "text": "Hello."})]
}

/// A script that runs for five minutes and starts child processes.
/// The last command of [`slow_script`].
const SLOW_COMMAND: &str = "sleep 301";

fn slow_script() -> Vec<Value> {
    vec![
        json!({"type": "text", "text": "I begin."}),
        json!({"type": "tool_use", "name": "Bash", "input": {"command": "sleep 300 & sleep 301", "timeout": 400_000}}),
        json!({"type": "text", "text": "I am done."}),
    ]
}

fn filter_types(event_types: &[String], wanted: &[&str]) -> Vec<String> {
    event_types.iter().filter(|name| wanted.contains(&name.as_str())).cloned().collect()
}
