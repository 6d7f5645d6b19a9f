//! A plane of several processes, its table, a provider, workers and users, all of which are moved by hand: one step of
//! one of them at a time, in an order that a seed decides. Time and ids are the world's own as well, so a seed always
//! leads to the same logs.

use super::provider::{Fake, NAME};
use super::worker::{self, Script};
use crate::stage::keys;
use app::IdSource;
use app::clock::ManualClock;
use app::ids::SeededIds;
use app::orchestration::{Orchestration, Providers};
use contract::jobs::Job;
use domain::access::Principal;
use domain::ingest::NewEvent;
use domain::task::transitions::Transition;
use domain::{OrgId, SandboxId, Source, Task, TaskId, Timestamp};
use edge::auth::Authenticator;
use edge::{Plane, Settings};
use local::aws::{Aws, Durability, Fault, Feeds};
use providers::SandboxProvider;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use store::commit::{Change, Commit, Edge, Limits};
use tempfile::TempDir;

pub struct World {
    pub aws: Aws,
    pub org: OrgId,
    pub tasks: Vec<TaskId>,
    pub fake: Arc<Fake>,
    pub random: StdRng,
    clock: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    feeds: Feeds,
    entrance: Entrance,
    mail: Vec<String>,
    actors: Vec<Actor>,
    /// Why the last job failed.
    failed: Arc<Mutex<Option<String>>>,
    _data: TempDir,
}

/// A process that takes requests.
#[derive(Clone)]
pub struct Entrance(Arc<Mutex<Arc<Plane>>>);

impl Entrance {
    pub fn plane(&self) -> Arc<Plane> {
        self.0.lock().unwrap().clone()
    }
}

/// Somebody who does something, and is killed after so many steps.
struct Actor {
    future: Pin<Box<dyn Future<Output = ()>>>,
    steps_left: u32,
    /// The sandbox that it is in.
    inside: Option<SandboxId>,
}

pub async fn pause(moments: u32) {
    for _ in 0..moments {
        tokio::task::yield_now().await;
    }
}

impl World {
    pub async fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_767_614_400)));
        let fake = Fake::new(seed, [5, 20, 50][random.random_range(0..3)]);
        let org = OrgId::parse("acme").unwrap();
        let ids = Arc::new(SeededIds::new(seed));
        let entrance = Entrance(Arc::new(Mutex::new(process(&aws, &clock, &ids, &fake))));
        let mut world = Self {
            aws,
            org,
            tasks: Vec::new(),
            fake,
            random,
            clock,
            ids,
            feeds,
            entrance,
            mail: Vec::new(),
            actors: Vec::new(),
            failed: Arc::default(),
            _data: data,
        };
        world.create_tasks().await;
        world.aws.faults.give_way(true);
        world
    }

    /// One to four tasks; each may wait for those before it.
    async fn create_tasks(&mut self) {
        let now = app::Clock::now(self.clock.as_ref());
        let mut tasks: Vec<Task> = Vec::new();
        for index in 0..self.random.random_range(1..=4) {
            let before: Vec<usize> = (0..index).filter(|_| self.random.random_range(0..2) == 0).collect();
            for &other in &before {
                tasks[other].dependents += 1;
            }
            let depends_on: Vec<&TaskId> = before.iter().map(|&other| &tasks[other].id).collect();
            let retries = self.random.random_range(0..=3);
            let (id, project) = (format!("task-{index}"), if index % 2 == 0 { "p-1" } else { "p-2" });
            let fields = json!({"depends_on": depends_on, "unmet": depends_on.len(), "max_retries": retries,
                "project": project});
            tasks.push(task(&id, &self.org, now, fields));
        }
        let mut commit = Commit::new(now);
        for task in tasks {
            self.tasks.push(task.id.clone());
            for before in &task.depends_on {
                commit.edges.push(Edge::Add { task: before.clone(), waits: task.id.clone() });
            }
            let moved = task.created(&Default::default(), now);
            commit.tasks.push(change(self.ids.as_ref(), None, moved));
        }
        self.aws.store.commit(commit).await.unwrap();
    }

    /// Something happens somewhere.
    pub async fn step(&mut self) {
        self.receive();
        match self.random.random_range(0..100) {
            0..70 => self.move_somebody().await,
            70..82 => self.deliver(),
            82..86 => self.sweep(),
            86..87 => self.compare(),
            87..88 => self.user(),
            88..94 => {
                let secs = *[0, 1, 1, 2, 5, 20, 70, 200].choose(&mut self.random).unwrap();
                self.pass(secs).await;
            }
            94..95 => self.break_something(),
            95..97 => drop(self.fake.deliver_late()),
            97..98 => self.ask_again(),
            98..99 => self.end_workers(),
            _ => {
                let fault =
                    *[Fault::TransactionConflict, Fault::Throttled, Fault::ServerError, Fault::Unreachable]
                        .choose(&mut self.random)
                        .unwrap();
                let operation = *["TransactWriteItems", "TransactWriteItems", "GetItem", "Query", "PutItem"]
                    .choose(&mut self.random)
                    .unwrap();
                self.aws.faults.inject(operation, fault);
            }
        }
    }

    /// No more trouble, from now on: the processes are started anew, and do what they do until nothing is left to do.
    pub async fn calm_down(&mut self) {
        self.fake.set_trouble(0);
        self.aws.faults.clear();
        self.actors.retain(|actor| actor.inside.is_some());
        self.restart();
        while self.fake.deliver_late() {}
        self.failed.lock().unwrap().take();
        let mut calm = 0;
        for _ in 0..400 {
            self.end_workers();
            self.receive();
            let mail = std::mem::take(&mut self.mail);
            let quiet = mail.is_empty();
            for job in mail {
                self.job(job, u32::MAX);
            }
            while self.actors.iter().any(|actor| actor.inside.is_none()) {
                let index = self.random.random_range(0..self.actors.len());
                self.move_one(index).await;
            }
            // In a calm world there is nothing to fail of.
            assert_eq!(self.failed.lock().unwrap().take(), None);
            let working = self.actors.len();
            for index in (0..working).rev() {
                self.move_one(index).await;
            }
            calm = if quiet && working == 0 && self.fake.names().is_empty() { calm + 1 } else { 0 };
            if calm > 2 {
                return;
            }
            // Longer than any backoff and any open breaker, when there is nothing else to wait for.
            self.pass(if calm > 0 { 700 } else { 15 }).await;
            self.sweep_steadily();
        }
        self.aws.faults.give_way(false);
        let heads =
            self.aws.store.sandboxes_of(&store::sandboxes::Whose::All, None, 100).await.unwrap().heads;
        let open = heads.iter().filter(|head| head.needs_reconcile());
        let open: Vec<_> = open.map(|head| (&head.id, head.status, &head.activity.spawn)).collect();
        let tasks = self.aws.store.tasks(&self.tasks).await.unwrap();
        let tasks: Vec<_> =
            tasks.iter().map(|task| (&task.id, task.status, task.attempt, task.retry_count)).collect();
        panic!(
            "It never comes to rest. At the provider: {:?}. At work: {}. Mail: {:?}. Tasks: {tasks:?}. Sandboxes: {open:#?}",
            self.fake.names(),
            self.actors.len(),
            self.feeds.jobs.try_recv(),
        );
    }

    fn sweep_steadily(&mut self) {
        let plane = self.entrance.plane();
        let look = async move {
            app::reconcile::sweep::run(plane.orchestration().unwrap()).await.unwrap();
            app::reconcile::sweep_providers::run(compare(&plane)).await.unwrap();
        };
        self.act(look, u32::MAX);
    }

    fn receive(&mut self) {
        while let Ok(job) = self.feeds.jobs.try_recv() {
            self.mail.push(job);
        }
        while self.feeds.records.try_recv().is_ok() {}
        for variables in self.fake.take_started() {
            let inside = Some(SandboxId::parse(&variables["SANDBOX_ID"]).unwrap());
            let future =
                Box::pin(worker::run(self.entrance.clone(), variables, Script::random(&mut self.random)));
            self.actors.push(Actor { future, steps_left: u32::MAX, inside });
        }
    }

    async fn move_somebody(&mut self) {
        if self.actors.is_empty() {
            return self.deliver();
        }
        let index = self.random.random_range(0..self.actors.len());
        // Many steps at once as well, or nothing would ever get far.
        for _ in 0..self.random.random_range(1..8) {
            if index < self.actors.len() && !self.move_one(index).await {
                return;
            }
        }
    }

    /// Time passes: on the plane's clock, and for what waits.
    async fn pass(&self, secs: u32) {
        self.clock.advance_secs(secs.into());
        tokio::time::advance(Duration::from_secs(secs.into())).await;
    }

    /// Whether it is still there.
    async fn move_one(&mut self, index: usize) -> bool {
        // So that pauses of milliseconds, after a lost race for instance, end after as many steps.
        tokio::time::advance(Duration::from_millis(1)).await;
        let actor = &mut self.actors[index];
        let polled = std::future::poll_fn(|context| Poll::Ready(actor.future.as_mut().poll(context))).await;
        actor.steps_left -= 1;
        if polled.is_ready() || actor.steps_left == 0 {
            self.actors.swap_remove(index);
            return false;
        }
        true
    }

    fn act(&mut self, future: impl Future<Output = ()> + 'static, steps_left: u32) {
        self.actors.push(Actor { future: Box::pin(future), steps_left, inside: None });
    }

    /// After how many steps it is killed, if it is.
    fn fate(&mut self) -> u32 {
        if self.random.random_range(0..3) == 0 { self.random.random_range(1..60) } else { u32::MAX }
    }

    /// A job is done; or is lost, or will come again.
    fn deliver(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.mail.len());
        let job = match self.random.random_range(0..10) {
            0 => self.mail[index].clone(),
            1 => return drop(self.mail.swap_remove(index)),
            _ => self.mail.swap_remove(index),
        };
        let steps = self.fate();
        self.job(job, steps);
    }

    fn job(&mut self, job: String, steps: u32) {
        let plane = self.entrance.plane();
        // Another process may do it as well.
        let plane = if self.random.random_range(0..2) == 0 {
            plane
        } else {
            process(&self.aws, &self.clock, &self.ids, &self.fake)
        };
        let failed = self.failed.clone();
        let run = async move {
            if let Err(error) = edge::jobs::run(&plane, &job).await {
                *failed.lock().unwrap() = Some(format!("{job}: {}", app::error::chain(&error)));
            }
        };
        self.act(run, steps);
    }

    fn sweep(&mut self) {
        let (plane, steps) = (self.entrance.plane(), self.fate());
        let sweep = async move {
            let _may_fail = app::reconcile::sweep::run(plane.orchestration().unwrap()).await;
        };
        self.act(sweep, steps);
    }

    fn compare(&mut self) {
        let (plane, steps) = (self.entrance.plane(), self.fate());
        let compare = async move {
            let _may_fail = app::reconcile::sweep_providers::run(compare(&plane)).await;
        };
        self.act(compare, steps);
    }

    /// A job comes that nobody asks for now: one that was late, or came before.
    fn ask_again(&mut self) {
        let job = match self.fake.names().choose(&mut self.random) {
            Some(name) => Job::ReconcileSandbox { sandbox_id: name.clone() },
            None => Job::ReconcileTask { task_id: self.tasks.choose(&mut self.random).unwrap().clone() },
        };
        self.mail.push(job.encode());
    }

    /// Somebody calls a task off, wants it again, or takes a sandbox away.
    fn user(&mut self) {
        let (plane, steps) = (self.entrance.plane(), self.fate());
        let task = self.tasks.choose(&mut self.random).unwrap().clone();
        let wish = self.random.random_range(0..5);
        let act = async move {
            let Ok(Some(task)) = plane.store.task(&task).await else { return };
            let now = plane.clock.now();
            let moved = match wish {
                0 => task.cancel("not wanted", now),
                1 => task.give_up("does not work", now),
                2 | 3 => task.retry(&Default::default(), now),
                _ => {
                    let Some(sandbox) = task.sandbox else { return };
                    let deps = app::sandboxes::terminate::Deps {
                        steering: plane.steering().unwrap(),
                        work: plane.work().unwrap(),
                    };
                    let command = app::sandboxes::terminate::Command {
                        principal: Principal::Operator,
                        sandbox,
                        reason: "in the way".into(),
                    };
                    let _may_fail = app::sandboxes::terminate::run(deps, command).await;
                    return;
                }
            };
            let Some(moved) = moved else { return };
            let mut commit = Commit::new(now);
            commit.tasks.push(change(plane.ids.as_ref(), Some(&task), moved));
            let _may_fail = plane.store.commit(commit).await;
        };
        self.act(act, steps);
    }

    fn break_something(&mut self) {
        match self.random.random_range(0..3) {
            0 => self.restart(),
            1 => self.fake.set_trouble([0, 10, 60, 100][self.random.random_range(0..4)]),
            _ => {
                if let Some(name) = self.fake.names().choose(&mut self.random) {
                    self.fake.lose(name);
                }
            }
        }
    }

    /// The process that takes requests dies, with all that is underway in it, and another takes its place.
    fn restart(&mut self) {
        *self.entrance.0.lock().unwrap() = process(&self.aws, &self.clock, &self.ids, &self.fake);
    }

    /// Workers end with their machine, most of them. What others have sent may still be on its way.
    fn end_workers(&mut self) {
        let names = self.fake.names();
        let random = &mut self.random;
        self.actors.retain(|actor| match &actor.inside {
            Some(inside) => names.contains(inside) || random.random_range(0..3) == 0,
            None => true,
        });
    }
}

/// A process that has just started.
fn process(aws: &Aws, clock: &Arc<ManualClock>, ids: &Arc<SeededIds>, fake: &Arc<Fake>) -> Arc<Plane> {
    let provider: Arc<dyn SandboxProvider> = fake.clone();
    let orchestration = Orchestration {
        default_provider: NAME.into(),
        limits: Limits { org: 3, project: 2 },
        ..Orchestration::default()
    };
    let settings = Settings { orchestration, ..Settings::default() };
    let mut reach = aws.bindings();
    reach.providers = Some(Providers::new([provider]));
    let authenticator = Authenticator::new(&keys(), clock.clone());
    Arc::new(Plane::new(aws.store.clone(), reach, authenticator, clock.clone(), ids.clone(), settings))
}

/// A task with these fields, and usual ones.
pub fn task(id: &str, org: &OrgId, now: Timestamp, fields: Value) -> Task {
    let mut task = json!({
        "id": id, "org": org, "task_type": "implement_feature", "title": id, "description": "", "phase": "p",
        "priority": "MEDIUM", "status": "pending", "created_at": now, "updated_at": now, "since": now,
        "max_retries": 3, "version": 0,
    });
    task.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(task).unwrap()
}

/// A task's move, ready to be written.
pub fn change<'a>(ids: &dyn IdSource, before: Option<&'a Task>, moved: Transition) -> Change<'a, Task> {
    let event = |told: domain::task::transitions::LifecycleEvent| NewEvent {
        id: ids.event(),
        event_type: told.event_type,
        source: Source::System,
        data: told.data,
        emitted_at: None,
    };
    Change { before, after: moved.task, events: moved.events.into_iter().map(event).collect() }
}

fn compare(plane: &Plane) -> app::reconcile::sweep_providers::Deps<'_> {
    let (orchestration, providers) = (plane.orchestration().unwrap(), plane.providers().unwrap());
    app::reconcile::sweep_providers::Deps { orchestration, providers }
}
