//! Tickets become sandboxes: on the real binary, with scripts for agents; whatever fails, and however many wait.

pub mod chaos;
mod daytona;
mod ends;
mod local;
mod queue;
mod steps;
mod trouble;

use crate::command::recipe;
use crate::support::{Answer, OPERATOR};
use app::IdSource;
use app::ids::RandomIds;
use kit::process::{Process, Recipe};
use kit::socket::Socket;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Whatever takes longer does not come.
const SOON: Duration = Duration::from_secs(120);
/// How often a test looks.
const LOOK: Duration = Duration::from_millis(20);

/// A plane in a process of its own, which may be killed and started again.
struct Stage {
    plane: Option<Process>,
    recipe: Recipe,
    url: String,
    http: reqwest::Client,
    folder: TempDir,
}

impl Stage {
    /// A plane with these arguments.
    async fn start(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut recipe = recipe(&folder);
        recipe.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        recipe.log = Some(folder.path().join("plane.log"));
        let plane = Process::start(&recipe).await;
        let url = plane.url.clone();
        // Whoever is started again is where it was.
        recipe.port = url.rsplit(':').next().unwrap().parse().unwrap();
        Self { plane: Some(plane), recipe, url, http: reqwest::Client::new(), folder }
    }

    /// `kill -9`.
    async fn kill(&mut self) {
        self.plane.take().unwrap().kill().await;
    }

    /// Starts it again on the same folder and port.
    async fn start_again(&mut self) {
        self.plane = Some(Process::start(&self.recipe).await);
    }

    /// Writes a script, and says how it is named to a worker.
    fn script(&self, steps: &[Value]) -> String {
        let path = self.folder.path().join(format!("{}.jsonl", RandomIds.request()));
        let lines: Vec<String> = steps.iter().map(|step| format!("{step}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        format!("scripted:{}", path.display())
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(OPERATOR);
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        Answer::of(request.send().await.unwrap()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None).await.ok()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.call(Method::POST, path, Some(body)).await;
        assert!(answer.status < 300, "{path}: {}", answer.body);
        answer.body
    }

    /// Posts a ticket with these fields on top; its id.
    async fn ticket(&self, fields: Value) -> String {
        let mut body = json!({"title": "Say hello", "description": "Say hello.", "check_duplicates": false});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.post("/api/v1/tickets", body).await["id"].as_str().unwrap().to_owned()
    }

    /// The ticket's task as soon as it fits.
    async fn until_task(&self, ticket: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/api/v1/tasks?ticket_id={ticket}");
        let what = format!("the task of {ticket}");
        let list = self.until(&path, &what, |list| list["tasks"].get(0).is_some_and(&fits)).await;
        list["tasks"][0].clone()
    }

    /// The ticket's task when it is here.
    async fn until_status(&self, ticket: &str, status: &str) -> Value {
        self.until_task(ticket, |task| task["status"] == status).await
    }

    /// A sandbox when the provider has removed it.
    async fn until_released(&self, sandbox: &str) -> Value {
        let path = format!("/api/v1/sandboxes/{sandbox}/events?event_type=sandbox.released");
        self.until(&path, &format!("the end of {sandbox}"), |page| page["events"].get(0).is_some()).await;
        self.get(&format!("/api/v1/sandboxes/{sandbox}")).await
    }

    async fn until(&self, path: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = async {
            loop {
                last = self.get(path).await;
                if fits(&last) {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        let found = timeout(SOON, found).await;
        assert!(found.is_ok(), "{what} is not as expected: {last:#}\n{}", self.plane_log());
        last
    }

    /// What the plane said.
    fn plane_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("plane.log")).unwrap_or_default()
    }

    /// The names in a log: `sandboxes`, `tasks` or `tickets`.
    async fn log(&self, kind: &str, id: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/{kind}/{id}/events?after_seq=0&limit=500")).await;
        assert_eq!(page["has_more"], false);
        page["events"].as_array().unwrap().clone()
    }

    /// The names in a log.
    async fn names(&self, kind: &str, id: &str) -> Vec<String> {
        self.log(kind, id)
            .await
            .iter()
            .map(|event| event["event_type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A socket that hears everything.
    async fn socket(&self) -> Socket {
        let url = format!("{}/api/v1/ws/events", self.url.replacen("http", "ws", 1));
        let mut socket = Socket::open(&url).await.unwrap();
        socket.say(json!({"type": "auth", "token": OPERATOR})).await;
        assert_eq!(socket.hear().await["status"], "authenticated");
        assert_eq!(socket.hear().await["status"], "subscribed");
        socket
    }

    /// Where a sandbox's folder is.
    fn sandbox_folder(&self, sandbox: &str) -> PathBuf {
        self.recipe.data.join("sandboxes").join(sandbox)
    }

    /// The processes of a sandbox, or of all.
    fn processes(&self, sandbox: &str) -> Vec<u32> {
        let mark = self.sandbox_folder(sandbox).display().to_string();
        let id = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let has_mark = |id: &u32| {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(id).filter(has_mark).collect()
    }

    /// Waits until a sandbox has so many processes at least.
    async fn until_processes(&self, sandbox: &str, least: usize) -> Vec<u32> {
        let found = async {
            loop {
                let found = self.processes(sandbox);
                if found.len() >= least {
                    return found;
                }
                sleep(LOOK).await;
            }
        };
        timeout(SOON, found).await.expect("the sandbox has processes")
    }

    /// Nothing of a sandbox is left on the machine.
    fn check_gone(&self, sandbox: &str) {
        assert_eq!(self.processes(sandbox), Vec::<u32>::new(), "processes of {sandbox}");
        assert!(!self.sandbox_folder(sandbox).exists(), "the folder of {sandbox}");
    }

    /// How many sandboxes are at work, by what is on the machine.
    async fn running(&self) -> u64 {
        let tasks = self.get("/api/v1/tasks?limit=100").await;
        let active = ["claiming", "assigned", "running"];
        let is_active = |task: &&Value| active.iter().any(|status| task["status"] == *status);
        tasks["tasks"].as_array().unwrap().iter().filter(is_active).count() as u64
    }
}

impl Drop for Stage {
    /// Sandboxes outlive their plane; those of a test must not.
    fn drop(&mut self) {
        drop(self.plane.take());
        for id in self.processes("") {
            let _gone = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
    }
}

/// A script that ends at once.
fn quick() -> Vec<Value> {
    vec![json!({"type": "text", "text": "Hello."})]
}

/// A script that goes on for a minute, with children of its own.
fn slow() -> Vec<Value> {
    vec![
        json!({"type": "text", "text": "I begin."}),
        json!({"type": "tool_use", "name": "Bash", "input": {"command": "sleep 300 & sleep 301", "timeout": 400_000}}),
        json!({"type": "text", "text": "I am done."}),
    ]
}

/// The parts of a list that are also in another, in its order.
fn only(names: &[String], wanted: &[&str]) -> Vec<String> {
    names.iter().filter(|name| wanted.contains(&name.as_str())).cloned().collect()
}
