//! The task API: user actions, worker reports, and the consistency of counters.
//!
//! Requests invoke functions as Lambda does, one at a time. Queued jobs run only when a test runs them, so each test can
//! observe the effect of a single request.

mod branch_chaos;
mod branch_workflow;
mod branches;
mod consistency;
mod creating;
mod cycles;
mod dependencies;
mod feedback;
mod kept_work;
mod listing;
mod merging;
mod monitoring;
mod omoios_worker;
mod reporting;
mod repositories;
mod unblocking;
mod updating;

use crate::harness::{Harness, body_of, invoke, keys};
use crate::payloads::request;
use crate::permissions::provisioning::InstantProvider;
use crate::support::{OPERATOR, user};
use app::orchestration::{Agents, Providers};
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
use std::path::PathBuf;
use std::sync::Arc;
use store::commit::{Change, Commit, Committed, Limits};

/// A plane with an instant provider and high concurrency limits, and a client of its task API.
pub struct TaskApi {
    pub harness: Harness,
    pub plane: Arc<Plane>,
    providers: Providers,
    folders: Vec<PathBuf>,
    /// Token of a member of the org acme.
    pub member: String,
}

impl TaskApi {
    pub async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// Tickets require approval within a minute.
    pub async fn with_approval() -> Self {
        let approval = ApprovalSettings::new(true, 60).unwrap();
        Self::open_with(|settings| settings.orchestration.approval = approval).await
    }

    async fn open_with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::open_in(Vec::new(), change).await
    }

    /// Offers repositories below these directories.
    async fn open_in(folders: Vec<PathBuf>, change: impl FnOnce(&mut Settings)) -> Self {
        Self::open_as(Arc::new(InstantProvider::default()), folders, change).await
    }

    /// With this provider instead of the instant one.
    async fn open_at(provider: Arc<dyn SandboxProvider>, change: impl FnOnce(&mut Settings)) -> Self {
        Self::open_as(provider, Vec::new(), change).await
    }

    async fn open_as(
        provider: Arc<dyn SandboxProvider>,
        folders: Vec<PathBuf>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let harness = Harness::open().await;
        // Liveness timers need a recorded uptime.
        let uptime = Uptime::from_now(app::Clock::now(harness.clock.as_ref()));
        harness.aws.store.put_uptime(&uptime).await.unwrap();
        let mut settings = Settings::default();
        settings.orchestration.default_provider = provider.name().to_owned();
        settings.orchestration.agents = Agents::default().accepting_commands();
        settings.orchestration.limits = Limits { org: 1_000, project: 1_000 };
        change(&mut settings);
        let providers = Providers::new([provider]);
        let plane = process(&harness, &providers, &folders, settings);
        Self { harness, plane, providers, folders, member: user("acme", "member") }
    }

    /// A newly started process with empty caches and the same settings.
    fn new_process(&self) -> Arc<Plane> {
        process(&self.harness, &self.providers, &self.folders, self.plane.settings.clone())
    }

    /// As a restart with another setting.
    fn require_approval(&mut self) {
        let plane = Arc::get_mut(&mut self.plane).expect("no request is running");
        plane.settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
    }

    /// As a restart with another list.
    fn set_agents(&mut self, agents: Agents) {
        let plane = Arc::get_mut(&mut self.plane).expect("no request is running");
        plane.settings.orchestration.agents = agents;
    }

    pub async fn call(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u64, Value) {
        call(&self.plane, token, method, path, body).await
    }

    /// As a member of acme; asserts success.
    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call(&self.member, "GET", path, None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub async fn post(&self, path: &str, body: Value) -> (u64, Value) {
        self.call(&self.member, "POST", path, Some(body)).await
    }

    /// Creates a task, one second after the previous one.
    pub async fn create(&self, id: &str, mut fields: Value) -> Value {
        self.harness.clock.advance_secs(1);
        fields["task_id"] = json!(id);
        if fields["title"].is_null() {
            fields["title"] = json!(format!("Task {id}"));
        }
        let (status, task) = self.post("/tasks", fields).await;
        assert_eq!(status, 201, "{task}");
        task
    }

    /// Stores copies of a task, each one second newer. Much faster than a request for each.
    pub async fn add_copies(&self, id: &str, count: usize) {
        let (store, template) = (&self.harness.aws.store, self.stored(id).await);
        let mut task = Task { place: None, unmet: 1, seq: 0, segments: 0, ..template };
        for first in (0..count).step_by(MAX_PER_COMMIT) {
            let mut commit = Commit::new(task.created_at);
            for n in first..count.min(first + MAX_PER_COMMIT) {
                task.id = TaskId::parse(format!("{id}-{n:05}")).unwrap();
                task.created_at = task.created_at.plus_secs(1);
                commit.tasks.push(Change { before: None, after: task.clone(), events: Vec::new() });
            }
            self.harness.clock.advance_secs(commit.tasks.len() as i64);
            assert!(matches!(store.commit(commit).await.unwrap(), Committed::Done(_)));
        }
    }

    pub async fn create_ticket(&self, id: &str) -> Value {
        let body = json!({"ticket_id": id, "title": id, "check_duplicates": false});
        let (status, ticket) = self.post("/tickets", body).await;
        assert_eq!(status, 201, "{ticket}");
        ticket
    }

    /// The task as it is stored.
    pub async fn stored(&self, id: &str) -> Task {
        self.harness
            .aws
            .store
            .task(&task_id(id))
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("there is no task {id}"))
    }

    /// The types of a task's events, oldest first.
    pub async fn event_types(&self, id: &str) -> Vec<String> {
        let page = self.get(&format!("/tasks/{id}/events?order=oldest&limit=500")).await;
        let events = page["events"].as_array().unwrap();
        events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    }

    /// Ids of the queued tasks of acme.
    pub async fn queue(&self) -> Vec<String> {
        let queue = self.harness.aws.store.candidates(&acme(), None, 1_000).await.unwrap();
        queue.items.iter().map(|ready| ready.id.to_string()).collect()
    }

    pub async fn run_job(&self, job: &Job) {
        edge::jobs::run(&self.plane, "job-1", &job.encode())
            .await
            .unwrap_or_else(|why| panic!("{job:?}: {why}"));
    }

    /// Claims all ready tasks; returns the sandbox of this one, which is not provisioned yet.
    pub async fn claim(&self, id: &str) -> SandboxId {
        while app::tasks::dispatch::run(self.plane.orchestration().unwrap(), acme()).await.unwrap() > 0 {}
        self.stored(id).await.sandbox.unwrap_or_else(|| panic!("{id} was not claimed"))
    }

    pub async fn reconcile(&self, sandbox: &SandboxId) {
        self.run_job(&Job::ReconcileSandbox { sandbox_id: sandbox.clone() }).await;
    }

    /// Claims the task and provisions its sandbox.
    pub async fn assign(&self, id: &str) -> SandboxId {
        let sandbox = self.claim(id).await;
        self.reconcile(&sandbox).await;
        sandbox
    }

    /// Claims the task, provisions its sandbox, and reports a working agent.
    pub async fn start(&self, id: &str) -> SandboxId {
        let sandbox = self.assign(id).await;
        self.emit(&sandbox, "agent.heartbeat", json!({"status": "working"})).await;
        self.reconcile(&sandbox).await;
        assert_eq!(self.stored(id).await.status.as_str(), "running", "{id}");
        sandbox
    }

    pub async fn emit(&self, sandbox: &SandboxId, event_type: &str, data: Value) -> (u64, Value) {
        let body = json!({"event_type": event_type, "event_data": data});
        self.call(OPERATOR, "POST", &format!("/sandboxes/{sandbox}/events"), Some(body)).await
    }

    /// Reports the task as completed, with the token of its worker.
    pub async fn complete(&self, id: &str) -> Value {
        let sandbox = match self.stored(id).await {
            Task { status: Status::Running, sandbox: Some(sandbox), .. } => sandbox,
            _ => self.assign(id).await,
        };
        let path = format!("/sandboxes/{sandbox}/task-complete");
        let token = self.worker_token(&sandbox).await;
        let (status, answer) = self.call(&token, "POST", &path, Some(json!({"task_id": id}))).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub async fn worker_token(&self, sandbox: &SandboxId) -> String {
        let stored = self.harness.aws.store.sandbox(sandbox).await.unwrap().unwrap();
        self.plane.worker_token(sandbox, stored.generation).unwrap()
    }

    /// The jobs of this name sent since the last call.
    pub async fn take_jobs(&mut self, name: &str) -> Vec<Value> {
        self.harness.take_jobs().await.into_iter().filter(|job| job["job"] == name).collect()
    }
}

fn process(harness: &Harness, providers: &Providers, folders: &[PathBuf], settings: Settings) -> Arc<Plane> {
    let code_hosts = Some(local::sandboxes::code_hosts(harness.clock.clone()).offering(folders.to_vec()));
    let bindings = Bindings { providers: Some(providers.clone()), code_hosts, ..harness.aws.bindings() };
    let authenticator = Authenticator::new(&keys(), harness.clock.clone());
    let (clock, ids) = (harness.clock.clone(), harness.ids.clone());
    Arc::new(Plane::new(harness.aws.store.clone(), bindings, authenticator, clock, ids, settings))
}

/// Invokes the function that serves this path; returns the status and the body.
pub async fn call(
    plane: &Arc<Plane>,
    token: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u64, Value) {
    let path = format!("/api/v1{path}");
    let bare_path = path.split('?').next().unwrap();
    let found =
        resolve(&method.parse().unwrap(), bare_path).unwrap_or_else(|why| panic!("{method} {path}: {why:?}"));
    let payload = request(method, &path, token, body.as_ref());
    let answer = invoke(plane, found.function.name, &payload).await.unwrap();
    let status = answer["statusCode"].as_u64().unwrap();
    if status >= 400 {
        let problem = serde_json::from_str::<Problem>(answer["body"].as_str().unwrap());
        assert!(
            problem.is_ok_and(|problem| u64::from(problem.status) == status),
            "not a valid problem document: {answer}"
        );
    }
    (status, body_of(&answer))
}

/// A transaction holds a hundred items; a task takes two or three.
const MAX_PER_COMMIT: usize = 30;

pub fn acme() -> OrgId {
    OrgId::parse("acme").unwrap()
}

pub fn task_id(id: &str) -> TaskId {
    TaskId::parse(id).unwrap()
}

pub fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}
