//! One sandbox, one step at a time, at a provider that does as a test says: what is asked of it, how often, and when
//! somebody comes back.

use super::chaos::world::{change, task};
use crate::stage::{Stage, keys};
use app::orchestration::Providers;
use domain::access::Principal;
use domain::attempt::Stage as Making;
use domain::breaker::{Breaker, Opened};
use domain::sandbox::Status;
use domain::task::Status as TaskStatus;
use domain::{Entity, OrgId, Sandbox, SandboxId, Task, TaskId, Timestamp};
use edge::auth::Authenticator;
use edge::{Plane, Settings};
use futures_util::FutureExt;
use providers::{
    Answer, Failure, FailureClass, Found, Gone, Link, Listed, SandboxProvider, SandboxSpec, State, Tail,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use store::commit::Commit;

const NAME: &str = "told";

/// Does as it is told.
#[derive(Debug, Default)]
struct LifecycleEvent(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    asked: Vec<&'static str>,
    there: Option<(SandboxId, State)>,
    /// What is answered to the next wishes, instead of making what is wished for.
    failures: VecDeque<FailureClass>,
    /// What is made is not ready.
    makes_slowly: bool,
    /// Nobody ever hears of an upload again.
    uploads_hang: bool,
    /// How often it says that a sandbox is still there.
    clings: u32,
    /// How the worker has ended.
    ended: Option<String>,
    /// How long it takes to make one, on the plane's clock.
    clock: Option<(Arc<app::clock::ManualClock>, i64)>,
}

impl LifecycleEvent {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    /// How often it was asked for this.
    fn asked(&self, what: &str) -> usize {
        self.inside().asked.iter().filter(|asked| **asked == what).count()
    }

    fn found(&self) -> Option<Found> {
        let there = self.inside().there.clone();
        there.map(|(name, state)| Found { provider_id: name.to_string(), name, state, made_of: None })
    }

    fn make(&self, wish: &SandboxSpec) -> Result<Found, Failure> {
        {
            let mut inside = self.inside();
            inside.asked.push("create");
            if let Some(class) = inside.failures.pop_front() {
                return Err(Failure { class, message: "not now".into() });
            }
            let state = if inside.makes_slowly { State::Coming } else { State::Ready };
            inside.there = Some((wish.name.clone(), state));
            if let Some((clock, secs)) = &inside.clock {
                clock.advance_secs(*secs);
            }
        }
        Ok(self.found().unwrap())
    }

    fn end(&self) -> Gone {
        let mut inside = self.inside();
        inside.asked.push("destroy");
        if inside.clings > 0 {
            inside.clings -= 1;
            return Gone::NotYet;
        }
        inside.there = None;
        Gone::Yes
    }
}

/// While somebody waits for what never comes, time flies.
struct TimeFlies;

impl TimeFlies {
    fn begin() -> Self {
        tokio::time::pause();
        Self
    }
}

impl Drop for TimeFlies {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

impl SandboxProvider for LifecycleEvent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> String {
        "There is nothing to isolate.".into()
    }

    fn create<'a>(&'a self, wish: &'a SandboxSpec) -> Answer<'a, Found> {
        ready(self.make(wish)).boxed()
    }

    fn find<'a>(&'a self, _: &'a SandboxId) -> Answer<'a, Option<Found>> {
        self.inside().asked.push("find");
        ready(Ok(self.found())).boxed()
    }

    fn upload<'a>(&'a self, _: &'a Found) -> Answer<'a, ()> {
        self.inside().asked.push("upload");
        let hangs = self.inside().uploads_hang;
        async move {
            if hangs {
                let _time_flies = TimeFlies::begin();
                pending::<()>().await;
            }
            Ok(())
        }
        .boxed()
    }

    fn start<'a>(&'a self, _: &'a Found, _: &'a BTreeMap<String, String>) -> Answer<'a, ()> {
        self.inside().asked.push("start");
        ready(Ok(())).boxed()
    }

    fn destroy<'a>(&'a self, _: &'a SandboxId) -> Answer<'a, Gone> {
        ready(Ok(self.end())).boxed()
    }

    fn list(&self) -> Answer<'_, Vec<Listed>> {
        let one =
            |found: Found| Listed { name: found.name, provider_id: found.provider_id, created_at_secs: None };
        ready(Ok(self.found().map(one).into_iter().collect())).boxed()
    }

    fn ended<'a>(&'a self, _: &'a SandboxId) -> Answer<'a, Option<String>> {
        ready(Ok(self.inside().ended.clone())).boxed()
    }

    fn logs<'a>(&'a self, _: &'a SandboxId) -> Answer<'a, Tail> {
        ready(Ok(Tail::new(0, b"I had a-planted-key.\nI am out of memory.\n"))).boxed()
    }

    fn preview<'a>(&'a self, _: &'a SandboxId, _: u16) -> Answer<'a, Option<Link>> {
        ready(Ok(None)).boxed()
    }
}

/// A task that was claimed, and its sandbox, of which nothing is made yet.
struct Bench {
    stage: Stage,
    provider: Arc<LifecycleEvent>,
    plane: Arc<Plane>,
    sandbox: SandboxId,
}

impl Bench {
    async fn open() -> Self {
        Self::of(NAME).await
    }

    /// The task is for the provider of this name.
    async fn of(provider_name: &str) -> Self {
        let stage = Stage::open().await;
        let provider = Arc::new(LifecycleEvent::default());
        let mut settings = Settings::default();
        settings.orchestration.default_provider = provider_name.into();
        settings.orchestration.worker_variables = [("KEY".to_owned(), "a-planted-key".to_owned())].into();
        let mut reach = stage.aws.bindings();
        reach.providers = Some(Providers::new([provider.clone() as Arc<dyn SandboxProvider>]));
        let authenticator = Authenticator::new(&keys(), stage.clock.clone());
        let (clock, ids) = (stage.clock.clone(), stage.ids.clone());
        let plane = Plane::new(stage.aws.store.clone(), reach, authenticator, clock, ids, settings);
        let (org, now) = (OrgId::parse("acme").unwrap(), app::Clock::now(stage.clock.as_ref()));
        let mut commit = Commit::new(now);
        let new = task("t-1", &org, now, json!({"max_retries": 0}));
        commit.tasks.push(change(stage.ids.as_ref(), None, new.created(&Default::default(), now)));
        stage.aws.store.commit(commit).await.unwrap();
        assert_eq!(app::tasks::dispatch::run(plane.orchestration().unwrap(), org).await.unwrap(), 1);
        let sandbox = stage.aws.store.task(&TaskId::parse("t-1").unwrap()).await.unwrap().unwrap().sandbox;
        Self { stage, provider, plane: Arc::new(plane), sandbox: sandbox.unwrap() }
    }

    /// Does the job that tends it; when somebody is to come back, and how often somebody was asked to.
    async fn tend(&self) -> (Option<i64>, usize) {
        self.stage.aws.meter.start();
        let token = |_: &SandboxId, _| "a token".to_owned();
        let until =
            app::reconcile::sandbox::run(self.plane.hands(&token).unwrap(), self.sandbox.clone()).await;
        self.stage.aws.meter.stop();
        let sent = self.stage.aws.meter.take().into_iter().filter(|call| call.operation == "SendMessage");
        let secs = |until: Timestamp| (until.as_micros() - self.now().as_micros() + 999_999) / 1_000_000;
        (until.unwrap().map(secs), sent.count())
    }

    /// Looks at everything, and does what is asked for.
    async fn sweep(&self) {
        if app::reconcile::sweep::run(self.plane.orchestration().unwrap()).await.unwrap() > 0 {
            self.tend().await;
        }
    }

    async fn compare(&self) -> app::reconcile::sweep_providers::Outcome {
        let (orchestration, providers) =
            (self.plane.orchestration().unwrap(), self.plane.providers().unwrap());
        app::reconcile::sweep_providers::run(app::reconcile::sweep_providers::Deps {
            orchestration,
            providers,
        })
        .await
        .unwrap()
    }

    fn now(&self) -> Timestamp {
        self.plane.clock.now()
    }

    fn advance(&self, secs: i64) {
        self.stage.clock.advance_secs(secs);
    }

    async fn head(&self) -> Sandbox {
        self.stage.aws.store.sandbox(&self.sandbox).await.unwrap().unwrap()
    }

    async fn stage_of(&self) -> Making {
        self.head().await.activity.spawn.unwrap().stage
    }

    async fn tries(&self) -> u32 {
        self.head().await.activity.spawn.unwrap().tries
    }

    async fn task(&self) -> Task {
        self.stage.aws.store.task(&TaskId::parse("t-1").unwrap()).await.unwrap().unwrap()
    }

    /// What an event of this name says.
    async fn told(&self, name: &str) -> Value {
        let entity = Entity::Sandbox(self.sandbox.clone());
        let segments = self.stage.aws.store.segments_from(&entity, 1, 100).await.unwrap();
        let mut events = segments.iter().flat_map(|segment| segment.events().unwrap());
        let event = events.find(|event| event.event_type.as_str() == name).expect("it is told");
        serde_json::from_str(event.data.text()).unwrap()
    }

    async fn breaker(&self) -> Breaker {
        self.stage.aws.store.breaker(NAME).await.unwrap()
    }

    /// Nobody is to ask the provider for half a minute.
    async fn open_breaker(&self) {
        let opened = Opened { at: self.now(), until: self.now().plus_secs(30), probing: false };
        let breaker = Breaker { failures: 5, opened: Some(opened), times_opened: 1, ..self.breaker().await };
        assert!(self.stage.aws.store.keep_breaker(NAME, &breaker).await.unwrap());
    }

    async fn delete(&self) {
        let plane = &self.plane;
        let deps = app::sandboxes::terminate::Deps {
            steering: plane.steering().unwrap(),
            work: plane.work().unwrap(),
        };
        let (principal, sandbox) = (Principal::Operator, self.sandbox.clone());
        let command = app::sandboxes::terminate::Command { principal, sandbox, reason: "enough".into() };
        app::sandboxes::terminate::run(deps, command).await.unwrap();
    }
}

#[tokio::test]
async fn a_silence_while_nobody_listened_is_nobodys_fault() {
    let bench = Bench::open().await;
    bench.sweep().await;
    assert_eq!(bench.stage_of().await, Making::Started);
    // The laptop sleeps for an hour; and whoever wakes first asks for what is due.
    bench.advance(3_600);
    bench.tend().await;
    bench.sweep().await;
    assert_eq!(bench.head().await.status, Status::Creating, "it had no time to be heard");
    for _ in 0..2 {
        bench.advance(60);
        bench.sweep().await;
        assert_eq!(bench.head().await.status, Status::Creating);
    }
    bench.advance(60);
    bench.sweep().await;
    let head = bench.head().await;
    assert_eq!(
        (head.status, head.needs_reconcile()),
        (Status::Failed, false),
        "it was not heard for three minutes"
    );
    let task = bench.task().await;
    assert_eq!(task.error.as_deref(), Some("The worker was started and never heard."));
}

#[tokio::test]
async fn a_sandbox_of_a_provider_that_does_not_exist_fails_and_is_gone() {
    let bench = Bench::of("docker").await;
    assert_eq!(bench.tend().await.0, None);
    let (head, task) = (bench.head().await, bench.task().await);
    assert_eq!((head.status, head.needs_reconcile()), (Status::Failed, false));
    assert_eq!(
        (task.status, task.error.as_deref()),
        (TaskStatus::Failed, Some("there is no provider called docker"))
    );
}

#[tokio::test]
async fn a_stage_that_takes_too_long_has_failed_and_is_tried_again_later() {
    let bench = Bench::open().await;
    bench.provider.inside().uploads_hang = true;
    let (until, sent) = bench.tend().await;
    assert!((1..=2).contains(&until.unwrap()) && sent >= 1, "{until:?}");
    let spawn = bench.head().await.activity.spawn.unwrap();
    assert_eq!((spawn.stage, spawn.tries, spawn.lease_until), (Making::Uploading, 1, None));
    bench.provider.inside().uploads_hang = false;
    bench.advance(2);
    bench.tend().await;
    assert_eq!(bench.stage_of().await, Making::Started);
    assert_eq!((bench.provider.asked("create"), bench.provider.asked("upload")), (1, 2));
}

#[tokio::test]
async fn what_a_job_cannot_end_in_time_is_another_jobs() {
    let bench = Bench::open().await;
    bench.provider.inside().clock = Some((bench.stage.clock.clone(), 100));
    let (until, sent) = bench.tend().await;
    assert_eq!((until, bench.stage_of().await), (Some(0), Making::Uploading));
    assert!(sent >= 1, "nobody would go on with it before the next sweep");
    assert_eq!(bench.provider.asked("upload"), 0, "Lambda might end it half-way");
    bench.tend().await;
    assert_eq!(bench.stage_of().await, Making::Started);
}

#[tokio::test]
async fn a_provider_that_is_asked_too_much_is_waited_for_and_well() {
    let bench = Bench::open().await;
    let busy = |secs| FailureClass::Busy { retry_after_secs: secs };
    bench.provider.inside().failures =
        [Some(7), None, Some(40), Some(1), Some(1), Some(100_000)].map(busy).into();
    for expected in [7, 10, 40, 1, 1, 300] {
        assert_eq!(bench.tend().await.0, Some(expected));
        bench.advance(expected.min(100));
    }
    assert_eq!((bench.tries().await, bench.breaker().await), (0, Breaker::default()));
}

#[tokio::test]
async fn who_waits_for_a_provider_that_is_left_alone_loses_no_time() {
    let bench = Bench::open().await;
    bench.provider.inside().failures = [FailureClass::Unreachable].into();
    bench.tend().await;
    // It goes on failing for others, and is left alone for longer than a sandbox may take.
    for _ in 0..12 {
        bench.open_breaker().await;
        bench.advance(29);
        bench.sweep().await;
        let head = bench.head().await;
        assert_eq!((head.status, head.activity.outcome), (Status::Creating, None));
    }
    assert_eq!(bench.provider.asked("create"), 1, "it was left alone");
    bench.advance(30);
    bench.sweep().await;
    assert_eq!((bench.stage_of().await, bench.breaker().await.failures), (Making::Started, 0));
}

#[tokio::test]
async fn of_those_who_want_to_see_whether_a_provider_is_back_one_does() {
    let bench = Bench::open().await;
    bench.open_breaker().await;
    bench.advance(30);
    let (store, seen) = (&bench.stage.aws.store, bench.breaker().await);
    assert!(store.keep_breaker(NAME, &seen.probing(bench.now())).await.unwrap());
    assert!(!store.keep_breaker(NAME, &seen.probing(bench.now())).await.unwrap(), "two would have asked");
    let (until, _) = bench.tend().await;
    assert_eq!(
        (until, bench.provider.asked("create")),
        (Some(30), 0),
        "the other waits for what comes of it"
    );
}

#[tokio::test]
async fn what_a_provider_still_makes_is_looked_at_and_not_asked_for_again() {
    let bench = Bench::open().await;
    bench.provider.inside().makes_slowly = true;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let (until, _) = bench.tend().await;
        waits.push(until.unwrap());
        bench.advance(until.unwrap());
    }
    assert_eq!((bench.provider.asked("create"), bench.provider.asked("find")), (1, 11));
    assert!(waits.is_sorted() && waits[0] == 1 && waits[11] > 1, "{waits:?}");
    // It is lost at the provider: only then is there something to ask for.
    bench.provider.inside().there = None;
    bench.tend().await;
    assert_eq!((bench.provider.asked("create"), bench.stage_of().await), (2, Making::Creating));
    // And when it is ready, for what can only be done then.
    bench.provider.inside().makes_slowly = false;
    bench.provider.inside().there = Some((bench.sandbox.clone(), State::Ready));
    bench.advance(10);
    bench.tend().await;
    assert_eq!((bench.provider.asked("create"), bench.stage_of().await), (3, Making::Started));
}

#[tokio::test]
async fn a_sandbox_that_will_not_go_is_looked_at_less_and_less_often_and_by_one() {
    let bench = Bench::open().await;
    bench.tend().await;
    bench.provider.inside().clings = 5;
    // Nobody is kept from removing what a provider has that does not answer to wishes.
    bench.open_breaker().await;
    bench.delete().await;
    for expected in [2, 4, 8, 16, 32] {
        let (until, sent) = bench.tend().await;
        assert_eq!(until, Some(expected));
        assert!(sent > 0, "nobody would come back before the next sweep");
        // Whoever comes by meanwhile changes nothing and asks for nothing.
        assert_eq!(bench.tend().await, (Some(expected), 0));
        bench.advance(expected);
    }
    bench.tend().await;
    assert!(!bench.head().await.needs_reconcile());
    assert_eq!(bench.provider.asked("destroy"), 6);
}

#[tokio::test]
async fn whoever_calls_a_sandbox_off_does_not_wait_for_what_it_waited_for() {
    let bench = Bench::open().await;
    bench.provider.inside().failures = [FailureClass::Busy { retry_after_secs: Some(200) }].into();
    assert_eq!(bench.tend().await.0, Some(200));
    bench.delete().await;
    bench.tend().await;
    assert!(!bench.head().await.needs_reconcile());
}

#[tokio::test]
async fn a_worker_that_ended_without_a_word_is_missed_at_once_and_its_last_lines_are_told() {
    let bench = Bench::open().await;
    bench.tend().await;
    assert_eq!(bench.compare().await.lost, 0);
    bench.provider.inside().ended = Some("The worker ended with code 3.".into());
    assert_eq!(bench.compare().await.lost, 1);
    bench.tend().await;
    let (head, task) = (bench.head().await, bench.task().await);
    assert_eq!((head.status, head.needs_reconcile()), (Status::Failed, false));
    assert_eq!(task.error.as_deref(), Some("The worker ended with code 3."));
    let told = bench.told("sandbox.failed").await;
    assert_eq!(
        (&told["reason"], &told["message"]),
        (&json!("lost"), &json!("The worker ended with code 3."))
    );
    assert_eq!(told["worker_log"], "I had [redacted KEY].\nI am out of memory.");
    assert_eq!(bench.compare().await, app::reconcile::sweep_providers::Outcome::default());
}
