//! What is counted (what a task waits for, who waits for it, places in the queue, slots) agrees with what is there,
//! whoever asks for what at the same time.

use super::{Desk, acme, ask, task_id};
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
use store::sandboxes::Whose;

/// Counts everything again from what the table has, for all tasks of acme.
pub async fn recount(desk: &Desk) -> BTreeMap<TaskId, Task> {
    let (store, tasks) = (&desk.stage.aws.store, every_task(desk).await);
    let mut edges_to: BTreeMap<&TaskId, u32> = BTreeMap::new();
    for task in tasks.values() {
        let edges: BTreeSet<TaskId> = store.dependants(&task.id, 10_000).await.unwrap().into_iter().collect();
        let waiting = tasks.values().filter(|other| other.depends_on.contains(&task.id));
        let waiting: BTreeSet<TaskId> = waiting.map(|other| other.id.clone()).collect();
        if task.status == Status::Completed {
            assert!(edges.is_subset(&waiting), "{}: an edge to somebody who does not wait", task.id);
            assert!(
                task.dependents > 0 || edges.is_empty(),
                "{} says that all were told: {edges:?}",
                task.id
            );
        } else {
            assert_eq!(edges, waiting, "the edges of {}", task.id);
            assert_eq!(task.dependents as usize, edges.len(), "dependents of {}", task.id);
        }
        for waits in edges {
            *edges_to.entry(tasks.get_key_value(&waits).unwrap().0).or_default() += 1;
        }
    }
    let now = desk.stage.clock.now();
    for task in tasks.values() {
        assert_eq!(task.unmet, edges_to.get(&task.id).copied().unwrap_or(0), "unmet of {}", task.id);
        let is_ready = task.status == Status::Pending && task.unmet == 0;
        let waits = task.not_before.is_some_and(|when| when > now);
        assert_eq!(task.place.is_some(), is_ready && !waits, "the place of {}: {task:?}", task.id);
    }
    let placed: Vec<&Task> = tasks.values().filter(|task| task.place.is_some()).collect();
    check_queue(desk, &placed).await;
    check_slots(desk, tasks.values()).await;
    tasks
}

async fn every_task(desk: &Desk) -> BTreeMap<TaskId, Task> {
    let (mut tasks, mut from) = (BTreeMap::new(), None);
    loop {
        let page = desk.stage.aws.store.tasks_of(&Whose::Org(acme()), from, 100).await.unwrap();
        tasks.extend(page.items.into_iter().map(|task| (task.id.clone(), task)));
        from = page.next;
        if from.is_none() {
            return tasks;
        }
    }
}

/// Each that has a place stands in the queue once, and nobody else does; those with a deadline a second time.
async fn check_queue(desk: &Desk, placed: &[&Task]) {
    let store = &desk.stage.aws.store;
    let sorted = |mut ids: Vec<TaskId>| {
        ids.sort();
        ids
    };
    let queue = store.candidates(&acme(), None, 10_000).await.unwrap().candidates;
    let queue = sorted(queue.into_iter().map(|ready| ready.id).collect());
    assert_eq!(queue, sorted(placed.iter().map(|task| task.id.clone()).collect()), "places in the queue");
    let far = desk.stage.clock.now().plus_secs(1_000_000_000);
    let due = store.due_candidates(&acme(), None, far, 10_000).await.unwrap().candidates;
    let due = sorted(due.into_iter().map(|ready| ready.id).collect());
    let with_deadline = placed.iter().filter(|task| task.deadline_at.is_some());
    assert_eq!(due, sorted(with_deadline.map(|task| task.id.clone()).collect()), "places by deadline");
}

async fn check_slots(desk: &Desk, tasks: impl Iterator<Item = &Task>) {
    let slots = desk.stage.aws.store.slots(&acme()).await.unwrap();
    let (mut running, mut projects) = (0, HashMap::<ProjectId, u32>::new());
    for task in tasks.filter(|task| task.status.is_active()) {
        running += 1;
        if let Some(project) = &task.project {
            *projects.entry(project.clone()).or_default() += 1;
        }
    }
    assert_eq!(slots.running, running, "slots");
    let taken = slots.projects.into_iter().filter(|(_, count)| *count > 0);
    assert_eq!(taken.collect::<HashMap<_, _>>(), projects, "slots of projects");
}

/// How many ask at once, and how often each.
const ACTORS: u64 = 6;
const STEPS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_counted_stays_right_whatever_is_asked_at_once() {
    let (seed, desk) = (Seed::or(0), Desk::open().await);
    let (actors, known) = actors(&desk, seed.value);
    for actor in join_all(actors.into_iter().map(|actor| tokio::spawn(actor.act_often()))).await {
        actor.unwrap();
    }
    check(&desk, &known).await;
}

/// The same in one thread, one call to the table at a time, in an order that the seed decides.
#[tokio::test(start_paused = true)]
async fn what_is_counted_stays_right_in_every_order_and_one_seed_gives_the_same_tasks_every_time() {
    let mut seen = Vec::new();
    seed::each(0..2, async |seed| {
        let (first, second) = (in_order_of(seed).await, in_order_of(seed).await);
        assert_eq!(first, second);
        assert!(!seen.contains(&first), "another seed gave the same");
        seen.push(first);
    })
    .await;
}

/// All tasks afterwards, and their logs.
async fn in_order_of(seed: u64) -> Vec<String> {
    let (desk, mut random) = (Desk::open().await, StdRng::seed_from_u64(seed));
    let (actors, known) = actors(&desk, seed);
    let mut acting: Vec<_> = actors.into_iter().map(|actor| Box::pin(actor.act_often())).collect();
    desk.stage.aws.faults.give_way(true);
    while !acting.is_empty() {
        tokio::time::advance(Duration::from_millis(1)).await;
        let index = random.random_range(0..acting.len());
        let one = &mut acting[index];
        if poll_fn(|context| Poll::Ready(one.as_mut().poll(context))).await.is_ready() {
            drop(acting.swap_remove(index));
        }
    }
    desk.stage.aws.faults.give_way(false);
    let mut written = Vec::new();
    for (id, task) in check(&desk, &known).await {
        written.push(format!("{task:?}"));
        written.push(desk.get(&format!("/tasks/{id}/events?order=oldest&limit=500")).await.to_string());
    }
    written
}

/// They share what they know of each other's tasks.
fn actors(desk: &Desk, seed: u64) -> (Vec<Actor>, Arc<Mutex<Vec<String>>>) {
    let known: Arc<Mutex<Vec<String>>> = Arc::default();
    let actor = |number| {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(ACTORS).wrapping_add(number));
        Actor { number, plane: desk.plane.clone(), known: known.clone(), random }
    };
    ((0..ACTORS).map(actor).collect(), known)
}

/// Counts everything again, after all that was asked; the tasks.
async fn check(desk: &Desk, known: &Mutex<Vec<String>>) -> BTreeMap<TaskId, Task> {
    // What follows from it was asked for; here it is done.
    let names = known.lock().unwrap().clone();
    for id in &names {
        desk.work(&Job::ReconcileTask { task_id: task_id(id) }).await;
    }
    let tasks = recount(desk).await;
    assert_eq!(tasks.len(), names.len());
    let count = |status: Status| tasks.values().filter(|task| task.status == status).count();
    let happened = [Status::Completed, Status::Cancelled, Status::Failed].map(count);
    assert!(happened.iter().all(|count| *count > 0), "too little happened: {happened:?}");
    assert!(tasks.values().any(|task| task.unmet > 0), "nobody waits for anybody");
    check_order(&tasks);
    assert!(tasks.values().filter(|task| task.status == Status::Completed).all(|task| task.dependents == 0));
    tasks
}

/// Whatever is not completed can be done one after the other: nobody waits for themselves.
fn check_order(tasks: &BTreeMap<TaskId, Task>) {
    let mut left: BTreeMap<&TaskId, &Task> =
        tasks.iter().filter(|(_, task)| task.status != Status::Completed).collect();
    while !left.is_empty() {
        let waits = |task: &Task| task.depends_on.iter().any(|id| left.contains_key(id));
        let free: Vec<&TaskId> = left.iter().filter(|(_, task)| !waits(task)).map(|(id, _)| *id).collect();
        assert!(!free.is_empty(), "all of these wait for each other: {:?}", left.keys());
        left.retain(|id, _| !free.contains(id));
    }
}

struct Actor {
    number: u64,
    plane: Arc<Plane>,
    known: Arc<Mutex<Vec<String>>>,
    random: StdRng,
}

impl Actor {
    async fn act_often(mut self) {
        for step in 0..STEPS {
            self.act(step).await;
        }
    }

    async fn act(&mut self, step: usize) {
        let id = self.any();
        let (verb, path) = (self.random.random_range(0..12), format!("/tasks/{id}"));
        match verb {
            _ if step < 3 => self.create(step).await,
            0 | 1 => self.create(step).await,
            2 | 3 => {
                let on = self.some();
                self.ask("POST", &format!("{path}/dependencies"), json!({"depends_on": on})).await;
            }
            4 => {
                let on = self.some();
                self.ask("PUT", &format!("{path}/dependencies"), json!({"depends_on": on})).await;
            }
            5 => {
                let one = self.any();
                self.ask("DELETE", &format!("{path}/dependencies/{one}"), Value::Null).await;
            }
            6 => self.end(&path, "cancel").await,
            7 => self.end(&path, "fail").await,
            8 => {
                let urgent = json!({"priority": "CRITICAL", "deadline_at": "2026-01-05T13:00:00Z"});
                self.ask("PATCH", &path, urgent).await;
            }
            _ => self.report().await,
        }
    }

    async fn create(&mut self, step: usize) {
        let (id, on) = (format!("t-{}-{step}", self.number), self.some());
        let project = ["p-1", "p-2"].choose(&mut self.random);
        let body = json!({
            "task_id": id, "title": id, "org": "acme", "depends_on": on, "project_id": project, "max_retries": 1,
        });
        assert_eq!(self.ask("POST", "/tasks", body).await.0, 201, "{id}");
        self.known.lock().unwrap().push(id);
    }

    /// Now and then somebody wants it after all.
    async fn end(&mut self, path: &str, verb: &str) {
        self.ask("POST", &format!("{path}/{verb}"), json!({})).await;
        if self.random.random_bool(0.7) {
            self.ask("POST", &format!("{path}/retry"), json!({})).await;
        }
    }

    /// Claims what is ready; one of those that are at work says what came of it.
    async fn report(&mut self) {
        app::tasks::dispatch::run(self.plane.orchestration().unwrap(), acme()).await.unwrap();
        let (_, page) =
            self.ask("GET", "/tasks?org=acme&status=claiming,assigned,running", Value::Null).await;
        let Some(task) = page["tasks"].as_array().unwrap().choose(&mut self.random).cloned() else { return };
        let error = ["the model is away (503)", "permission denied"].choose(&mut self.random);
        let body =
            json!({"task_id": task["id"], "success": self.random.random_bool(0.7), "error_message": error});
        let sandbox = task["sandbox_id"].as_str().unwrap();
        let made = Job::ReconcileSandbox { sandbox_id: SandboxId::parse(sandbox).unwrap() };
        edge::jobs::run(&self.plane, &made.encode()).await.unwrap();
        self.ask("POST", &format!("/sandboxes/{sandbox}/task-complete"), body).await;
    }

    fn any(&mut self) -> String {
        self.known.lock().unwrap().choose(&mut self.random).cloned().unwrap_or_else(|| "nobody".to_owned())
    }

    fn some(&mut self) -> Vec<String> {
        let (known, count) = (self.known.lock().unwrap(), self.random.random_range(0..3));
        known.choose_multiple(&mut self.random, count).cloned().collect()
    }

    /// Whatever is asked, the answer says why not, and nothing breaks.
    async fn ask(&self, method: &str, path: &str, body: Value) -> (u64, Value) {
        let body = Some(body).filter(|body| !body.is_null());
        let (status, answer) = ask(&self.plane, OPERATOR, method, path, body).await;
        assert!(status < 500, "{method} {path}: {answer}");
        (status, answer)
    }
}
