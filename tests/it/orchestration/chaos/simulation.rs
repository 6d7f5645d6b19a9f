//! A deterministic simulation of a plane with several processes, its table, a provider, workers and users. One actor at
//! a time advances by one step, in an order that the seed decides. Time and ids are simulated too, so a seed always
//! produces the same logs.

use super::provider::{FaultyProvider, NAME};
use super::worker::{self, Script};
use crate::harness::keys;
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

pub struct Simulation {
    pub aws: Aws,
    pub org: OrgId,
    pub tasks: Vec<TaskId>,
    pub provider: Arc<FaultyProvider>,
    pub random: StdRng,
    clock: Arc<ManualClock>,
    ids: Arc<SeededIds>,
    feeds: Feeds,
    api: ApiProcess,
    jobs: Vec<String>,
    actors: Vec<Actor>,
    job_error: Arc<Mutex<Option<String>>>,
    _data: TempDir,
}

/// The process that currently serves requests; a restart replaces it.
#[derive(Clone)]
pub struct ApiProcess(Arc<Mutex<Arc<Plane>>>);

impl ApiProcess {
    pub fn plane(&self) -> Arc<Plane> {
        self.0.lock().unwrap().clone()
    }
}

/// A use case in progress. It is dropped, as if its process were killed, after `steps_left` polls.
struct Actor {
    future: Pin<Box<dyn Future<Output = ()>>>,
    steps_left: u32,
    /// For a worker: the sandbox that it runs in.
    sandbox: Option<SandboxId>,
}

pub async fn pause(polls: u32) {
    for _ in 0..polls {
        tokio::task::yield_now().await;
    }
}

impl Simulation {
    pub async fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_767_614_400)));
        let provider = FaultyProvider::new(seed, [5, 20, 50][random.random_range(0..3)]);
        let org = OrgId::parse("acme").unwrap();
        let ids = Arc::new(SeededIds::new(seed));
        let api = ApiProcess(Arc::new(Mutex::new(process(&aws, &clock, &ids, &provider))));
        let mut simulation = Self {
            aws,
            org,
            tasks: Vec::new(),
            provider,
            random,
            clock,
            ids,
            feeds,
            api,
            jobs: Vec::new(),
            actors: Vec::new(),
            job_error: Arc::default(),
            _data: data,
        };
        simulation.create_tasks().await;
        simulation.aws.faults.yield_between_calls(true);
        simulation
    }

    /// Creates one to four tasks; each may depend on the ones before it.
    async fn create_tasks(&mut self) {
        let now = app::Clock::now(self.clock.as_ref());
        let mut tasks: Vec<Task> = Vec::new();
        for index in 0..self.random.random_range(1..=4) {
            let dependencies: Vec<usize> =
                (0..index).filter(|_| self.random.random_range(0..2) == 0).collect();
            for &dependency in &dependencies {
                tasks[dependency].dependents += 1;
            }
            let depends_on: Vec<&TaskId> =
                dependencies.iter().map(|&dependency| &tasks[dependency].id).collect();
            let retries = self.random.random_range(0..=3);
            let (id, project) = (format!("task-{index}"), if index % 2 == 0 { "p-1" } else { "p-2" });
            let fields = json!({"depends_on": depends_on, "unmet": depends_on.len(), "max_retries": retries,
                "project": project});
            tasks.push(task(&id, &self.org, now, fields));
        }
        let mut commit = Commit::new(now);
        for task in tasks {
            self.tasks.push(task.id.clone());
            for dependency in &task.depends_on {
                commit.edges.push(Edge::Add { task: dependency.clone(), dependent: task.id.clone() });
            }
            let transition = task.created(&Default::default(), now);
            commit.tasks.push(change(self.ids.as_ref(), None, transition));
        }
        self.aws.store.commit(commit).await.unwrap();
    }

    /// Performs one random action.
    pub async fn step(&mut self) {
        self.receive();
        match self.random.random_range(0..100) {
            0..70 => self.poll_random_actor().await,
            70..82 => self.deliver(),
            82..86 => self.sweep(),
            86..87 => self.sweep_providers(),
            87..88 => self.user_action(),
            88..94 => {
                let secs = *[0, 1, 1, 2, 5, 20, 70, 200].choose(&mut self.random).unwrap();
                self.advance_time(secs).await;
            }
            94..95 => self.inject_failure(),
            95..97 => drop(self.provider.deliver_delayed()),
            97..98 => self.send_stray_job(),
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

    /// Stops all faults, restarts the processes, and runs until nothing is left to do.
    pub async fn run_to_completion(&mut self) {
        self.provider.set_fault_percent(0);
        self.aws.faults.clear();
        self.actors.retain(|actor| actor.sandbox.is_some());
        self.restart();
        while self.provider.deliver_delayed() {}
        self.job_error.lock().unwrap().take();
        let mut quiet_rounds = 0;
        for _ in 0..400 {
            self.end_workers();
            self.receive();
            let jobs = std::mem::take(&mut self.jobs);
            let no_jobs = jobs.is_empty();
            for job in jobs {
                self.job(job, u32::MAX);
            }
            while self.actors.iter().any(|actor| actor.sandbox.is_none()) {
                let index = self.random.random_range(0..self.actors.len());
                self.poll_actor(index).await;
            }
            // Without faults no job may fail.
            assert_eq!(self.job_error.lock().unwrap().take(), None);
            let working = self.actors.len();
            for index in (0..working).rev() {
                self.poll_actor(index).await;
            }
            let quiet = no_jobs && working == 0 && self.provider.names().is_empty();
            quiet_rounds = if quiet { quiet_rounds + 1 } else { 0 };
            if quiet_rounds > 2 {
                return;
            }
            // If nothing else is pending, skip any backoff and any open breaker.
            self.advance_time(if quiet_rounds > 0 { 700 } else { 15 }).await;
            self.sweep_without_faults();
        }
        self.aws.faults.yield_between_calls(false);
        let sandboxes =
            self.aws.store.sandboxes_of(&store::page::ListScope::All, None, 100).await.unwrap().items;
        let open = sandboxes.iter().filter(|sandbox| sandbox.needs_reconcile());
        let open: Vec<_> =
            open.map(|sandbox| (&sandbox.id, sandbox.status(), &sandbox.activity.provisioning)).collect();
        let tasks = self.aws.store.tasks(&self.tasks).await.unwrap();
        let tasks: Vec<_> =
            tasks.iter().map(|task| (&task.id, task.status, task.attempt, task.retry_count)).collect();
        panic!(
            "The simulation does not finish. At the provider: {:?}. Actors: {}. Next job: {:?}. Tasks: {tasks:?}. Sandboxes: {open:#?}",
            self.provider.names(),
            self.actors.len(),
            self.feeds.jobs.try_recv(),
        );
    }

    fn sweep_without_faults(&mut self) {
        let plane = self.api.plane();
        let sweeps = async move {
            app::reconcile::sweep::run(plane.orchestration().unwrap()).await.unwrap();
            app::reconcile::sweep_providers::run(sweep_providers_deps(&plane)).await.unwrap();
        };
        self.spawn(sweeps, u32::MAX);
    }

    fn receive(&mut self) {
        while let Ok(job) = self.feeds.jobs.try_recv() {
            self.jobs.push(job.body);
        }
        while self.feeds.records.try_recv().is_ok() {}
        for variables in self.provider.take_started() {
            let sandbox = Some(SandboxId::parse(&variables["SANDBOX_ID"]).unwrap());
            let future = Box::pin(worker::run(self.api.clone(), variables, Script::random(&mut self.random)));
            self.actors.push(Actor { future, steps_left: u32::MAX, sandbox });
        }
    }

    async fn poll_random_actor(&mut self) {
        if self.actors.is_empty() {
            return self.deliver();
        }
        let index = self.random.random_range(0..self.actors.len());
        // Several steps at once, or no actor would make progress.
        for _ in 0..self.random.random_range(1..8) {
            if index < self.actors.len() && !self.poll_actor(index).await {
                return;
            }
        }
    }

    /// Advances the plane's clock and Tokio's timers.
    async fn advance_time(&self, secs: u32) {
        self.clock.advance_secs(secs.into());
        tokio::time::advance(Duration::from_secs(secs.into())).await;
    }

    /// Returns whether the actor still exists.
    async fn poll_actor(&mut self, index: usize) -> bool {
        // One millisecond per step, so that short delays, such as the backoff after a conflict, expire.
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

    fn spawn(&mut self, future: impl Future<Output = ()> + 'static, steps_left: u32) {
        self.actors.push(Actor { future: Box::pin(future), steps_left, sandbox: None });
    }

    /// The number of steps until an actor is killed; `u32::MAX` for never.
    fn step_limit(&mut self) -> u32 {
        if self.random.random_range(0..3) == 0 { self.random.random_range(1..60) } else { u32::MAX }
    }

    /// Runs a random job, loses it, or delivers it twice.
    fn deliver(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.jobs.len());
        let job = match self.random.random_range(0..10) {
            0 => self.jobs[index].clone(),
            1 => return drop(self.jobs.swap_remove(index)),
            _ => self.jobs.swap_remove(index),
        };
        let steps = self.step_limit();
        self.job(job, steps);
    }

    fn job(&mut self, job: String, steps: u32) {
        let plane = self.api.plane();
        // Any process may run it.
        let plane = if self.random.random_range(0..2) == 0 {
            plane
        } else {
            process(&self.aws, &self.clock, &self.ids, &self.provider)
        };
        let job_error = self.job_error.clone();
        let run = async move {
            if let Err(error) = edge::jobs::run(&plane, "job-1", &job).await {
                *job_error.lock().unwrap() = Some(format!("{job}: {}", app::error::chain(&error)));
            }
        };
        self.spawn(run, steps);
    }

    fn sweep(&mut self) {
        let (plane, steps) = (self.api.plane(), self.step_limit());
        let sweep = async move {
            let _may_fail = app::reconcile::sweep::run(plane.orchestration().unwrap()).await;
        };
        self.spawn(sweep, steps);
    }

    fn sweep_providers(&mut self) {
        let (plane, steps) = (self.api.plane(), self.step_limit());
        let sweep = async move {
            let _may_fail = app::reconcile::sweep_providers::run(sweep_providers_deps(&plane)).await;
        };
        self.spawn(sweep, steps);
    }

    /// Sends a job that is not due, like a late or repeated delivery.
    fn send_stray_job(&mut self) {
        let job = match self.provider.names().choose(&mut self.random) {
            Some(name) => Job::ReconcileSandbox { sandbox_id: name.clone() },
            None => Job::ReconcileTask { task_id: self.tasks.choose(&mut self.random).unwrap().clone() },
        };
        self.jobs.push(job.encode());
    }

    /// A user cancels, fails or retries a task, or terminates its sandbox.
    fn user_action(&mut self) {
        let (plane, steps) = (self.api.plane(), self.step_limit());
        let task = self.tasks.choose(&mut self.random).unwrap().clone();
        let action = self.random.random_range(0..5);
        let run = async move {
            let Ok(Some(task)) = plane.store.task(&task).await else { return };
            let now = plane.clock.now();
            let transition = match action {
                0 => task.cancel("not needed", now),
                1 => task.mark_failed("does not work", now),
                2 | 3 => task.retry(&Default::default(), now),
                _ => {
                    let Some(sandbox) = task.sandbox else { return };
                    let deps = app::sandboxes::terminate::Deps {
                        messages: plane.message_deps().unwrap(),
                        orchestration_jobs: plane.orchestration_jobs().unwrap(),
                    };
                    let command = app::sandboxes::terminate::Command {
                        principal: Principal::operator("local"),
                        sandbox,
                        reason: "in the way".into(),
                    };
                    let _may_fail = app::sandboxes::terminate::run(deps, command).await;
                    return;
                }
            };
            let Some(transition) = transition else { return };
            let mut commit = Commit::new(now);
            commit.tasks.push(change(plane.ids.as_ref(), Some(&task), transition));
            let _may_fail = plane.store.commit(commit).await;
        };
        self.spawn(run, steps);
    }

    fn inject_failure(&mut self) {
        match self.random.random_range(0..3) {
            0 => self.restart(),
            1 => self.provider.set_fault_percent([0, 10, 60, 100][self.random.random_range(0..4)]),
            _ => {
                if let Some(name) = self.provider.names().choose(&mut self.random) {
                    self.provider.lose(name);
                }
            }
        }
    }

    /// Replaces the process that serves requests; requests in progress in the old one are lost.
    fn restart(&mut self) {
        *self.api.0.lock().unwrap() = process(&self.aws, &self.clock, &self.ids, &self.provider);
    }

    /// Ends most workers whose machine is deleted. The rest have requests that are still in flight.
    fn end_workers(&mut self) {
        let names = self.provider.names();
        let random = &mut self.random;
        self.actors.retain(|actor| match &actor.sandbox {
            Some(sandbox) => names.contains(sandbox) || random.random_range(0..3) == 0,
            None => true,
        });
    }
}

/// A newly started process with empty caches.
fn process(
    aws: &Aws,
    clock: &Arc<ManualClock>,
    ids: &Arc<SeededIds>,
    provider: &Arc<FaultyProvider>,
) -> Arc<Plane> {
    let provider: Arc<dyn SandboxProvider> = provider.clone();
    let orchestration = Orchestration {
        default_provider: NAME.into(),
        limits: Limits { org: 3, project: 2 },
        ..Orchestration::default()
    };
    let settings = Settings { orchestration, ..Settings::default() };
    let mut bindings = aws.bindings();
    bindings.providers = Some(Providers::new([provider]));
    bindings.code_hosts = Some(local::sandboxes::code_hosts(clock.clone()));
    let authenticator = Authenticator::new(&keys(), clock.clone());
    Arc::new(Plane::new(aws.store.clone(), bindings, authenticator, clock.clone(), ids.clone(), settings))
}

/// A task with these fields and defaults for the others.
pub fn task(id: &str, org: &OrgId, now: Timestamp, fields: Value) -> Task {
    let mut task = json!({
        "id": id, "org": org, "task_type": "implement_feature", "title": id, "description": "", "phase": "p",
        "priority": "MEDIUM", "status": "pending", "created_at": now, "updated_at": now, "since": now,
        "max_retries": 3, "version": 0,
    });
    task.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(task).unwrap()
}

/// A task transition, ready to be committed.
pub fn change<'a>(ids: &dyn IdSource, before: Option<&'a Task>, transition: Transition) -> Change<'a, Task> {
    let event = |event: domain::event::LifecycleEvent| NewEvent {
        id: ids.event(),
        event_type: event.event_type,
        source: Source::System,
        data: event.data,
        emitted_at: None,
    };
    Change { before, after: transition.task, events: transition.events.into_iter().map(event).collect() }
}

fn sweep_providers_deps(plane: &Plane) -> app::reconcile::sweep_providers::Deps<'_> {
    let (base, providers) = (plane.orchestration().unwrap(), plane.providers().unwrap());
    app::reconcile::sweep_providers::Deps { base, providers }
}
