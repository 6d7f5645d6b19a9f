//! Reconciliation of one sandbox, step by step, against a scripted provider: which calls are made, how often, and when
//! the next job runs.

use super::chaos::simulation::{change, task};
use crate::harness::{Harness, keys};
use app::orchestration::{Providers, WorkerVariables};
use domain::access::Principal;
use domain::attempt::Stage;
use domain::breaker::{Breaker, Opened};
use domain::sandbox::Status;
use domain::task::Status as TaskStatus;
use domain::{Entity, OrgId, Sandbox, SandboxId, Task, TaskId, Timestamp};
use edge::auth::Authenticator;
use edge::{Plane, Settings};
use futures_util::FutureExt;
use providers::{
    Deletion, Failure, FailureClass, Found, Link, Listed, ProviderFuture, SandboxProvider, SandboxSpec,
    State, Tail,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use store::commit::Commit;

const NAME: &str = "scripted";

/// A provider whose behavior a test scripts.
#[derive(Debug, Default)]
struct ScriptedProvider(Mutex<Script>);

#[derive(Debug, Default)]
struct Script {
    calls: Vec<&'static str>,
    sandbox: Option<(SandboxId, State)>,
    /// Failures of the next create calls, in order.
    create_failures: VecDeque<FailureClass>,
    /// Created sandboxes do not become ready.
    stays_pending: bool,
    /// Uploads never return.
    uploads_hang: bool,
    /// Number of destroy calls that report a deletion in progress.
    pending_deletions: u32,
    worker_exit: Option<String>,
    /// Variables of the last worker that was started.
    variables: BTreeMap<String, String>,
    /// Advances the plane's clock by this many seconds on each create call.
    create_duration: Option<(Arc<app::clock::ManualClock>, i64)>,
}

impl ScriptedProvider {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    /// Number of calls of an operation.
    fn calls(&self, operation: &str) -> usize {
        self.script().calls.iter().filter(|call| **call == operation).count()
    }

    fn found(&self) -> Option<Found> {
        let sandbox = self.script().sandbox.clone();
        sandbox.map(|(name, state)| Found {
            provider_id: name.to_string(),
            name,
            state,
            actual_resources: None,
        })
    }

    fn create_sandbox(&self, spec: &SandboxSpec) -> Result<Found, Failure> {
        {
            let mut script = self.script();
            script.calls.push("create");
            if let Some(class) = script.create_failures.pop_front() {
                return Err(Failure { class, message: "not now".into() });
            }
            let state = if script.stays_pending { State::Pending } else { State::Ready };
            script.sandbox = Some((spec.name.clone(), state));
            if let Some((clock, secs)) = &script.create_duration {
                clock.advance_secs(*secs);
            }
        }
        Ok(self.found().unwrap())
    }

    fn delete(&self) -> Deletion {
        let mut script = self.script();
        script.calls.push("destroy");
        if script.pending_deletions > 0 {
            script.pending_deletions -= 1;
            return Deletion::InProgress;
        }
        script.sandbox = None;
        Deletion::Done
    }
}

/// Pauses Tokio's clock, which then skips to the next timer, so that a hanging call times out at once.
struct AutoAdvance;

impl AutoAdvance {
    fn start() -> Self {
        tokio::time::pause();
        Self
    }
}

impl Drop for AutoAdvance {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

impl SandboxProvider for ScriptedProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> String {
        "There is nothing to isolate.".into()
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> ProviderFuture<'a, Found> {
        ready(self.create_sandbox(spec)).boxed()
    }

    fn find<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Option<Found>> {
        self.script().calls.push("find");
        ready(Ok(self.found())).boxed()
    }

    fn upload<'a>(&'a self, _: &'a Found) -> ProviderFuture<'a, ()> {
        self.script().calls.push("upload");
        let hangs = self.script().uploads_hang;
        async move {
            if hangs {
                let _auto_advance = AutoAdvance::start();
                pending::<()>().await;
            }
            Ok(())
        }
        .boxed()
    }

    fn start<'a>(&'a self, _: &'a Found, variables: &'a BTreeMap<String, String>) -> ProviderFuture<'a, ()> {
        let mut script = self.script();
        script.calls.push("start");
        script.variables.clone_from(variables);
        ready(Ok(())).boxed()
    }

    fn destroy<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Deletion> {
        ready(Ok(self.delete())).boxed()
    }

    fn list(&self) -> ProviderFuture<'_, Vec<Listed>> {
        let listed =
            |found: Found| Listed { name: found.name, provider_id: found.provider_id, created_at_secs: None };
        ready(Ok(self.found().map(listed).into_iter().collect())).boxed()
    }

    fn worker_exit<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Option<String>> {
        ready(Ok(self.script().worker_exit.clone())).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> ProviderFuture<'a, Tail> {
        ready(Ok(Tail::new(0, b"I had a-planted-key.\nI am out of memory.\n"))).boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> ProviderFuture<'a, Option<Link>> {
        ready(Ok(None)).boxed()
    }
}

/// A claimed task and its sandbox, which is not provisioned yet.
struct Fixture {
    harness: Harness,
    provider: Arc<ScriptedProvider>,
    plane: Arc<Plane>,
    sandbox_id: SandboxId,
}

impl Fixture {
    async fn open() -> Self {
        Self::for_provider(NAME).await
    }

    /// The task requests the provider of this name.
    async fn for_provider(provider_name: &str) -> Self {
        let harness = Harness::open().await;
        let provider = Arc::new(ScriptedProvider::default());
        let mut settings = Settings::default();
        settings.orchestration.default_provider = provider_name.into();
        settings.orchestration.worker_variables = WorkerVariables::parse(
            r#"{"orgs": {"acme": {"KEY": "a-planted-key"}, "other": {"KEY": "another-key"}}}"#,
        )
        .unwrap();
        let mut bindings = harness.aws.bindings();
        bindings.providers = Some(Providers::new([provider.clone() as Arc<dyn SandboxProvider>]));
        bindings.code_hosts = Some(local::sandboxes::code_hosts(harness.clock.clone()));
        let authenticator = Authenticator::new(&keys(), harness.clock.clone());
        let (clock, ids) = (harness.clock.clone(), harness.ids.clone());
        let plane = Plane::new(harness.aws.store.clone(), bindings, authenticator, clock, ids, settings);
        let (org, now) = (OrgId::parse("acme").unwrap(), app::Clock::now(harness.clock.as_ref()));
        let mut commit = Commit::new(now);
        let new = task("t-1", &org, now, json!({"max_retries": 0}));
        commit.tasks.push(change(harness.ids.as_ref(), None, new.created(&Default::default(), now)));
        harness.aws.store.commit(commit).await.unwrap();
        assert_eq!(app::tasks::dispatch::run(plane.orchestration().unwrap(), org).await.unwrap(), 1);
        let sandbox_id =
            harness.aws.store.task(&TaskId::parse("t-1").unwrap()).await.unwrap().unwrap().sandbox;
        Self { harness, provider, plane: Arc::new(plane), sandbox_id: sandbox_id.unwrap() }
    }

    /// Runs the reconcile job. Returns the seconds until the next one is due and the number of jobs sent.
    async fn reconcile(&self) -> (Option<i64>, usize) {
        self.harness.aws.meter.start();
        let token = |_: &SandboxId, _| Ok("a token".to_owned());
        let until =
            app::reconcile::sandbox::run(self.plane.reconcile_deps(&token).unwrap(), self.sandbox_id.clone())
                .await;
        self.harness.aws.meter.stop();
        let sent = self.harness.aws.meter.take().into_iter().filter(|call| call.operation == "SendMessage");
        let secs = |until: Timestamp| (until.as_micros() - self.now().as_micros() + 999_999) / 1_000_000;
        (until.unwrap().map(secs), sent.count())
    }

    /// Runs the sweep and the jobs that it sends.
    async fn sweep(&self) {
        if app::reconcile::sweep::run(self.plane.orchestration().unwrap()).await.unwrap() > 0 {
            self.reconcile().await;
        }
    }

    async fn sweep_providers(&self) -> app::reconcile::sweep_providers::Outcome {
        let (base, providers) = (self.plane.orchestration().unwrap(), self.plane.providers().unwrap());
        app::reconcile::sweep_providers::run(app::reconcile::sweep_providers::Deps { base, providers })
            .await
            .unwrap()
    }

    fn now(&self) -> Timestamp {
        self.plane.clock.now()
    }

    fn advance(&self, secs: i64) {
        self.harness.clock.advance_secs(secs);
    }

    async fn sandbox(&self) -> Sandbox {
        self.harness.aws.store.sandbox(&self.sandbox_id).await.unwrap().unwrap()
    }

    async fn stage(&self) -> Stage {
        self.sandbox().await.activity.provisioning.unwrap().stage
    }

    async fn attempts(&self) -> u32 {
        self.sandbox().await.activity.provisioning.unwrap().attempts
    }

    async fn task(&self) -> Task {
        self.harness.aws.store.task(&TaskId::parse("t-1").unwrap()).await.unwrap().unwrap()
    }

    /// The data of the first event of this type.
    async fn event_data(&self, event_type: &str) -> Value {
        let entity = Entity::Sandbox(self.sandbox_id.clone());
        let segments = self.harness.aws.store.segments_from(&entity, 1, 100).await.unwrap();
        let mut events = segments.iter().flat_map(|segment| segment.events().unwrap());
        let event =
            events.find(|event| event.event_type.as_str() == event_type).expect("the event is emitted");
        serde_json::from_str(event.data.text()).unwrap()
    }

    async fn breaker(&self) -> Breaker {
        self.harness.aws.store.breaker(NAME).await.unwrap()
    }

    /// Opens the breaker for half a minute.
    async fn open_breaker(&self) {
        let opened = Opened { at: self.now(), until: self.now().plus_secs(30), probing: false };
        let breaker = Breaker { failures: 5, opened: Some(opened), times_opened: 1, ..self.breaker().await };
        assert!(self.harness.aws.store.put_breaker(NAME, &breaker).await.unwrap());
    }

    async fn terminate(&self) {
        let plane = &self.plane;
        let deps = app::sandboxes::terminate::Deps {
            messages: plane.message_deps().unwrap(),
            orchestration_jobs: plane.orchestration_jobs().unwrap(),
        };
        let (principal, sandbox) = (Principal::operator("local"), self.sandbox_id.clone());
        let command = app::sandboxes::terminate::Command { principal, sandbox, reason: "enough".into() };
        app::sandboxes::terminate::run(deps, command).await.unwrap();
    }
}

#[tokio::test]
async fn plane_downtime_does_not_count_as_worker_silence() {
    let fixture = Fixture::open().await;
    fixture.sweep().await;
    assert_eq!(fixture.stage().await, Stage::Started);
    // The laptop sleeps for an hour, then a job runs before the first sweep.
    fixture.advance(3_600);
    fixture.reconcile().await;
    fixture.sweep().await;
    assert_eq!(fixture.sandbox().await.status(), Status::Creating, "the worker had no chance to report");
    for _ in 0..2 {
        fixture.advance(60);
        fixture.sweep().await;
        assert_eq!(fixture.sandbox().await.status(), Status::Creating);
    }
    fixture.advance(60);
    fixture.sweep().await;
    let sandbox = fixture.sandbox().await;
    assert_eq!(
        (sandbox.status(), sandbox.needs_reconcile()),
        (Status::Failed, false),
        "the worker did not report for three minutes of uptime"
    );
    let task = fixture.task().await;
    assert_eq!(task.error.as_deref(), Some("The worker was started but never reported."));
}

#[tokio::test]
async fn worker_receives_the_keys_of_its_org_only() {
    let fixture = Fixture::open().await;
    fixture.sweep().await;
    let variables = fixture.provider.script().variables.clone();
    assert_eq!(variables.get("KEY").map(String::as_str), Some("a-planted-key"));
    assert!(!variables.values().any(|value| value.contains("another-key")));
}

#[tokio::test]
async fn sandbox_of_an_unknown_provider_fails() {
    let fixture = Fixture::for_provider("docker").await;
    assert_eq!(fixture.reconcile().await.0, None);
    let (sandbox, task) = (fixture.sandbox().await, fixture.task().await);
    assert_eq!((sandbox.status(), sandbox.needs_reconcile()), (Status::Failed, false));
    assert_eq!(
        (task.status, task.error.as_deref()),
        (TaskStatus::Failed, Some("provider docker is not configured"))
    );
}

#[tokio::test]
async fn stage_that_times_out_is_retried() {
    let fixture = Fixture::open().await;
    fixture.provider.script().uploads_hang = true;
    let (until, sent) = fixture.reconcile().await;
    assert!((1..=2).contains(&until.unwrap()) && sent >= 1, "{until:?}");
    let provisioning = fixture.sandbox().await.activity.provisioning.unwrap();
    assert_eq!(
        (provisioning.stage, provisioning.attempts, provisioning.lease_until),
        (Stage::Uploading, 1, None)
    );
    fixture.provider.script().uploads_hang = false;
    fixture.advance(2);
    fixture.reconcile().await;
    assert_eq!(fixture.stage().await, Stage::Started);
    assert_eq!((fixture.provider.calls("create"), fixture.provider.calls("upload")), (1, 2));
}

#[tokio::test]
async fn stage_that_does_not_fit_is_left_to_the_next_job() {
    let fixture = Fixture::open().await;
    fixture.provider.script().create_duration = Some((fixture.harness.clock.clone(), 100));
    let (until, sent) = fixture.reconcile().await;
    assert_eq!((until, fixture.stage().await), (Some(0), Stage::Uploading));
    assert!(sent >= 1, "without a job it would wait for the next sweep");
    assert_eq!(fixture.provider.calls("upload"), 0, "Lambda could stop the upload half-way");
    fixture.reconcile().await;
    assert_eq!(fixture.stage().await, Stage::Started);
}

#[tokio::test]
async fn rate_limited_provider_is_retried_after_its_delay() {
    let fixture = Fixture::open().await;
    let busy = |secs| FailureClass::Busy { retry_after_secs: secs };
    fixture.provider.script().create_failures =
        [Some(7), None, Some(40), Some(1), Some(1), Some(100_000)].map(busy).into();
    for expected in [7, 10, 40, 1, 1, 300] {
        assert_eq!(fixture.reconcile().await.0, Some(expected));
        fixture.advance(expected.min(100));
    }
    assert_eq!((fixture.attempts().await, fixture.breaker().await), (0, Breaker::default()));
}

#[tokio::test]
async fn waiting_for_an_open_breaker_does_not_count_towards_timeouts() {
    let fixture = Fixture::open().await;
    fixture.provider.script().create_failures = [FailureClass::Unreachable].into();
    fixture.reconcile().await;
    // The provider keeps failing for other sandboxes: the breaker stays open for longer than the timeout.
    for _ in 0..12 {
        fixture.open_breaker().await;
        fixture.advance(29);
        fixture.sweep().await;
        let sandbox = fixture.sandbox().await;
        assert_eq!((sandbox.status(), sandbox.activity.outcome), (Status::Creating, None));
    }
    assert_eq!(fixture.provider.calls("create"), 1, "no calls while the breaker is open");
    fixture.advance(30);
    fixture.sweep().await;
    assert_eq!((fixture.stage().await, fixture.breaker().await.failures), (Stage::Started, 0));
}

#[tokio::test]
async fn only_one_caller_probes_a_half_open_breaker() {
    let fixture = Fixture::open().await;
    fixture.open_breaker().await;
    fixture.advance(30);
    let (store, breaker) = (&fixture.harness.aws.store, fixture.breaker().await);
    assert!(store.put_breaker(NAME, &breaker.probing(fixture.now())).await.unwrap());
    assert!(
        !store.put_breaker(NAME, &breaker.probing(fixture.now())).await.unwrap(),
        "a second probe is rejected"
    );
    let (until, _) = fixture.reconcile().await;
    assert_eq!(
        (until, fixture.provider.calls("create")),
        (Some(30), 0),
        "other callers wait for the result of the probe"
    );
}

#[tokio::test]
async fn pending_sandbox_is_polled_and_not_created_again() {
    let fixture = Fixture::open().await;
    fixture.provider.script().stays_pending = true;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let (until, _) = fixture.reconcile().await;
        waits.push(until.unwrap());
        fixture.advance(until.unwrap());
    }
    assert_eq!((fixture.provider.calls("create"), fixture.provider.calls("find")), (1, 11));
    assert!(waits.is_sorted() && waits[0] == 1 && waits[11] > 1, "{waits:?}");
    // The provider has lost it, so it is created again.
    fixture.provider.script().sandbox = None;
    fixture.reconcile().await;
    assert_eq!((fixture.provider.calls("create"), fixture.stage().await), (2, Stage::Creating));
    // Once it is ready, create is called again to finish what requires a running sandbox.
    fixture.provider.script().stays_pending = false;
    fixture.provider.script().sandbox = Some((fixture.sandbox_id.clone(), State::Ready));
    fixture.advance(10);
    fixture.reconcile().await;
    assert_eq!((fixture.provider.calls("create"), fixture.stage().await), (3, Stage::Started));
}

#[tokio::test]
async fn slow_deletion_is_polled_with_backoff_by_one_job() {
    let fixture = Fixture::open().await;
    fixture.reconcile().await;
    fixture.provider.script().pending_deletions = 5;
    // An open breaker does not stop deletions.
    fixture.open_breaker().await;
    fixture.terminate().await;
    // Half of 2, 4, 8, … seconds: the clock of a test has no fraction of a millisecond, and so no jitter.
    for expected in [1, 2, 4, 8, 16] {
        let (until, sent) = fixture.reconcile().await;
        assert_eq!(until, Some(expected));
        assert!(sent > 0, "without a job it would wait for the next sweep");
        // Another job in the meantime changes nothing and sends no job.
        assert_eq!(fixture.reconcile().await, (Some(expected), 0));
        fixture.advance(expected);
    }
    fixture.reconcile().await;
    assert!(!fixture.sandbox().await.needs_reconcile());
    assert_eq!(fixture.provider.calls("destroy"), 6);
}

#[tokio::test]
async fn termination_does_not_wait_for_a_pending_retry() {
    let fixture = Fixture::open().await;
    fixture.provider.script().create_failures = [FailureClass::Busy { retry_after_secs: Some(200) }].into();
    assert_eq!(fixture.reconcile().await.0, Some(200));
    fixture.terminate().await;
    fixture.reconcile().await;
    assert!(!fixture.sandbox().await.needs_reconcile());
}

#[tokio::test]
async fn crashed_worker_fails_its_task_with_the_log_tail() {
    let fixture = Fixture::open().await;
    fixture.reconcile().await;
    assert_eq!(fixture.sweep_providers().await.lost, 0);
    fixture.provider.script().worker_exit = Some("The worker exited with code 3.".into());
    assert_eq!(fixture.sweep_providers().await.lost, 1);
    fixture.reconcile().await;
    let (sandbox, task) = (fixture.sandbox().await, fixture.task().await);
    assert_eq!((sandbox.status(), sandbox.needs_reconcile()), (Status::Failed, false));
    assert_eq!(task.error.as_deref(), Some("The worker exited with code 3."));
    let data = fixture.event_data("sandbox.failed").await;
    assert_eq!(
        (&data["reason"], &data["message"]),
        (&json!("lost"), &json!("The worker exited with code 3."))
    );
    assert_eq!(data["worker_log"], "I had [redacted KEY].\nI am out of memory.");
    assert_eq!(fixture.sweep_providers().await, app::reconcile::sweep_providers::Outcome::default());
}
