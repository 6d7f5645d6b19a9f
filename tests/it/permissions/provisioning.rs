//! Scenarios for the functions that provision, reconcile and delete sandboxes.

use super::CallRecorder;
use crate::harness::keys;
use crate::payloads::{fixture, job, request};
use crate::support::OPERATOR;
use app::orchestration::Providers;
use contract::jobs::Job;
use domain::quota::Amount;
use domain::ticket::ApprovalSettings;
use domain::{OrgId, SandboxId, TaskId, TicketId};
use edge::auth::Authenticator;
use edge::{Bindings, Plane, Settings};
use futures_util::FutureExt;
use futures_util::future::ready;
use providers::{Deletion, Found, Link, Listed, ProviderFuture, SandboxProvider, SandboxSpec, State, Tail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use store::commit::Limits;

pub(super) async fn provisioning(recorder: &mut CallRecorder) {
    let provider = Arc::new(InstantProvider::default());
    let process = process(recorder, &provider);
    complete_ticket(recorder, &process).await;
    terminate_sandbox(recorder, &process).await;
    lose_and_orphan_sandboxes(recorder, &process, &provider).await;
    time_out_approval(recorder, &process).await;
}

/// A process with a provider.
pub(super) fn process(recorder: &CallRecorder, provider: &Arc<InstantProvider>) -> Arc<Plane> {
    let (aws, clock, ids) =
        (&recorder.harness.aws, recorder.harness.clock.clone(), recorder.harness.ids.clone());
    let provider: Arc<dyn SandboxProvider> = provider.clone();
    let code_hosts = Some(local::sandboxes::code_hosts(clock.clone()));
    let bindings = Bindings { providers: Some(Providers::new([provider])), code_hosts, ..aws.bindings() };
    let mut settings = Settings::default();
    settings.orchestration.default_provider = "instant".to_owned();
    // High enough for all tasks of the scenarios.
    settings.orchestration.limits = Limits { org: 100, project: 100 };
    let authenticator = Authenticator::new(&keys(), clock.clone());
    Arc::new(Plane::new(aws.store.clone(), bindings, authenticator, clock, ids, settings))
}

/// The agent of a ticket works, receives a message, and completes.
async fn complete_ticket(recorder: &mut CallRecorder, process: &Arc<Plane>) {
    let sandbox = create_and_provision(recorder, process, "w-1").await;
    // The mailbox and the unread message are deleted with the sandbox.
    let messages = format!("/api/v1/sandboxes/{sandbox}/messages");
    recorder
        .request(
            process,
            "messages-pull",
            &request("GET", &format!("{messages}?wait=1"), OPERATOR, None),
            200,
        )
        .await;
    let message = json!({"content": "and then?", "message_id": "m-1"});
    recorder
        .request(process, "messages-send", &request("POST", &messages, OPERATOR, Some(&message)), 200)
        .await;
    emit(recorder, process, &sandbox, "agent.heartbeat", json!({"status": "working"})).await;
    reconcile(recorder, process, &sandbox).await;
    let logs = |id: &str| request("GET", &format!("/api/v1/sandboxes/{id}/logs"), OPERATOR, None);
    recorder.request(process, "sandboxes-logs", &logs(sandbox.as_str()), 200).await;
    for missing in ["missing", "s-1"] {
        recorder.request(process, "sandboxes-logs", &logs(missing), 404).await;
    }
    let preview = |id: &str| request("GET", &format!("/api/v1/sandboxes/{id}/previews/3000"), OPERATOR, None);
    // This provider has no links.
    for missing in [sandbox.as_str(), "missing", "s-1"] {
        recorder.request(process, "sandboxes-preview", &preview(missing), 404).await;
    }
    keep_work(recorder, process, &sandbox, &task_of(recorder, "w-1").await).await;
    emit(recorder, process, &sandbox, "agent.completed", json!({"success": true})).await;
    recorder.harness.clock.advance_secs(60);
    reconcile(recorder, process, &sandbox).await;
    sweep(recorder, process).await;
    let stored = recorder.harness.aws.store.sandbox(&sandbox).await.unwrap().unwrap();
    assert!(!stored.needs_reconcile(), "{stored:?}");
    let task = task_of(recorder, "w-1").await;
    run_job(recorder, process, &Job::ReconcileTask { task_id: task }).await;
}

/// A worker keeps its workspace, and a user downloads it.
async fn keep_work(recorder: &mut CallRecorder, process: &Arc<Plane>, sandbox: &SandboxId, task: &TaskId) {
    let sha256 = "0f".repeat(32);
    let piece = json!({"sha256": sha256, "piece": 1, "data": "d29yaw=="});
    let file = json!({"format": "archive", "size_bytes": 4, "sha256": sha256});
    let keep = json!({ "files": [file] });
    for (id, status) in [(sandbox.as_str(), 200), ("s-1", 409), ("missing", 404)] {
        let path = format!("/api/v1/sandboxes/{id}/workspace");
        let upload = request("POST", &format!("{path}/pieces"), OPERATOR, Some(&piece));
        recorder.request(process, "sandboxes-keep-piece", &upload, status).await;
        let keep = request("POST", &path, OPERATOR, Some(&keep));
        recorder.request(process, "sandboxes-keep-workspace", &keep, status).await;
    }
    // A quota this small has no first share.
    let counting =
        recorder.harness.process_with(|settings| settings.quotas.operator = Amount::new(900, 1 << 20));
    let path = format!("/api/v1/sandboxes/{sandbox}/workspace");
    let upload = request("POST", &format!("{path}/pieces"), OPERATOR, Some(&piece));
    recorder.request(&counting, "sandboxes-keep-piece", &upload, 200).await;
    recorder.harness.clock.advance_secs(60);
    let upload = request("POST", &path, OPERATOR, Some(&keep));
    let counting =
        recorder.harness.process_with(|settings| settings.quotas.operator = Amount::new(900, 1 << 20));
    recorder.request(&counting, "sandboxes-keep-workspace", &upload, 200).await;
    let path = format!("/api/v1/tasks/{task}/workspace");
    for (query, status) in [("", 200), ("?piece=1", 200), ("?attempt=9", 409), ("?format=patch", 409)] {
        let read = request("GET", &format!("{path}{query}"), OPERATOR, None);
        recorder.request(process, "tasks-workspace", &read, status).await;
    }
    let files = request("GET", &format!("{path}/files"), OPERATOR, None);
    recorder.request(process, "tasks-workspace-files", &files, 200).await;
}

/// A user terminates a running sandbox.
async fn terminate_sandbox(recorder: &mut CallRecorder, process: &Arc<Plane>) {
    let sandbox = create_and_provision(recorder, process, "w-2").await;
    let end = request("DELETE", &format!("/api/v1/sandboxes/{sandbox}"), OPERATOR, None);
    recorder.request(process, "sandboxes-terminate", &end, 200).await;
    sweep(recorder, process).await;
    reconcile(recorder, process, &sandbox).await;
}

/// A sandbox that its provider has lost, and an orphan that the plane does not know.
async fn lose_and_orphan_sandboxes(
    recorder: &mut CallRecorder,
    process: &Arc<Plane>,
    provider: &InstantProvider,
) {
    let sandbox = create_and_provision(recorder, process, "w-3").await;
    let orphan = SandboxId::parse("orphan").unwrap();
    {
        let mut sandboxes = provider.sandboxes.lock().unwrap();
        sandboxes.remove(&sandbox);
        sandboxes.insert(orphan.clone());
    }
    recorder.run(process, "sandboxes-sweep-providers", &fixture("schedule-tick")).await;
    assert!(!provider.sandboxes.lock().unwrap().contains(&orphan), "the orphan is not deleted");
    let stored = recorder.harness.aws.store.sandbox(&sandbox).await.unwrap().unwrap();
    assert!(stored.activity.outcome.is_some(), "the loss is not detected: {stored:?}");
    reconcile(recorder, process, &sandbox).await;
    // The next attempt, after the backoff.
    recorder.harness.clock.advance_secs(3600);
    sweep(recorder, process).await;
    run_job(recorder, process, &Job::ReconcileTask { task_id: task_of(recorder, "w-3").await }).await;
}

/// A ticket whose approval times out.
async fn time_out_approval(recorder: &mut CallRecorder, process: &Arc<Plane>) {
    let mut settings = process.settings.clone();
    settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
    let (aws, clock, ids) =
        (&recorder.harness.aws, recorder.harness.clock.clone(), recorder.harness.ids.clone());
    let authenticator = Authenticator::new(&keys(), clock.clone());
    let with_approval = Plane::new(aws.store.clone(), aws.bindings(), authenticator, clock, ids, settings);
    create_ticket(recorder, &Arc::new(with_approval), "w-4").await;
    recorder.harness.clock.advance_secs(61);
    sweep(recorder, process).await;
    run_job(recorder, process, &Job::ReconcileTicket { ticket_id: TicketId::parse("w-4").unwrap() }).await;
}

/// Creates a ticket and provisions its sandbox.
async fn create_and_provision(recorder: &mut CallRecorder, process: &Arc<Plane>, id: &str) -> SandboxId {
    create_ticket(recorder, process, id).await;
    run_job(recorder, process, &Job::Dispatch { org: OrgId::parse("acme").unwrap() }).await;
    provision(recorder, process, &task_of(recorder, id).await).await
}

/// Provisions the sandbox of a claimed task.
pub(super) async fn provision(recorder: &mut CallRecorder, process: &Arc<Plane>, task: &TaskId) -> SandboxId {
    let claimed = recorder.harness.aws.store.task(task).await.unwrap().unwrap();
    let sandbox = claimed.sandbox.unwrap_or_else(|| panic!("{task} was not claimed"));
    reconcile(recorder, process, &sandbox).await;
    sandbox
}

async fn create_ticket(recorder: &mut CallRecorder, process: &Arc<Plane>, id: &str) {
    let body = json!({"org": "acme", "ticket_id": id, "title": id, "force_create": true, "max_retries": 1});
    let create = request("POST", "/api/v1/tickets", OPERATOR, Some(&body));
    recorder.request(process, "tickets-create", &create, 201).await;
}

async fn task_of(recorder: &CallRecorder, ticket: &str) -> TaskId {
    let ticket = recorder.harness.aws.store.ticket(&TicketId::parse(ticket).unwrap()).await.unwrap().unwrap();
    ticket.first_task.expect("the ticket was created with a task")
}

pub(super) async fn emit(
    recorder: &mut CallRecorder,
    process: &Arc<Plane>,
    sandbox: &SandboxId,
    event_type: &str,
    data: Value,
) {
    let body = json!({"event_type": event_type, "event_data": data});
    let path = format!("/api/v1/sandboxes/{sandbox}/events");
    recorder.request(process, "events-ingest", &request("POST", &path, OPERATOR, Some(&body)), 200).await;
}

pub(super) async fn reconcile(recorder: &mut CallRecorder, process: &Arc<Plane>, sandbox: &SandboxId) {
    run_job(recorder, process, &Job::ReconcileSandbox { sandbox_id: sandbox.clone() }).await;
}

pub(super) async fn run_job(recorder: &mut CallRecorder, process: &Arc<Plane>, work: &Job) {
    let answer = recorder.run(process, "sandboxes-dispatch", &job(&work.encode())).await;
    assert_eq!(answer, json!({"batchItemFailures": []}), "{work:?}");
}

async fn sweep(recorder: &mut CallRecorder, process: &Arc<Plane>) {
    recorder.run(process, "sandboxes-sweep", &fixture("schedule-tick")).await;
}

/// A provider whose sandboxes are ready at once. It stores only their names.
#[derive(Debug, Default)]
pub struct InstantProvider {
    sandboxes: Mutex<BTreeSet<SandboxId>>,
}

impl InstantProvider {
    fn found(&self, name: &SandboxId) -> Option<Found> {
        let (name, provider_id) = (name.clone(), name.to_string());
        let found = Found { name, provider_id, state: State::Ready, actual_resources: None };
        self.sandboxes.lock().unwrap().contains(&found.name).then_some(found)
    }
}

impl SandboxProvider for InstantProvider {
    fn name(&self) -> &'static str {
        "instant"
    }

    fn isolation(&self) -> String {
        "Nothing runs, so nothing is isolated.".to_owned()
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        self.sandboxes.lock().unwrap().insert(spec.name.clone());
        ready(Ok(self.found(&spec.name).unwrap())).boxed()
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        ready(Ok(self.found(name))).boxed()
    }

    fn upload<'a>(&'a self, _: &'a Found) -> ProviderFuture<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn start<'a>(&'a self, _: &'a Found, _: &'a BTreeMap<String, String>) -> ProviderFuture<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        self.sandboxes.lock().unwrap().remove(name);
        ready(Ok(Deletion::Done)).boxed()
    }

    fn list<'a>(&'a self) -> ProviderFuture<'a, Vec<Listed>> {
        let sandboxes = self.sandboxes.lock().unwrap();
        let listed = sandboxes.iter().map(|name| Listed {
            name: name.clone(),
            provider_id: name.to_string(),
            created_at_secs: None,
        });
        ready(Ok(listed.collect())).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        ready(Ok(Tail::default())).boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> ProviderFuture<'a, Option<Link>> {
        ready(Ok(None)).boxed()
    }
}
