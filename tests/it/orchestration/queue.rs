//! Ten thousand tasks of one graph, wide and deep: a claim costs the same however many wait, completing a task costs
//! what those cost that wait for it, and nobody claims what somebody else has claimed.

use super::chaos::world::{change, task};
use crate::stage::Stage;
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

/// Those that wait for the first and for nothing else.
const WIDE: usize = 1_000;
/// Behind the first as well, in rows: each waits for two of the row before.
const ROWS: usize = 180;
const ROW: usize = 50;
/// In all: the first, the wide ones, the deep ones; one of the last row is left out.
const TASKS: usize = 10_000;
/// What one dispatch claims.
const CLAIMS: usize = 25;

#[tokio::test]
async fn a_claim_costs_the_same_however_many_tasks_wait() {
    let mut stage = Stage::open().await;
    stage.pass_over_news();
    let process = dispatcher(&stage);
    let few = OrgId::parse("few").unwrap();
    write(&stage, &few, (0..CLAIMS + 15).map(|index| Node { index, waits_for: vec![] }).collect()).await;
    let many = OrgId::parse("many").unwrap();
    write(&stage, &many, graph()).await;

    let alone = claims(&stage, &process, &few).await;
    assert_eq!(alone.claimed, CLAIMS);
    let first = claims(&stage, &process, &many).await;
    assert_eq!(first.claimed, 1, "everything waits for the first");

    let told = complete(&stage, &process, &many, 0).await;
    let ready = WIDE + ROW;
    // Each costs one transaction; and for every 25 of them there are some reads.
    assert!(told <= ready + 4 * ready.div_ceil(25) + 10, "{told} calls to tell {ready} tasks");

    let crowded = claims(&stage, &process, &many).await;
    assert_eq!(crowded.claimed, CLAIMS);
    assert_eq!(
        crowded.calls, alone.calls,
        "calls to the table, with {ready} that are ready and {TASKS} that wait"
    );
    println!("{CLAIMS} claims: {} units with few tasks, {} with {TASKS}", alone.units, crowded.units);
    assert!(
        crowded.units < alone.units * 1.5,
        "{CLAIMS} claims cost {} units with few tasks and {} with {TASKS}",
        alone.units,
        crowded.units
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_dispatchers_never_claim_a_task_twice() {
    const DISPATCHERS: usize = 8;
    let stage = Stage::open().await;
    let org = OrgId::parse("many").unwrap();
    let tasks = 600;
    write(&stage, &org, (0..tasks).map(|index| Node { index, waits_for: vec![] }).collect()).await;
    stage.aws.meter.start();
    let dispatchers = (0..DISPATCHERS).map(|_| {
        let (process, org) = (dispatcher(&stage), org.clone());
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
    let calls = stage.aws.meter.take().len();
    println!(
        "{DISPATCHERS} dispatchers claim {claimed:?} with {:.1} calls for each",
        calls as f64 / tasks as f64
    );
    assert_eq!(claimed.iter().sum::<usize>(), tasks, "{claimed:?}");

    let ids: Vec<TaskId> = (0..tasks).map(|index| id(&org, index)).collect();
    let mut sandboxes = BTreeMap::new();
    for chunk in ids.chunks(100) {
        for task in stage.aws.store.tasks(chunk).await.unwrap() {
            // A second claim would be a second try.
            assert_eq!((task.status, task.attempt), (Status::Claiming, 1), "{}", task.id);
            let other = sandboxes.insert(task.sandbox.clone().unwrap(), task.id.clone());
            assert_eq!(other, None, "{} shares a sandbox", task.id);
        }
    }
    assert_eq!(sandboxes.len(), tasks);
    let heads =
        stage.aws.store.watched_sandboxes(&store::sandboxes::Whose::All, None, 10_000).await.unwrap().0;
    assert_eq!(heads.len(), tasks, "a claim is a sandbox, and there are no others");
    assert_eq!(stage.aws.store.slots(&org).await.unwrap().running as usize, tasks);
}

/// However fast they are, the limit holds, and what is free is used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispatchers_in_parallel_keep_to_the_limits() {
    let stage = Stage::open().await;
    let org = OrgId::parse("many").unwrap();
    write(&stage, &org, (0..60).map(|index| Node { index, waits_for: vec![] }).collect()).await;
    let dispatchers = (0..8).map(|_| {
        let process = stage.process_with(|settings| {
            settings.orchestration.limits = Limits { org: 30, project: 20 };
        });
        let org = org.clone();
        tokio::spawn(async move {
            app::tasks::dispatch::run(process.orchestration().unwrap(), org).await.unwrap()
        })
    });
    let claimed: usize = join_all(dispatchers).await.into_iter().map(Result::unwrap).sum();
    let slots = stage.aws.store.slots(&org).await.unwrap();
    let project = slots.projects.values().copied().collect::<Vec<_>>();
    // All are of one project.
    assert_eq!((claimed, slots.running, project), (20, 20, vec![20]));
}

/// Where a project is full, the others go on, however many there are and however few of them are looked at.
#[tokio::test]
async fn no_project_stands_in_the_way_of_another() {
    let stage = Stage::open().await;
    let process = stage.process_with(|settings| {
        settings.orchestration.limits = Limits { org: 1_000, project: 2 };
    });
    let org = OrgId::parse("many").unwrap();
    const PROJECTS: usize = 40;
    let of_projects = (0..PROJECTS * 3).map(|index| {
        let project = json!(format!("p-{:02}", index % PROJECTS));
        (index, json!({"project": project}))
    });
    write_with(
        &stage,
        &org,
        of_projects.map(|(index, fields)| (Node { index, waits_for: vec![] }, fields)).collect(),
    )
    .await;
    let mut claimed = 0;
    loop {
        match app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap() {
            0 => break,
            more => claimed += more,
        }
    }
    assert_eq!(claimed, PROJECTS * 2, "two of each");
    let slots = stage.aws.store.slots(&org).await.unwrap();
    assert!(slots.projects.values().all(|running| *running == 2), "{slots:?}");
}

/// What is more urgent in one project does not keep the others waiting for ever, wherever their names stand.
#[tokio::test]
async fn every_project_gets_its_turn() {
    let stage = Stage::open().await;
    let process = dispatcher(&stage);
    let org = OrgId::parse("many").unwrap();
    const PROJECTS: usize = 30;
    let nodes = (0..PROJECTS * 10).map(|index| {
        let node = Node { index, waits_for: vec![] };
        (node, json!({"project": format!("p-{:02}", index % PROJECTS)}))
    });
    write_with(&stage, &org, nodes.collect()).await;
    // A tenth of them.
    let mut claimed = 0;
    while claimed < PROJECTS {
        claimed += app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap();
    }
    let slots = stage.aws.store.slots(&org).await.unwrap();
    let late = slots.projects.keys().filter(|project| project.as_str() >= "p-15").count();
    assert!(late >= 5, "only {:?} have had a turn", slots.projects);
}

/// Score decides, and one claim in eight goes to whoever has waited longest for what it is.
#[tokio::test]
async fn the_most_urgent_goes_first() {
    let stage = Stage::open().await;
    let process = stage.process_with(|settings| {
        settings.orchestration.limits = Limits { org: 4, project: 100 };
    });
    let org = OrgId::parse("many").unwrap();
    let now = app::Clock::now(stage.clock.as_ref());
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
    write_with(&stage, &org, nodes.map(|(index, kind)| (Node { index, waits_for: vec![] }, kind)).collect())
        .await;
    app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap();
    let ids: Vec<TaskId> = (0..6).map(|index| id(&org, index)).collect();
    let tasks = stage.aws.store.tasks(&ids).await.unwrap();
    let claimed: Vec<bool> = tasks.iter().map(|task| task.status == Status::Claiming).collect();
    assert_eq!(claimed, [false, true, true, true, false, true]);
}

/// A provider that is down holds up those that want it, and nobody else.
#[tokio::test]
async fn a_provider_that_is_down_hides_nobody_who_wants_another() {
    let stage = Stage::open().await;
    let process = dispatcher(&stage);
    let org = OrgId::parse("many").unwrap();
    let now = app::Clock::now(stage.clock.as_ref());
    let down = (0..5).fold(Breaker::default(), |breaker, _| breaker.failed(now));
    stage.aws.store.keep_breaker("daytona", &down).await.unwrap();
    // Two hundred in twenty projects before it, all of which want the one that is down.
    let nodes = (0..=200).map(|index| {
        let provider = if index == 200 { "process" } else { "daytona" };
        let fields = json!({"project": format!("p-{:02}", index / 10), "execution": {"provider": provider}});
        (Node { index, waits_for: vec![] }, fields)
    });
    write_with(&stage, &org, nodes.collect()).await;
    assert_eq!(app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap(), 1);
    let task = stage.aws.store.task(&id(&org, 200)).await.unwrap().unwrap();
    assert_eq!(task.status, Status::Claiming);
}

/// Counters of projects that have nothing to do any more do not pile up.
#[tokio::test]
async fn projects_without_work_are_not_counted_for_ever() {
    let stage = Stage::open().await;
    let process = dispatcher(&stage);
    let org = OrgId::parse("many").unwrap();
    for round in 0..4 {
        let nodes = (round * 40..(round + 1) * 40)
            .map(|index| (Node { index, waits_for: vec![] }, json!({"project": format!("p-{index}")})));
        write_with(&stage, &org, nodes.collect()).await;
        while app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap() > 0 {}
        for index in round * 40..(round + 1) * 40 {
            let (store, now) = (&stage.aws.store, app::Clock::now(stage.clock.as_ref()));
            let task = store.task(&id(&org, index)).await.unwrap().unwrap();
            let mut commit = Commit::new(now);
            commit.tasks.push(change(
                stage.ids.as_ref(),
                Some(&task),
                task.cancel("not wanted", now).unwrap(),
            ));
            store.commit(commit).await.unwrap();
        }
    }
    let slots = stage.aws.store.slots(&org).await.unwrap();
    assert_eq!(slots.running, 0);
    assert!(slots.projects.len() <= 120, "{} projects are counted", slots.projects.len());
}

/// Whoever stands in a queue is found by a sweep, whatever jobs were lost; and an org without work costs nothing.
#[tokio::test]
async fn a_sweep_finds_every_queue_with_somebody_in_it_and_no_other() {
    let mut stage = Stage::open().await;
    let process = dispatcher(&stage);
    let orgs: Vec<OrgId> = ["a", "a-b", "b", "c"].map(|org| OrgId::parse(org).unwrap()).into();
    for (org, tasks) in orgs.iter().zip([150, 1, 3, 2]) {
        write(&stage, org, (0..tasks).map(|index| Node { index, waits_for: vec![] }).collect()).await;
    }
    let swept = async |stage: &mut Stage| {
        app::reconcile::sweep::run(process.orchestration().unwrap()).await.unwrap();
        let mut jobs = Vec::new();
        while let Ok(job) = stage.feeds.jobs.try_recv() {
            jobs.push(Job::decode(&job).unwrap());
        }
        jobs.retain(|job| matches!(job, Job::Dispatch { .. }));
        jobs
    };
    let dispatches =
        |orgs: &[OrgId]| orgs.iter().map(|org| Job::Dispatch { org: org.clone() }).collect::<Vec<_>>();
    assert_eq!(swept(&mut stage).await, dispatches(&orgs));
    app::tasks::dispatch::run(process.orchestration().unwrap(), orgs[2].clone()).await.unwrap();
    while stage.feeds.jobs.try_recv().is_ok() {}
    let jobs = swept(&mut stage).await;
    assert_eq!(jobs, dispatches(&[orgs[0].clone(), orgs[1].clone(), orgs[3].clone()]));
}

/// A task of a graph.
struct Node {
    index: usize,
    waits_for: Vec<usize>,
}

fn id(org: &OrgId, index: usize) -> TaskId {
    TaskId::parse(format!("{org}-{index:05}")).unwrap()
}

fn graph() -> Vec<Node> {
    let first = Node { index: 0, waits_for: vec![] };
    let wide = (1..=WIDE).map(|index| Node { index, waits_for: vec![0] });
    let deep = (WIDE + 1..TASKS).map(|index| {
        let (row, place) = ((index - WIDE - 1) / ROW, (index - WIDE - 1) % ROW);
        let above = |place: usize| WIDE + 1 + (row.wrapping_sub(1)) * ROW + place;
        let waits_for = if row == 0 { vec![0] } else { vec![above(place), above((place + 1) % ROW)] };
        Node { index, waits_for }
    });
    let nodes: Vec<Node> = std::iter::once(first).chain(wide).chain(deep).collect();
    assert_eq!((nodes.len(), ROWS), (TASKS, (TASKS - WIDE).div_ceil(ROW)));
    nodes
}

async fn write(stage: &Stage, org: &OrgId, nodes: Vec<Node>) {
    write_with(stage, org, nodes.into_iter().map(|node| (node, json!({"project": "p"}))).collect()).await;
}

/// Writes a graph down, as creating its tasks one after the other would.
async fn write_with(stage: &Stage, org: &OrgId, nodes: Vec<(Node, Value)>) {
    /// So that a transaction has fewer than a hundred items.
    const TOGETHER: usize = 16;
    let now = app::Clock::now(stage.clock.as_ref());
    let mut dependents: BTreeMap<usize, u32> = BTreeMap::new();
    for other in nodes.iter().flat_map(|(node, _)| &node.waits_for) {
        *dependents.entry(*other).or_default() += 1;
    }
    for chunk in nodes.chunks(TOGETHER) {
        let mut commit = Commit::new(now);
        for (node, more) in chunk {
            let depends_on: Vec<TaskId> = node.waits_for.iter().map(|index| id(org, *index)).collect();
            let mut fields = json!({
                "depends_on": depends_on, "unmet": depends_on.len(),
                "dependents": dependents.get(&node.index).copied().unwrap_or(0),
            });
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let task = task(id(org, node.index).as_str(), org, now, fields);
            for before in depends_on {
                commit.edges.push(Edge::Add { task: before, waits: task.id.clone() });
            }
            commit.tasks.push(change(stage.ids.as_ref(), None, task.created(&Default::default(), now)));
        }
        let written = stage.aws.store.commit(commit).await.unwrap();
        assert!(matches!(written, Committed::Done(_)), "{written:?}");
    }
}

/// A process for which there is always a free slot.
fn dispatcher(stage: &Stage) -> Arc<Plane> {
    stage.process_with(|settings| {
        settings.orchestration.limits = Limits { org: 1_000_000, project: 1_000_000 };
    })
}

/// What a dispatch did, and what it took.
struct Claims {
    claimed: usize,
    calls: BTreeMap<String, usize>,
    /// What it read and wrote, as DynamoDB bills it.
    units: f64,
}

/// One dispatch. Its calls to the table, by operation.
async fn claims(stage: &Stage, process: &Plane, org: &OrgId) -> Claims {
    stage.aws.meter.start();
    let claimed = app::tasks::dispatch::run(process.orchestration().unwrap(), org.clone()).await.unwrap();
    stage.aws.meter.stop();
    let (mut calls, mut units) = (BTreeMap::new(), 0.0);
    for call in stage.aws.meter.take().into_iter().filter(|call| call.resource.starts_with("table/")) {
        units += call.read_units + call.write_units;
        *calls.entry(call.operation).or_default() += 1;
    }
    Claims { claimed, calls, units }
}

/// A step of a try.
type Step = fn(&Task, &Attempt, Timestamp) -> Option<Transition>;

/// Completes a task that was claimed, and has those told that wait for it; how many calls to the table that took.
async fn complete(stage: &Stage, process: &Plane, org: &OrgId, index: usize) -> usize {
    let (store, now) = (&stage.aws.store, app::Clock::now(stage.clock.as_ref()));
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
        commit.tasks.push(change(stage.ids.as_ref(), Some(&task), step(&task, &attempt, now).unwrap()));
        store.commit(commit).await.unwrap();
        task = store.task(&task.id).await.unwrap().unwrap();
    }
    stage.aws.meter.start();
    let mut left = true;
    while left {
        edge::jobs::run(process, &Job::ReconcileTask { task_id: task.id.clone() }.encode()).await.unwrap();
        // What is too much for one job is another's.
        left = store.task(&task.id).await.unwrap().unwrap().dependents > 0;
    }
    stage.aws.meter.stop();
    let calls = stage.aws.meter.take();
    let told = store.task(&task.id).await.unwrap().unwrap();
    assert_eq!((told.status, told.dependents), (Status::Completed, 0), "not all were told");
    calls.into_iter().filter(|call| call.resource.starts_with("table/")).count()
}
