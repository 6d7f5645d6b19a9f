//! All that functions ever do that make, watch and remove sandboxes.

use super::Watch;
use crate::payloads::{fixture, job, request};
use crate::stage::keys;
use crate::support::OPERATOR;
use app::orchestration::Providers;
use contract::jobs::Job;
use domain::ticket::ApprovalSettings;
use domain::{OrgId, SandboxId, TaskId, TicketId};
use edge::auth::Authenticator;
use edge::{Bindings, Plane, Settings};
use futures_util::FutureExt;
use futures_util::future::ready;
use providers::{Answer, Found, Gone, Link, Listed, SandboxProvider, SandboxSpec, State, Tail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use store::commit::Limits;

pub(super) async fn work(watch: &mut Watch) {
    let shelf = Arc::new(Shelf::default());
    let process = process(watch, &shelf);
    runs_to_its_end(watch, &process).await;
    is_taken_down(watch, &process).await;
    is_lost_or_forgotten(watch, &process, &shelf).await;
    nobody_approves(watch, &process).await;
}

/// A process that has those who make sandboxes.
pub(super) fn process(watch: &Watch, shelf: &Arc<Shelf>) -> Arc<Plane> {
    let (aws, clock, ids) = (&watch.stage.aws, watch.stage.clock.clone(), watch.stage.ids.clone());
    let shelf: Arc<dyn SandboxProvider> = shelf.clone();
    let reach = Bindings { providers: Some(Providers::new([shelf])), ..aws.bindings() };
    let mut settings = Settings::default();
    settings.orchestration.default_provider = "shelf".to_owned();
    // Room for whatever is ready.
    settings.orchestration.limits = Limits { org: 100, project: 100 };
    let authenticator = Authenticator::new(&keys(), clock.clone());
    Arc::new(Plane::new(aws.store.clone(), reach, authenticator, clock, ids, settings))
}

/// A task that gets a sandbox, whose agent works, is told something, and is done.
async fn runs_to_its_end(watch: &mut Watch, process: &Arc<Plane>) {
    let sandbox = started(watch, process, "w-1").await;
    // A worker waits for messages, and one is left when it is done: both go with the sandbox.
    let messages = format!("/api/v1/sandboxes/{sandbox}/messages");
    watch
        .request(
            process,
            "messages-pull",
            &request("GET", &format!("{messages}?wait=1"), OPERATOR, None),
            200,
        )
        .await;
    let said = json!({"content": "and then?", "message_id": "m-1"});
    watch.request(process, "messages-send", &request("POST", &messages, OPERATOR, Some(&said)), 200).await;
    tell(watch, process, &sandbox, "agent.heartbeat", json!({"status": "working"})).await;
    tend(watch, process, &sandbox).await;
    let logs = |id: &str| request("GET", &format!("/api/v1/sandboxes/{id}/logs"), OPERATOR, None);
    watch.request(process, "sandboxes-logs", &logs(sandbox.as_str()), 200).await;
    for missing in ["nobody", "s-1"] {
        watch.request(process, "sandboxes-logs", &logs(missing), 404).await;
    }
    tell(watch, process, &sandbox, "agent.completed", json!({"success": true})).await;
    watch.stage.clock.advance_secs(60);
    tend(watch, process, &sandbox).await;
    sweep(watch, process).await;
    let head = watch.stage.aws.store.sandbox(&sandbox).await.unwrap().unwrap();
    assert!(!head.needs_reconcile(), "{head:?}");
    let task = task_of(watch, "w-1").await;
    do_job(watch, process, &Job::ReconcileTask { task_id: task }).await;
}

/// A sandbox that somebody ends while it works.
async fn is_taken_down(watch: &mut Watch, process: &Arc<Plane>) {
    let sandbox = started(watch, process, "w-2").await;
    let end = request("DELETE", &format!("/api/v1/sandboxes/{sandbox}"), OPERATOR, None);
    watch.request(process, "sandboxes-terminate", &end, 200).await;
    sweep(watch, process).await;
    tend(watch, process, &sandbox).await;
}

/// A sandbox that its provider has lost, and one that the plane does not know.
async fn is_lost_or_forgotten(watch: &mut Watch, process: &Arc<Plane>, shelf: &Shelf) {
    let sandbox = started(watch, process, "w-3").await;
    let unknown = SandboxId::parse("nobody-knows-me").unwrap();
    {
        let mut there = shelf.there.lock().unwrap();
        there.remove(&sandbox);
        there.insert(unknown.clone());
    }
    watch.run(process, "sandboxes-compare", &fixture("schedule-tick")).await;
    assert!(!shelf.there.lock().unwrap().contains(&unknown), "it is still there");
    let head = watch.stage.aws.store.sandbox(&sandbox).await.unwrap().unwrap();
    assert!(head.activity.outcome.is_some(), "nobody noticed: {head:?}");
    tend(watch, process, &sandbox).await;
    // It is tried again, later.
    watch.stage.clock.advance_secs(3600);
    sweep(watch, process).await;
    do_job(watch, process, &Job::ReconcileTask { task_id: task_of(watch, "w-3").await }).await;
}

/// A ticket that waits for somebody's approval until it is too late.
async fn nobody_approves(watch: &mut Watch, process: &Arc<Plane>) {
    let mut settings = process.settings.clone();
    settings.orchestration.approval = ApprovalSettings::new(true, 60).unwrap();
    let (aws, clock, ids) = (&watch.stage.aws, watch.stage.clock.clone(), watch.stage.ids.clone());
    let authenticator = Authenticator::new(&keys(), clock.clone());
    let careful = Plane::new(aws.store.clone(), aws.bindings(), authenticator, clock, ids, settings);
    ticket(watch, &Arc::new(careful), "w-4").await;
    watch.stage.clock.advance_secs(61);
    sweep(watch, process).await;
    do_job(watch, process, &Job::ReconcileTicket { ticket_id: TicketId::parse("w-4").unwrap() }).await;
}

/// The sandbox of a new ticket, made and started.
async fn started(watch: &mut Watch, process: &Arc<Plane>, id: &str) -> SandboxId {
    ticket(watch, process, id).await;
    do_job(watch, process, &Job::Dispatch { org: OrgId::parse("acme").unwrap() }).await;
    made(watch, process, &task_of(watch, id).await).await
}

/// The sandbox of a task that was claimed, made and started.
pub(super) async fn made(watch: &mut Watch, process: &Arc<Plane>, task: &TaskId) -> SandboxId {
    let claimed = watch.stage.aws.store.task(task).await.unwrap().unwrap();
    let sandbox = claimed.sandbox.unwrap_or_else(|| panic!("{task} was not claimed"));
    tend(watch, process, &sandbox).await;
    sandbox
}

async fn ticket(watch: &mut Watch, process: &Arc<Plane>, id: &str) {
    let body = json!({"org": "acme", "ticket_id": id, "title": id, "force_create": true, "max_retries": 1});
    let create = request("POST", "/api/v1/tickets", OPERATOR, Some(&body));
    watch.request(process, "tickets-create", &create, 201).await;
}

async fn task_of(watch: &Watch, ticket: &str) -> TaskId {
    let ticket = watch.stage.aws.store.ticket(&TicketId::parse(ticket).unwrap()).await.unwrap().unwrap();
    ticket.first_task.expect("it was made with its ticket")
}

pub(super) async fn tell(
    watch: &mut Watch,
    process: &Arc<Plane>,
    sandbox: &SandboxId,
    event_type: &str,
    data: Value,
) {
    let body = json!({"event_type": event_type, "event_data": data});
    let path = format!("/api/v1/sandboxes/{sandbox}/events");
    watch.request(process, "events-ingest", &request("POST", &path, OPERATOR, Some(&body)), 200).await;
}

pub(super) async fn tend(watch: &mut Watch, process: &Arc<Plane>, sandbox: &SandboxId) {
    do_job(watch, process, &Job::ReconcileSandbox { sandbox_id: sandbox.clone() }).await;
}

pub(super) async fn do_job(watch: &mut Watch, process: &Arc<Plane>, what: &Job) {
    let answer = watch.run(process, "sandboxes-dispatch", &job(&what.encode())).await;
    assert_eq!(answer, json!({"batchItemFailures": []}), "{what:?}");
}

async fn sweep(watch: &mut Watch, process: &Arc<Plane>) {
    watch.run(process, "sandboxes-sweep", &fixture("schedule-tick")).await;
}

/// Somebody who makes sandboxes at once, and remembers their names.
#[derive(Debug, Default)]
pub struct Shelf {
    there: Mutex<BTreeSet<SandboxId>>,
}

impl Shelf {
    fn found(&self, name: &SandboxId) -> Option<Found> {
        let (name, provider_id) = (name.clone(), name.to_string());
        let found = Found { name, provider_id, state: State::Ready, made_of: None };
        self.there.lock().unwrap().contains(&found.name).then_some(found)
    }
}

impl SandboxProvider for Shelf {
    fn name(&self) -> &'static str {
        "shelf"
    }

    fn isolation(&self) -> String {
        "Nothing runs, and so nothing is kept from anything.".to_owned()
    }

    fn create<'a>(&'a self, wish: &'a SandboxSpec) -> Answer<'a, Found> {
        self.there.lock().unwrap().insert(wish.name.clone());
        ready(Ok(self.found(&wish.name).unwrap())).boxed()
    }

    fn find<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Option<Found>> {
        ready(Ok(self.found(name))).boxed()
    }

    fn upload<'a>(&'a self, _: &'a Found) -> Answer<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn start<'a>(&'a self, _: &'a Found, _: &'a BTreeMap<String, String>) -> Answer<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn destroy<'a>(&'a self, name: &'a SandboxId) -> Answer<'a, Gone> {
        self.there.lock().unwrap().remove(name);
        ready(Ok(Gone::Yes)).boxed()
    }

    fn list<'a>(&'a self) -> Answer<'a, Vec<Listed>> {
        let there = self.there.lock().unwrap();
        let listed = there.iter().map(|name| Listed {
            name: name.clone(),
            provider_id: name.to_string(),
            created_at_secs: None,
        });
        ready(Ok(listed.collect())).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> Answer<'a, Tail> {
        ready(Ok(Tail::default())).boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> Answer<'a, Option<Link>> {
        ready(Ok(None)).boxed()
    }
}
