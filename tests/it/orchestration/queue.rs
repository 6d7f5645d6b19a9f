//! Dispatch at scale, on a wide and deep graph of ten thousand tasks: the cost of a claim does not grow with the queue,
//! the cost of completing a task grows only with its dependents, and no task is claimed twice.

use super::chaos::simulation::{change, task};
use crate::harness::Harness;
use contract::jobs::Job;
use domain::attempt::Attempt;
use domain::breaker::Breaker;
use domain::task::Status;
use domain::task::transitions::Transition;
use domain::{JsonObject, OrgId, Task, TaskId, Timestamp};
use edge::Plane;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::commit::{Commit, Committed, Edge, Limits};

/// Number of tasks that depend on the first task only.
const WIDE: usize = 1_000;
/// The deep part also starts at the first task: each task depends on two tasks of the row before.
const ROWS: usize = 180;
const ROW_LENGTH: usize = 50;
/// Total: the first task, the wide part and the deep part, whose last row is one short.
const TASKS: usize = 10_000;
/// Maximum number of claims of one dispatch.
const CLAIMS: usize = 25;

#[tokio::test]
async fn claim_cost_is_independent_of_queue_length() {
    let mut harness = Harness::open().await;
    harness.discard_records();
    let process = dispatcher(&harness);
    let few = OrgId::parse("few").unwrap();
    write(&harness, &few, (0..CLAIMS + 15).map(|index| Node { index, depends_on: vec![] }).collect()).await;
    let many = OrgId::parse("many").unwrap();
    write(&harness, &many, graph()).await;

    let small_queue = dispatch_once(&harness, &process, &few).await;
    assert_eq!(small_queue.claimed, CLAIMS);
    let first = dispatch_once(&harness, &process, &many).await;
    assert_eq!(first.claimed, 1, "all others depend on the first task");

    let unblock_calls = complete(&harness, &process, &many, 0).await;
    let ready = WIDE + ROW_LENGTH;
    // One transaction for each dependent, and a few reads for every 25 of them.
    assert!(
        unblock_calls <= ready + 4 * ready.div_ceil(25) + 10,
        "{unblock_calls} calls to unblock {ready} tasks"
    );

    let large_queue = dispatch_once(&harness, &process, &many).await;
    assert_eq!(large_queue.claimed, CLAIMS);
    assert_eq!(large_queue.calls, small_queue.calls, "table calls with {ready} ready tasks out of {TASKS}");
    println!(
        "{CLAIMS} claims: {} units with few tasks, {} with {TASKS}",
        small_queue.units, large_queue.units
    );
    assert!(
        large_queue.units < small_queue.units * 1.5,
        "{CLAIMS} claims cost {} units with few tasks and {} with {TASKS}",
        small_queue.units,
        large_queue.units
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_dispatchers_never_claim_a_task_twice() {
    const DISPATCHERS: usize = 8;
    let harness = Harness::open().await;
    let org = OrgId::parse("many").unwrap();
    let tasks = 600;
    write(&harness, &org, (0..tasks).map(|index| Node { index, depends_on: vec![] }).collect()).await;
    harness.aws.meter.start();
    let dispatchers = (0..DISPATCHERS).map(|_| {
        let (process, org) = (dispatcher(&harness), org.clone());
        tokio::spawn(async move {
            let mut claimed = 0;
            loop {
                match app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap()
                {
                    0 => return claimed,
                    more => claimed += more,
                }
            }
        })
    });
    let claimed: Vec<usize> = join_all(dispatchers).await.into_iter().map(Result::unwrap).collect();
    let calls = harness.aws.meter.take().len();
    println!(
        "{DISPATCHERS} dispatchers claim {claimed:?} with {:.1} calls for each",
        calls as f64 / tasks as f64
    );
    assert_eq!(claimed.iter().sum::<usize>(), tasks, "{claimed:?}");

    let ids: Vec<TaskId> = (0..tasks).map(|index| id(&org, index)).collect();
    let mut sandboxes = BTreeMap::new();
    for chunk in ids.chunks(100) {
        for task in harness.aws.store.tasks(chunk).await.unwrap() {
            // A second claim would be a second attempt.
            assert_eq!((task.status, task.attempt), (Status::Claiming, 1), "{}", task.id);
            let other = sandboxes.insert(task.sandbox.clone().unwrap(), task.id.clone());
            assert_eq!(other, None, "{} shares a sandbox", task.id);
        }
    }
    assert_eq!(sandboxes.len(), tasks);
    let sandboxes_stored =
        harness.aws.store.watched_sandboxes(&store::page::ListScope::All, None, 10_000).await.unwrap().0;
    assert_eq!(sandboxes_stored.len(), tasks, "each claim creates exactly one sandbox");
    assert_eq!(harness.aws.store.slots(&org).await.unwrap().running as usize, tasks);
}

/// The limit holds under concurrency, and all free slots are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_dispatchers_respect_the_limits() {
    let harness = Harness::open().await;
    let org = OrgId::parse("many").unwrap();
    write(&harness, &org, (0..60).map(|index| Node { index, depends_on: vec![] }).collect()).await;
    let dispatchers = (0..8).map(|_| {
        let process = harness.process_with(|settings| {
            settings.orchestration.limits = Limits { org: 30, project: 20 };
        });
        let org = org.clone();
        tokio::spawn(async move {
            app::tasks::dispatch::run(process.orchestration().unwrap(), org).await.unwrap()
        })
    });
    let claimed: usize = join_all(dispatchers).await.into_iter().map(Result::unwrap).sum();
    let slots = harness.aws.store.slots(&org).await.unwrap();
    let project = slots.projects.values().copied().collect::<Vec<_>>();
    // All tasks belong to one project.
    assert_eq!((claimed, slots.running, project), (20, 20, vec![20]));
}

/// Holds even if there are more projects than one dispatch examines.
#[tokio::test]
async fn full_project_does_not_block_other_projects() {
    let harness = Harness::open().await;
    let process = harness.process_with(|settings| {
        settings.orchestration.limits = Limits { org: 1_000, project: 2 };
    });
    let org = OrgId::parse("many").unwrap();
    const PROJECTS: usize = 40;
    let of_projects = (0..PROJECTS * 3).map(|index| {
        let project = json!(format!("p-{:02}", index % PROJECTS));
        (index, json!({"project": project}))
    });
    write_with(
        &harness,
        &org,
        of_projects.map(|(index, fields)| (Node { index, depends_on: vec![] }, fields)).collect(),
    )
    .await;
    let mut claimed = 0;
    loop {
        match app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap() {
            0 => break,
            more => claimed += more,
        }
    }
    assert_eq!(claimed, PROJECTS * 2, "two of each project");
    let slots = harness.aws.store.slots(&org).await.unwrap();
    assert!(slots.projects.values().all(|running| *running == 2), "{slots:?}");
}

/// Dispatch rotates between projects, so the order of their names does not starve any of them.
#[tokio::test]
async fn projects_are_served_fairly() {
    let harness = Harness::open().await;
    let process = dispatcher(&harness);
    let org = OrgId::parse("many").unwrap();
    const PROJECTS: usize = 30;
    let nodes = (0..PROJECTS * 10).map(|index| {
        let node = Node { index, depends_on: vec![] };
        (node, json!({"project": format!("p-{:02}", index % PROJECTS)}))
    });
    write_with(&harness, &org, nodes.collect()).await;
    // A tenth of all tasks.
    let mut claimed = 0;
    while claimed < PROJECTS {
        claimed += app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap();
    }
    let slots = harness.aws.store.slots(&org).await.unwrap();
    let late = slots.projects.keys().filter(|project| project.as_str() >= "p-15").count();
    assert!(late >= 5, "only {:?} have been served", slots.projects);
}

/// The score decides; one claim in eight goes to the task that has waited longest.
#[tokio::test]
async fn most_urgent_tasks_are_claimed_first() {
    let harness = Harness::open().await;
    let process = harness.process_with(|settings| {
        settings.orchestration.limits = Limits { org: 4, project: 100 };
    });
    let org = OrgId::parse("many").unwrap();
    let now = app::Clock::now(harness.clock.as_ref());
    let soon = now.plus_secs(60);
    let kinds = [
        json!({"priority": "LOW"}),
        json!({"priority": "CRITICAL", "project": "p-1"}),
        json!({"priority": "MEDIUM", "deadline_at": soon, "project": "p-2"}),
        json!({"priority": "HIGH"}),
        json!({"priority": "MEDIUM"}),
        json!({"priority": "MEDIUM", "dependents": 10}),
    ];
    let nodes = kinds.into_iter().enumerate();
    write_with(
        &harness,
        &org,
        nodes.map(|(index, kind)| (Node { index, depends_on: vec![] }, kind)).collect(),
    )
    .await;
    app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap();
    let ids: Vec<TaskId> = (0..6).map(|index| id(&org, index)).collect();
    let tasks = harness.aws.store.tasks(&ids).await.unwrap();
    let claimed: Vec<bool> = tasks.iter().map(|task| task.status == Status::Claiming).collect();
    assert_eq!(claimed, [false, true, true, true, false, true]);
}

#[tokio::test]
async fn open_breaker_does_not_block_tasks_of_other_providers() {
    let harness = Harness::open().await;
    let process = dispatcher(&harness);
    let org = OrgId::parse("many").unwrap();
    let now = app::Clock::now(harness.clock.as_ref());
    let down = (0..5).fold(Breaker::default(), |breaker, _| breaker.failed(now));
    harness.aws.store.put_breaker("daytona", &down).await.unwrap();
    // Two hundred tasks in twenty projects come first, all for the provider that is down.
    let nodes = (0..=200).map(|index| {
        let provider = if index == 200 { "process" } else { "daytona" };
        let fields = json!({"project": format!("p-{:02}", index / 10), "execution": {"provider": provider}});
        (Node { index, depends_on: vec![] }, fields)
    });
    write_with(&harness, &org, nodes.collect()).await;
    assert_eq!(app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap(), 1);
    let task = harness.aws.store.task(&id(&org, 200)).await.unwrap().unwrap();
    assert_eq!(task.status, Status::Claiming);
}

#[tokio::test]
async fn counters_of_idle_projects_are_removed() {
    let harness = Harness::open().await;
    let process = dispatcher(&harness);
    let org = OrgId::parse("many").unwrap();
    for round in 0..4 {
        let nodes = (round * 40..(round + 1) * 40)
            .map(|index| (Node { index, depends_on: vec![] }, json!({"project": format!("p-{index}")})));
        write_with(&harness, &org, nodes.collect()).await;
        while app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap() > 0 {}
        for index in round * 40..(round + 1) * 40 {
            let (store, now) = (&harness.aws.store, app::Clock::now(harness.clock.as_ref()));
            let task = store.task(&id(&org, index)).await.unwrap().unwrap();
            let mut commit = Commit::new(now);
            commit.tasks.push(change(
                harness.ids.as_ref(),
                Some(&task),
                task.cancel("not wanted", now).unwrap(),
            ));
            store.commit(commit).await.unwrap();
        }
    }
    let slots = harness.aws.store.slots(&org).await.unwrap();
    assert_eq!(slots.running, 0);
    assert!(slots.projects.len() <= 120, "{} projects have a counter", slots.projects.len());
}

/// The sweep makes up for lost jobs, and an org without queued tasks costs nothing.
#[tokio::test]
async fn sweep_dispatches_exactly_the_orgs_with_queued_tasks() {
    let mut harness = Harness::open().await;
    let process = dispatcher(&harness);
    let orgs: Vec<OrgId> = ["a", "a-b", "b", "c"].map(|org| OrgId::parse(org).unwrap()).into();
    for (org, tasks) in orgs.iter().zip([150, 1, 3, 2]) {
        write(&harness, org, (0..tasks).map(|index| Node { index, depends_on: vec![] }).collect()).await;
    }
    let swept = async |harness: &mut Harness| {
        app::reconcile::sweep::run(process.orchestration().unwrap()).await.unwrap();
        let mut jobs = Vec::new();
        while let Ok(job) = harness.feeds.jobs.try_recv() {
            jobs.push(Job::decode(&job.body).unwrap());
        }
        jobs.retain(|job| matches!(job, Job::Dispatch { .. }));
        jobs
    };
    let dispatches =
        |orgs: &[OrgId]| orgs.iter().map(|org| Job::Dispatch { org: org.clone() }).collect::<Vec<_>>();
    assert_eq!(swept(&mut harness).await, dispatches(&orgs));
    app::tasks::dispatch::run(process.orchestration().unwrap(), orgs[2].clone()).await.unwrap();
    while harness.feeds.jobs.try_recv().is_ok() {}
    let jobs = swept(&mut harness).await;
    assert_eq!(jobs, dispatches(&[orgs[0].clone(), orgs[1].clone(), orgs[3].clone()]));
}

struct Node {
    index: usize,
    depends_on: Vec<usize>,
}

fn id(org: &OrgId, index: usize) -> TaskId {
    TaskId::parse(format!("{org}-{index:05}")).unwrap()
}

fn graph() -> Vec<Node> {
    let first = Node { index: 0, depends_on: vec![] };
    let wide = (1..=WIDE).map(|index| Node { index, depends_on: vec![0] });
    let deep = (WIDE + 1..TASKS).map(|index| {
        let (row, place) = ((index - WIDE - 1) / ROW_LENGTH, (index - WIDE - 1) % ROW_LENGTH);
        let in_previous_row = |place: usize| WIDE + 1 + (row.wrapping_sub(1)) * ROW_LENGTH + place;
        let depends_on = if row == 0 {
            vec![0]
        } else {
            vec![in_previous_row(place), in_previous_row((place + 1) % ROW_LENGTH)]
        };
        Node { index, depends_on }
    });
    let nodes: Vec<Node> = std::iter::once(first).chain(wide).chain(deep).collect();
    assert_eq!((nodes.len(), ROWS), (TASKS, (TASKS - WIDE).div_ceil(ROW_LENGTH)));
    nodes
}

async fn write(harness: &Harness, org: &OrgId, nodes: Vec<Node>) {
    write_with(harness, org, nodes.into_iter().map(|node| (node, json!({"project": "p"}))).collect()).await;
}

/// Stores a graph as if its tasks had been created one after the other.
async fn write_with(harness: &Harness, org: &OrgId, nodes: Vec<(Node, Value)>) {
    /// Keeps a transaction below a hundred items.
    const TASKS_PER_COMMIT: usize = 16;
    let now = app::Clock::now(harness.clock.as_ref());
    let mut dependents: BTreeMap<usize, u32> = BTreeMap::new();
    for other in nodes.iter().flat_map(|(node, _)| &node.depends_on) {
        *dependents.entry(*other).or_default() += 1;
    }
    for chunk in nodes.chunks(TASKS_PER_COMMIT) {
        let mut commit = Commit::new(now);
        for (node, extra_fields) in chunk {
            let depends_on: Vec<TaskId> = node.depends_on.iter().map(|index| id(org, *index)).collect();
            let mut fields = json!({
                "depends_on": depends_on, "unmet": depends_on.len(),
                "dependents": dependents.get(&node.index).copied().unwrap_or(0),
            });
            fields.as_object_mut().unwrap().extend(extra_fields.as_object().unwrap().clone());
            let task = task(id(org, node.index).as_str(), org, now, fields);
            for dependency in depends_on {
                commit.edges.push(Edge::Add { task: dependency, dependent: task.id.clone() });
            }
            commit.tasks.push(change(harness.ids.as_ref(), None, task.created(&Default::default(), now)));
        }
        let written = harness.aws.store.commit(commit).await.unwrap();
        assert!(matches!(written, Committed::Done(_)), "{written:?}");
    }
}

/// A process without effective concurrency limits.
fn dispatcher(harness: &Harness) -> Arc<Plane> {
    harness.process_with(|settings| {
        settings.orchestration.limits = Limits { org: 1_000_000, project: 1_000_000 };
    })
}

/// The result of one dispatch and its cost.
struct DispatchCost {
    claimed: usize,
    /// Table calls by operation.
    calls: BTreeMap<String, usize>,
    /// Read and write units, as DynamoDB bills them.
    units: f64,
}

async fn dispatch_once(harness: &Harness, process: &Plane, org: &OrgId) -> DispatchCost {
    harness.aws.meter.start();
    let claimed = app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap();
    harness.aws.meter.stop();
    let (mut calls, mut units) = (BTreeMap::new(), 0.0);
    for call in harness.aws.meter.take().into_iter().filter(|call| call.resource.starts_with("table/")) {
        units += call.read_units + call.write_units;
        *calls.entry(call.operation).or_default() += 1;
    }
    DispatchCost { claimed, calls, units }
}

/// One transition of an attempt.
type Step = fn(&Task, &Attempt, Timestamp) -> Option<Transition>;

/// Completes a claimed task and unblocks its dependents. Returns the number of table calls for unblocking.
async fn complete(harness: &Harness, process: &Plane, org: &OrgId, index: usize) -> usize {
    let (store, now) = (&harness.aws.store, app::Clock::now(harness.clock.as_ref()));
    let claimed = store.task(&id(org, index)).await.unwrap().unwrap();
    let attempt = Attempt { number: claimed.attempt, sandbox: claimed.sandbox.clone().unwrap() };
    let steps: [Step; 3] = [
        |task, attempt, now| task.assign(attempt, now),
        |task, attempt, now| task.start(attempt, now),
        |task, attempt, now| task.complete(attempt, &JsonObject::empty(), now),
    ];
    let mut task = claimed;
    for step in steps {
        let mut commit = Commit::new(now);
        commit.tasks.push(change(harness.ids.as_ref(), Some(&task), step(&task, &attempt, now).unwrap()));
        store.commit(commit).await.unwrap();
        task = store.task(&task.id).await.unwrap().unwrap();
    }
    harness.aws.meter.start();
    let mut left = true;
    while left {
        edge::jobs::run(process, "job-1", &Job::ReconcileTask { task_id: task.id.clone() }.encode())
            .await
            .unwrap();
        // A job that cannot unblock all dependents leaves the rest to the next one.
        left = store.task(&task.id).await.unwrap().unwrap().dependents > 0;
    }
    harness.aws.meter.stop();
    let calls = harness.aws.meter.take();
    let completed = store.task(&task.id).await.unwrap().unwrap();
    assert_eq!(
        (completed.status, completed.dependents),
        (Status::Completed, 0),
        "some dependents are still blocked"
    );
    calls.into_iter().filter(|call| call.resource.starts_with("table/")).count()
}
