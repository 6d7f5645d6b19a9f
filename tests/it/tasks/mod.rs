//! Tasks over HTTP: what people ask of them, what workers report, and that what is counted stays right.
//!
//! All of it is asked as Lambda asks, of functions that run one at a time: nobody works on what is queued unless a test
//! says so, and so what a request did can be seen.

mod counting;
mod creating;
mod cycles;
mod depending;
mod listing;
mod monitoring;
mod moving;
mod reporting;
mod telling;

use crate::payloads::request;
use crate::permissions::work::Shelf;
use crate::stage::{Stage, body_of, invoke, keys};
use crate::support::{OPERATOR, user};
use app::orchestration::Providers;
use contract::jobs::Job;
use contract::problem::Problem;
use domain::task::Status;
use domain::ticket::ApprovalSettings;
use domain::uptime::Uptime;
use domain::{OrgId, SandboxId, Task, TaskId};
use edge::auth::Authenticator;
use edge::registry::resolve;
use edge::{Bindings, Plane, Settings};
use providers::SandboxProvider;
use serde_json::{Value, json};
use std::sync::Arc;
use store::commit::{Change, Commit, Committed, Limits};

/// A plane with a provider that makes sandboxes at once, and room for whatever is ready.
pub struct Desk {
    pub stage: Stage,
    pub plane: Arc<Plane>,
    /// A member of acme.
    pub member: String,
}

impl Desk {
    pub async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// One where somebody has to approve of tickets within a minute.
    pub async fn with_approval() -> Self {
        let approval = ApprovalSettings::new(true, 60).unwrap();
        Self::open_with(|settings| settings.orchestration.approval = approval).await
    }

    async fn open_with(change: impl FnOnce(&mut Settings)) -> Self {
        let stage = Stage::open().await;
        // A plane that nobody has ever seen listening gives nobody up.
        let listening = Uptime::from_now(app::Clock::now(stage.clock.as_ref()));
        stage.aws.store.put_uptime(&listening).await.unwrap();
        let shelf: Arc<dyn SandboxProvider> = Arc::new(Shelf::default());
        let reach = Bindings { providers: Some(Providers::new([shelf])), ..stage.aws.bindings() };
        let mut settings = Settings::default();
        settings.orchestration.default_provider = "shelf".to_owned();
        settings.orchestration.limits = Limits { org: 1_000, project: 1_000 };
        change(&mut settings);
        let authenticator = Authenticator::new(&keys(), stage.clock.clone());
        let (clock, ids) = (stage.clock.clone(), stage.ids.clone());
        let plane = Plane::new(stage.aws.store.clone(), reach, authenticator, clock, ids, settings);
        Self { stage, plane: Arc::new(plane), member: user("acme", "member") }
    }

    /// What is answered to a request.
    pub async fn ask(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u64, Value) {
        ask(&self.plane, token, method, path, body).await
    }

    /// The same by a member of acme.
    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask(&self.member, "GET", path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub async fn post(&self, path: &str, body: Value) -> (u64, Value) {
        self.ask(&self.member, "POST", path, Some(body)).await
    }

    /// Creates a task a moment after the last.
    pub async fn create(&self, id: &str, mut more: Value) -> Value {
        self.stage.clock.advance_secs(1);
        more["task_id"] = json!(id);
        if more["title"].is_null() {
            more["title"] = json!(format!("Task {id}"));
        }
        let (status, task) = self.post("/tasks", more).await;
        assert_eq!(status, 201, "{task}");
        task
    }

    /// Puts copies of a task beside it, each a moment newer than the last. Far faster than to ask for each.
    pub async fn copies(&self, id: &str, count: usize) {
        let (store, template) = (&self.stage.aws.store, self.stored(id).await);
        let mut task = Task { place: None, unmet: 1, seq: 0, segments: 0, ..template };
        for first in (0..count).step_by(MOST_AT_ONCE) {
            let mut commit = Commit::new(task.created_at);
            for n in first..count.min(first + MOST_AT_ONCE) {
                task.id = TaskId::parse(format!("{id}-{n:05}")).unwrap();
                task.created_at = task.created_at.plus_secs(1);
                commit.tasks.push(Change { before: None, after: task.clone(), events: Vec::new() });
            }
            self.stage.clock.advance_secs(commit.tasks.len() as i64);
            assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
        }
    }

    /// Creates a ticket.
    pub async fn ticket(&self, id: &str) -> Value {
        let body = json!({"ticket_id": id, "title": id, "check_duplicates": false});
        let (status, ticket) = self.post("/tickets", body).await;
        assert_eq!(status, 201, "{ticket}");
        ticket
    }

    /// A task, all of it.
    pub async fn stored(&self, id: &str) -> Task {
        self.stage
            .aws
            .store
            .task(&task_id(id))
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("there is no task {id}"))
    }

    /// The types of a task's events, oldest first.
    pub async fn log(&self, id: &str) -> Vec<String> {
        let page = self.get(&format!("/tasks/{id}/events?order=oldest&limit=500")).await;
        let events = page["events"].as_array().unwrap();
        events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    }

    /// Those that stand in the queue.
    pub async fn queue(&self) -> Vec<String> {
        let queue = self.stage.aws.store.candidates(&acme(), None, 1_000).await.unwrap();
        queue.candidates.iter().map(|ready| ready.id.to_string()).collect()
    }

    /// Does a job.
    pub async fn work(&self, job: &Job) {
        edge::jobs::run(&self.plane, &job.encode()).await.unwrap_or_else(|why| panic!("{job:?}: {why}"));
    }

    /// Gives whatever is ready a sandbox on paper; this task's.
    pub async fn claim(&self, id: &str) -> SandboxId {
        while app::tasks::dispatch::run(self.plane.orchestration().unwrap(), acme()).await.unwrap() > 0 {}
        self.stored(id).await.sandbox.unwrap_or_else(|| panic!("{id} was not claimed"))
    }

    pub async fn tend(&self, sandbox: &SandboxId) {
        self.work(&Job::ReconcileSandbox { sandbox_id: sandbox.clone() }).await;
    }

    /// Has the sandbox of a task made.
    pub async fn assign(&self, id: &str) -> SandboxId {
        let sandbox = self.claim(id).await;
        self.tend(&sandbox).await;
        sandbox
    }

    /// Has an agent work on a task.
    pub async fn start(&self, id: &str) -> SandboxId {
        let sandbox = self.assign(id).await;
        self.tell(&sandbox, "agent.heartbeat", json!({"status": "working"})).await;
        self.tend(&sandbox).await;
        assert_eq!(self.stored(id).await.status.as_str(), "running", "{id}");
        sandbox
    }

    /// Somebody tells what happens in a sandbox.
    pub async fn tell(&self, sandbox: &SandboxId, event_type: &str, data: Value) -> (u64, Value) {
        let body = json!({"event_type": event_type, "event_data": data});
        self.ask(OPERATOR, "POST", &format!("/sandboxes/{sandbox}/events"), Some(body)).await
    }

    /// Completes a task as its worker does.
    pub async fn complete(&self, id: &str) -> Value {
        let sandbox = match self.stored(id).await {
            Task { status: Status::Running, sandbox: Some(sandbox), .. } => sandbox,
            _ => self.assign(id).await,
        };
        let path = format!("/sandboxes/{sandbox}/task-complete");
        let token = self.worker(&sandbox).await;
        let (status, answer) = self.ask(&token, "POST", &path, Some(json!({"task_id": id}))).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The token of a sandbox's worker.
    pub async fn worker(&self, sandbox: &SandboxId) -> String {
        let head = self.stage.aws.store.sandbox(sandbox).await.unwrap().unwrap();
        self.plane.worker_token(sandbox, head.generation)
    }

    /// The jobs of this name that were asked for since the last look.
    pub async fn jobs(&mut self, name: &str) -> Vec<Value> {
        self.stage.jobs().await.into_iter().filter(|job| job["job"] == name).collect()
    }
}

/// What is answered to a request, by whichever function its path leads to.
pub async fn ask(
    plane: &Arc<Plane>,
    token: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u64, Value) {
    let path = format!("/api/v1{path}");
    let bare = path.split('?').next().unwrap();
    let found =
        resolve(&method.parse().unwrap(), bare).unwrap_or_else(|why| panic!("{method} {path}: {why:?}"));
    let payload = request(method, &path, token, body.as_ref());
    let answer = invoke(plane, found.function.name, &payload).await.unwrap();
    let status = answer["statusCode"].as_u64().unwrap();
    if status >= 400 {
        let read = serde_json::from_str::<Problem>(answer["body"].as_str().unwrap());
        assert!(
            read.is_ok_and(|read| u64::from(read.status) == status),
            "clients must be able to read it: {answer}"
        );
    }
    (status, body_of(&answer))
}

/// A transaction holds a hundred items, and such a task is two or three.
const MOST_AT_ONCE: usize = 30;

pub fn acme() -> OrgId {
    OrgId::parse("acme").unwrap()
}

pub fn task_id(id: &str) -> TaskId {
    TaskId::parse(id).unwrap()
}

/// The ids on a page.
pub fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}
