//! What must be true of the table at any moment, and what the logs must tell in the end.

use super::world::World;
use app::events::history::{Command, Deps, Order, run};
use contract::events::EventOut;
use domain::access::Principal;
use domain::attempt::Outcome;
use domain::sandbox::Status as SandboxStatus;
use domain::task::Status;
use domain::{Entity, Sandbox, SandboxId, Task, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::keys::Watched;
use store::sandboxes::Whose;

/// Everything there is.
pub struct Everything {
    pub tasks: Vec<Task>,
    pub heads: Vec<Sandbox>,
}

/// Reads it. Everything in the table belongs together at any moment, whatever is half-way.
pub async fn consistent(world: &World) -> Everything {
    let store = &world.aws.store;
    let tasks = store.tasks(&world.tasks).await.unwrap();
    assert_eq!(tasks.len(), world.tasks.len());
    let heads = store.sandboxes_of(&Whose::All, None, 100).await.unwrap();
    assert!(heads.next.is_none(), "a task was tried very often");
    let heads = heads.heads;

    let queued = store.candidates(&world.org, None, 100).await.unwrap().candidates;
    let queued: BTreeSet<_> = queued.into_iter().map(|candidate| candidate.id).collect();
    let placed = tasks.iter().filter(|task| task.place.is_some());
    assert_eq!(queued, placed.map(|task| task.id.clone()).collect(), "the queue holds those with a place");

    let active = |project: Option<&str>| {
        let of = |task: &&Task| {
            project.is_none() || task.project.as_ref().map(domain::ProjectId::as_str) == project
        };
        tasks.iter().filter(|task| task.status.is_active()).filter(of).count()
    };
    let slots = store.slots(&world.org).await.unwrap();
    assert_eq!(slots.running as usize, active(None), "slots of the org");
    assert!(slots.running <= 3, "more than the org may have");
    for (project, running) in &slots.projects {
        assert_eq!(*running as usize, active(Some(project.as_str())), "slots of {project}");
        assert!(*running <= 2, "more than {project} may have");
    }

    let watched: BTreeSet<_> = (store.watched(None, 500).await.unwrap().watched.into_iter())
        .map(|watched| format!("{watched:?}"))
        .collect();
    let ready = |task: &Task| Watched::Ready(task.org.clone(), task.id.clone());
    let need: BTreeSet<_> = (tasks.iter().filter(|task| task.needs_reconcile()))
        .map(|task| Watched::Entity(Entity::Task(task.id.clone())))
        .chain(
            heads
                .iter()
                .filter(|head| head.needs_reconcile())
                .map(|head| Watched::Entity(Entity::Sandbox(head.id.clone()))),
        )
        .chain(tasks.iter().filter(|task| task.place.is_some()).map(ready))
        .map(|watched| format!("{watched:?}"))
        .collect();
    assert_eq!(watched, need, "what is watched");
    Everything { tasks, heads }
}

/// What must be true when nothing is left to do.
pub async fn settled(world: &World) -> Everything {
    let Everything { tasks, heads } = consistent(world).await;
    assert_eq!(world.fake.names(), [], "left at the provider");
    for head in &heads {
        assert!(head.status.is_final(), "{} is {:?}", head.id, head.status);
        assert!(!head.needs_reconcile(), "{} is not released", head.id);
        let log = log(world, &Entity::Sandbox(head.id.clone()), head.seq).await;
        assert_eq!(told_of_sandbox(&log), head.status, "{}: {:#?}", head.id, names(&log));
    }
    let completed: BTreeSet<_> =
        tasks.iter().filter(|task| task.status == Status::Completed).map(|task| &task.id).collect();
    for task in &tasks {
        let open: Vec<_> = task.depends_on.iter().filter(|id| !completed.contains(id)).collect();
        assert_eq!(task.unmet as usize, open.len(), "{} counts what it waits for", task.id);
        let waits = task.status == Status::Pending && !open.is_empty();
        assert!(task.status.is_final() || waits, "{} is stuck: {task:?}", task.id);
        let log = log(world, &Entity::Task(task.id.clone()), task.seq).await;
        let tries = told_of_task(&log, task);
        for (number, sandbox) in &tries {
            let head = heads.iter().find(|head| head.id == *sandbox).unwrap();
            let assignment = head.assignment.as_ref().unwrap();
            assert_eq!((assignment.attempt, &assignment.task), (*number, &task.id));
        }
        if task.status == Status::Completed {
            let last = heads.iter().find(|head| Some(&head.id) == task.sandbox.as_ref()).unwrap();
            assert!(
                matches!(last.activity.outcome, Some(Outcome::Done { .. })),
                "{:?}",
                last.activity.outcome
            );
        }
    }
    Everything { tasks, heads }
}

/// All of it and all logs, as lines.
pub async fn written(world: &World, everything: &Everything) -> Vec<String> {
    let tasks = everything
        .tasks
        .iter()
        .map(|task| (serde_json::to_string(task).unwrap(), Entity::Task(task.id.clone()), task.seq));
    let heads =
        everything.heads.iter().map(|head| (format!("{head:?}"), Entity::Sandbox(head.id.clone()), head.seq));
    let mut lines = Vec::new();
    for (line, entity, last_seq) in tasks.chain(heads) {
        lines.push(line);
        let log = log(world, &entity, last_seq).await;
        lines.extend(log.iter().map(|event| serde_json::to_string(event).unwrap()));
    }
    lines
}

async fn log(world: &World, entity: &Entity, last_seq: u64) -> Vec<EventOut> {
    let command = Command {
        principal: Principal::Operator,
        entity: entity.clone(),
        after_seq: 0,
        before_seq: None,
        order: Order::Oldest,
        limit: 500,
    };
    let page = run(Deps { store: &world.aws.store }, command).await.unwrap();
    let numbers: Vec<u64> = page.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=last_seq).collect::<Vec<_>>(), "the log of {entity:?} has gaps");
    page.events
}

fn names(log: &[EventOut]) -> Vec<String> {
    log.iter().map(|event| format!("{} {}", event.event_type, event.event_data.text())).collect()
}

/// The tries that a task's log tells of. It must tell a life that a task can have, up to the state that it is in.
fn told_of_task(log: &[EventOut], task: &Task) -> BTreeMap<u32, SandboxId> {
    use Status::{Assigned, Cancelled, Claiming, Completed, Failed, Pending, Running};
    let mut tries: BTreeMap<u32, SandboxId> = BTreeMap::new();
    // Status, whether it has a place in the queue, claims and retries since somebody last asked for it.
    let (mut status, mut placed, mut claims, mut current) = (None, false, 0, None);
    let mut not_before: Option<Timestamp> = None;
    for event in log {
        let story = || format!("{}: at {} in {:#?}", task.id, event.seq, names(log));
        let text = |field: &str| event.event_data.string(field);
        let of_current = || assert_eq!(text("sandbox_id"), current, "{}", story());
        let turn = event.event_type.as_str().strip_prefix("task.").unwrap_or_else(|| panic!("{}", story()));
        let active = matches!(status, Some(Claiming | Assigned | Running));
        let over = matches!(status, Some(Completed | Failed | Cancelled));
        status = Some(match turn {
            "created" => {
                assert!(status.is_none(), "{}", story());
                Pending
            }
            "ready" => {
                assert!(status == Some(Pending) && !placed, "{}", story());
                assert!(not_before.is_none_or(|when| event.created_at >= when), "too early: {}", story());
                placed = true;
                Pending
            }
            "claimed" => {
                assert!(status == Some(Pending) && placed, "{}", story());
                (placed, claims, current) = (false, claims + 1, text("sandbox_id"));
                let number = tries.len() as u32 + 1;
                assert!(event.event_data.text().contains(&format!("\"attempt\":{number}")), "{}", story());
                let sandbox = SandboxId::parse(current.clone().unwrap()).unwrap();
                assert!(!tries.values().any(|before| *before == sandbox), "{}", story());
                tries.insert(number, sandbox);
                assert!(claims <= 1 + task.max_retries, "tried too often: {}", story());
                Claiming
            }
            "assigned" => {
                assert_eq!(status, Some(Claiming), "{}", story());
                of_current();
                Assigned
            }
            "started" => {
                assert!(matches!(status, Some(Claiming | Assigned)), "{}", story());
                of_current();
                Running
            }
            "completed" => {
                assert!(active, "{}", story());
                of_current();
                Completed
            }
            "retrying" if event.event_data.text().contains("\"asked_for\":true") => {
                assert!(matches!(status, Some(Failed | Cancelled)), "{}", story());
                (claims, current, not_before) = (0, None, None);
                Pending
            }
            "retrying" => {
                assert!(active, "{}", story());
                of_current();
                current = None;
                not_before = text("not_before").and_then(|when| Timestamp::parse(&when));
                Pending
            }
            "failed" | "cancelled" => {
                assert!(!over && status.is_some(), "{}", story());
                (placed, current) = (false, None);
                if turn == "failed" { Failed } else { Cancelled }
            }
            _ => panic!("{}", story()),
        });
    }
    assert_eq!(status, Some(task.status), "{}: {:#?}", task.id, names(log));
    assert_eq!(tries.len() as u32, task.attempt, "{}: {:#?}", task.id, names(log));
    tries
}

/// The state that a sandbox's log tells of. It must tell a life that a sandbox can have.
fn told_of_sandbox(log: &[EventOut]) -> SandboxStatus {
    use SandboxStatus::{Completed, Completing, Creating, Failed, Pending, Running, Terminated};
    const STAGES: [&str; 6] = ["pending", "preparing", "creating", "uploading", "starting", "spawned"];
    let (mut status, mut stage, mut released) = (None, 0, false);
    for event in log {
        let story = || format!("at {} in {:#?}", event.seq, names(log));
        assert!(!released, "something is told of one that is gone: {}", story());
        let Some(turn) = event.event_type.as_str().strip_prefix("sandbox.") else { continue };
        let over = matches!(status, Some(Completed | Failed | Terminated));
        status = match turn {
            "released" => {
                assert!(over, "{}", story());
                released = true;
                status
            }
            "retrying" => {
                assert!(status == Some(Creating), "{}", story());
                status
            }
            "running" => {
                assert!(status == Some(Creating) && stage == STAGES.len(), "{}", story());
                Some(Running)
            }
            "completing" => {
                assert_eq!(status, Some(Running), "{}", story());
                Some(Completing)
            }
            "completed" => {
                assert_eq!(status, Some(Completing), "{}", story());
                Some(Completed)
            }
            "failed" | "terminated" | "terminated_idle" => {
                assert!(!over, "{}", story());
                Some(if turn == "failed" { Failed } else { Terminated })
            }
            making => {
                assert_eq!(Some(&making), STAGES.get(stage), "{}", story());
                assert!(matches!(status, None | Some(Pending | Creating)), "{}", story());
                stage += 1;
                Some(if stage == 1 { Pending } else { Creating })
            }
        };
    }
    assert!(released, "{:#?}", names(log));
    status.unwrap()
}
