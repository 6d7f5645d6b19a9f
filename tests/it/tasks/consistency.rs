//! Counters (unmet dependencies, dependents, queue places, running slots) agree with the stored items under concurrent
//! requests.

use super::{TaskApi, acme, call, task_id};
use crate::support::OPERATOR;
use app::Clock;
use contract::jobs::Job;
use domain::task::Status;
use domain::{ProjectId, SandboxId, Task, TaskId};
use edge::Plane;
use futures_util::future::join_all;
use kit::seed::{self, Seed};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use store::page::ListScope;

/// Recomputes all counters of acme from the stored tasks and edges, and compares them. Returns the tasks.
pub async fn check_counters(api: &TaskApi) -> BTreeMap<TaskId, Task> {
    let (store, tasks) = (&api.harness.aws.store, every_task(api).await);
    let mut edges_to: BTreeMap<&TaskId, u32> = BTreeMap::new();
    for task in tasks.values() {
        let edges: BTreeSet<TaskId> = store.dependents(&task.id, 10_000).await.unwrap().into_iter().collect();
        let waiting = tasks.values().filter(|other| other.depends_on.contains(&task.id));
        let waiting: BTreeSet<TaskId> = waiting.map(|other| other.id.clone()).collect();
        if task.status == Status::Completed {
            assert!(edges.is_subset(&waiting), "{}: an edge to a task that is not a dependent", task.id);
            assert!(
                task.dependents > 0 || edges.is_empty(),
                "{} has edges left after its dependents were unblocked: {edges:?}",
                task.id
            );
        } else {
            assert_eq!(edges, waiting, "the edges of {}", task.id);
            assert_eq!(task.dependents as usize, edges.len(), "dependents of {}", task.id);
        }
        for dependent in edges {
            *edges_to.entry(tasks.get_key_value(&dependent).unwrap().0).or_default() += 1;
        }
    }
    let now = api.harness.clock.now();
    for task in tasks.values() {
        assert_eq!(task.unmet, edges_to.get(&task.id).copied().unwrap_or(0), "unmet of {}", task.id);
        let is_ready = task.status == Status::Pending && task.unmet == 0;
        let is_delayed = task.not_before.is_some_and(|when| when > now);
        assert_eq!(task.place.is_some(), is_ready && !is_delayed, "the place of {}: {task:?}", task.id);
    }
    let placed: Vec<&Task> = tasks.values().filter(|task| task.place.is_some()).collect();
    check_queue(api, &placed).await;
    check_slots(api, tasks.values()).await;
    tasks
}

async fn every_task(api: &TaskApi) -> BTreeMap<TaskId, Task> {
    let (mut tasks, mut from) = (BTreeMap::new(), None);
    loop {
        let page = api.harness.aws.store.tasks_of(&ListScope::Org(acme()), from.as_ref(), 100).await.unwrap();
        tasks.extend(page.items.into_iter().map(|task| (task.id.clone(), task)));
        from = page.next;
        if from.is_none() {
            return tasks;
        }
    }
}

/// The queue holds each task with a place exactly once; the deadline index holds those with a deadline.
async fn check_queue(api: &TaskApi, placed: &[&Task]) {
    let store = &api.harness.aws.store;
    let sorted = |mut ids: Vec<TaskId>| {
        ids.sort();
        ids
    };
    let queue = store.candidates(&acme(), None, 10_000).await.unwrap().items;
    let queue = sorted(queue.into_iter().map(|ready| ready.id).collect());
    assert_eq!(queue, sorted(placed.iter().map(|task| task.id.clone()).collect()), "queue places");
    let far_future = api.harness.clock.now().plus_secs(1_000_000_000);
    let due = store.due_candidates(&acme(), None, far_future, 10_000).await.unwrap().items;
    let due = sorted(due.into_iter().map(|ready| ready.id).collect());
    let with_deadline = placed.iter().filter(|task| task.deadline_at.is_some());
    assert_eq!(due, sorted(with_deadline.map(|task| task.id.clone()).collect()), "deadline index");
}

async fn check_slots(api: &TaskApi, tasks: impl Iterator<Item = &Task>) {
    let slots = api.harness.aws.store.slots(&acme()).await.unwrap();
    let (mut running, mut projects) = (0, HashMap::<ProjectId, u32>::new());
    for task in tasks.filter(|task| task.status.is_active()) {
        running += 1;
        if let Some(project) = &task.project {
            *projects.entry(project.clone()).or_default() += 1;
        }
    }
    assert_eq!(slots.running, running, "slots");
    let used = slots.projects.into_iter().filter(|(_, count)| *count > 0);
    assert_eq!(used.collect::<HashMap<_, _>>(), projects, "slots of projects");
}

/// Number of concurrent clients.
const CLIENTS: u64 = 6;
/// Requests of each client.
const STEPS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_stay_consistent_under_concurrent_requests() {
    let (seed, api) = (Seed::or(0), TaskApi::open().await);
    let (clients, known) = clients(&api, seed.value);
    for client in join_all(clients.into_iter().map(|client| tokio::spawn(client.run()))).await {
        client.unwrap();
    }
    check(&api, &known).await;
}

/// On one thread, one table call at a time, in an order that the seed decides.
#[tokio::test(start_paused = true)]
async fn interleaved_requests_keep_counters_consistent_and_deterministic() {
    let mut seen = Vec::new();
    seed::each(0..2, async |seed| {
        let (first, second) = (run_interleaved(seed).await, run_interleaved(seed).await);
        assert_eq!(first, second);
        assert!(!seen.contains(&first), "two seeds gave the same tasks");
        seen.push(first);
    })
    .await;
}

/// Returns all tasks and their logs.
async fn run_interleaved(seed: u64) -> Vec<String> {
    let (api, mut random) = (TaskApi::open().await, StdRng::seed_from_u64(seed));
    let (clients, known) = clients(&api, seed);
    let mut running: Vec<_> = clients.into_iter().map(|client| Box::pin(client.run())).collect();
    api.harness.aws.faults.yield_between_calls(true);
    while !running.is_empty() {
        tokio::time::advance(Duration::from_millis(1)).await;
        let index = random.random_range(0..running.len());
        let client = &mut running[index];
        if poll_fn(|context| Poll::Ready(client.as_mut().poll(context))).await.is_ready() {
            drop(running.swap_remove(index));
        }
    }
    api.harness.aws.faults.yield_between_calls(false);
    let (tasks, mut lines) = (check(&api, &known).await, Vec::new());
    check_coverage(&tasks);
    for (id, task) in tasks {
        lines.push(format!("{task:?}"));
        lines.push(api.get(&format!("/tasks/{id}/events?order=oldest&limit=500")).await.to_string());
    }
    lines
}

/// The clients share the ids of all created tasks.
fn clients(api: &TaskApi, seed: u64) -> (Vec<RandomClient>, Arc<Mutex<Vec<String>>>) {
    let known: Arc<Mutex<Vec<String>>> = Arc::default();
    let client = |number| {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(CLIENTS).wrapping_add(number));
        RandomClient { number, plane: api.plane.clone(), known: known.clone(), random }
    };
    ((0..CLIENTS).map(client).collect(), known)
}

/// Runs the pending work, then checks all counters. Returns the tasks.
async fn check(api: &TaskApi, known: &Mutex<Vec<String>>) -> BTreeMap<TaskId, Task> {
    // The reconcile jobs that the requests sent.
    let ids = known.lock().unwrap().clone();
    for id in &ids {
        api.run_job(&Job::ReconcileTask { task_id: task_id(id) }).await;
    }
    let tasks = check_counters(api).await;
    assert_eq!(tasks.len(), ids.len());
    check_acyclic(&tasks);
    assert!(tasks.values().filter(|task| task.status == Status::Completed).all(|task| task.dependents == 0));
    tasks
}

/// The requests led to every kind of end, and to tasks that wait for others. Only for runs that repeat exactly: with
/// threads, it depends on their timing.
fn check_coverage(tasks: &BTreeMap<TaskId, Task>) {
    let count = |status: Status| tasks.values().filter(|task| task.status == status).count();
    let counts = [Status::Completed, Status::Cancelled, Status::Failed].map(count);
    assert!(counts.iter().all(|count| *count > 0), "the run covers too little: {counts:?}");
    assert!(tasks.values().any(|task| task.unmet > 0), "no task is blocked");
}

/// The unfinished tasks have a topological order.
fn check_acyclic(tasks: &BTreeMap<TaskId, Task>) {
    let mut left: BTreeMap<&TaskId, &Task> =
        tasks.iter().filter(|(_, task)| task.status != Status::Completed).collect();
    while !left.is_empty() {
        let is_blocked = |task: &Task| task.depends_on.iter().any(|id| left.contains_key(id));
        let free: Vec<&TaskId> =
            left.iter().filter(|(_, task)| !is_blocked(task)).map(|(id, _)| *id).collect();
        assert!(!free.is_empty(), "dependency cycle among {:?}", left.keys());
        left.retain(|id, _| !free.contains(id));
    }
}

/// Sends random requests.
struct RandomClient {
    number: u64,
    plane: Arc<Plane>,
    known: Arc<Mutex<Vec<String>>>,
    random: StdRng,
}

impl RandomClient {
    async fn run(mut self) {
        for step in 0..STEPS {
            self.step(step).await;
        }
    }

    async fn step(&mut self, step: usize) {
        let id = self.random_id();
        let (action, path) = (self.random.random_range(0..12), format!("/tasks/{id}"));
        match action {
            _ if step < 3 => self.create(step).await,
            0 | 1 => self.create(step).await,
            2 | 3 => {
                let depends_on = self.random_ids();
                self.call("POST", &format!("{path}/dependencies"), json!({"depends_on": depends_on})).await;
            }
            4 => {
                let depends_on = self.random_ids();
                self.call("PUT", &format!("{path}/dependencies"), json!({"depends_on": depends_on})).await;
            }
            5 => {
                let dependency = self.random_id();
                self.call("DELETE", &format!("{path}/dependencies/{dependency}"), Value::Null).await;
            }
            6 => self.end(&path, "cancel").await,
            7 => self.end(&path, "fail").await,
            8 => {
                let urgent = json!({"priority": "CRITICAL", "deadline_at": "2026-01-05T13:00:00Z"});
                self.call("PATCH", &path, urgent).await;
            }
            _ => self.report().await,
        }
    }

    async fn create(&mut self, step: usize) {
        let (id, depends_on) = (format!("t-{}-{step}", self.number), self.random_ids());
        let project = ["p-1", "p-2"].choose(&mut self.random);
        let body = json!({
            "task_id": id, "title": id, "org": "acme", "depends_on": depends_on, "project_id": project, "max_retries": 1,
        });
        assert_eq!(self.call("POST", "/tasks", body).await.0, 201, "{id}");
        self.known.lock().unwrap().push(id);
    }

    /// Cancels or fails a task, and often retries it.
    async fn end(&mut self, path: &str, verb: &str) {
        self.call("POST", &format!("{path}/{verb}"), json!({})).await;
        if self.random.random_bool(0.7) {
            self.call("POST", &format!("{path}/retry"), json!({})).await;
        }
    }

    /// Claims ready tasks, then reports the outcome of a random active one.
    async fn report(&mut self) {
        app::tasks::dispatch::run(self.plane.orchestration().unwrap(), acme()).await.unwrap();
        let (_, page) =
            self.call("GET", "/tasks?org=acme&status=claiming,assigned,running", Value::Null).await;
        let Some(task) = page["tasks"].as_array().unwrap().choose(&mut self.random).cloned() else { return };
        let error = ["the model is away (503)", "permission denied"].choose(&mut self.random);
        let body =
            json!({"task_id": task["id"], "success": self.random.random_bool(0.7), "error_message": error});
        let sandbox = task["sandbox_id"].as_str().unwrap();
        let provision = Job::ReconcileSandbox { sandbox_id: SandboxId::parse(sandbox).unwrap() };
        edge::jobs::run(&self.plane, "job-1", &provision.encode()).await.unwrap();
        self.call("POST", &format!("/sandboxes/{sandbox}/task-complete"), body).await;
    }

    fn random_id(&mut self) -> String {
        self.known.lock().unwrap().choose(&mut self.random).cloned().unwrap_or_else(|| "missing".to_owned())
    }

    fn random_ids(&mut self) -> Vec<String> {
        let (known, count) = (self.known.lock().unwrap(), self.random.random_range(0..3));
        known.choose_multiple(&mut self.random, count).cloned().collect()
    }

    /// Any request may be rejected, but never with a server error.
    async fn call(&self, method: &str, path: &str, body: Value) -> (u64, Value) {
        let body = Some(body).filter(|body| !body.is_null());
        let (status, answer) = call(&self.plane, OPERATOR, method, path, body).await;
        assert!(status < 500, "{method} {path}: {answer}");
        (status, answer)
    }
}
