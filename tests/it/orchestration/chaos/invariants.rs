//! Invariants of the table at any moment, and of the logs once all work is finished.

use super::simulation::Simulation;
use app::events::history::{Command, Deps, Order, run};
use app::sandboxes::verify;
use contract::events::EventOut;
use contract::sandboxes::VerificationQuery;
use domain::access::Principal;
use domain::attempt::Outcome;
use domain::sandbox::Status as SandboxStatus;
use domain::task::Status;
use domain::{Entity, Sandbox, SandboxId, Task, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::keys::Watched;
use store::page::ListScope;

/// All tasks and sandboxes.
pub struct Snapshot {
    pub tasks: Vec<Task>,
    pub sandboxes: Vec<Sandbox>,
}

/// Reads all tasks and sandboxes, and checks what must hold at any moment, even with work in progress.
pub async fn check_consistent(simulation: &Simulation) -> Snapshot {
    let store = &simulation.aws.store;
    let tasks = store.tasks(&simulation.tasks).await.unwrap();
    assert_eq!(tasks.len(), simulation.tasks.len());
    let sandboxes = store.sandboxes_of(&ListScope::All, None, 100).await.unwrap();
    assert!(sandboxes.next.is_none(), "too many attempts for one page");
    let sandboxes = sandboxes.items;

    let queued = store.candidates(&simulation.org, None, 100).await.unwrap().items;
    let queued: BTreeSet<_> = queued.into_iter().map(|candidate| candidate.id).collect();
    let placed = tasks.iter().filter(|task| task.place.is_some());
    assert_eq!(
        queued,
        placed.map(|task| task.id.clone()).collect(),
        "the queue holds exactly the tasks with a place"
    );

    let active = |project: Option<&str>| {
        let in_project = |task: &&Task| {
            project.is_none() || task.project.as_ref().map(domain::ProjectId::as_str) == project
        };
        tasks.iter().filter(|task| task.status.is_active()).filter(in_project).count()
    };
    let slots = store.slots(&simulation.org).await.unwrap();
    assert_eq!(slots.running as usize, active(None), "running slots of the org");
    assert!(slots.running <= 3, "the org exceeds its limit");
    for (project, running) in &slots.projects {
        assert_eq!(*running as usize, active(Some(project.as_str())), "running slots of {project}");
        assert!(*running <= 2, "{project} exceeds its limit");
    }

    let watched: BTreeSet<_> = (store.watched(None, 500).await.unwrap().items.into_iter())
        .map(|watched| format!("{watched:?}"))
        .collect();
    let ready = |task: &Task| Watched::Ready(task.org.clone(), task.id.clone());
    let need: BTreeSet<_> = (tasks.iter().filter(|task| task.needs_reconcile()))
        .map(|task| Watched::Entity(Entity::Task(task.id.clone())))
        .chain(
            sandboxes
                .iter()
                .filter(|sandbox| sandbox.needs_reconcile())
                .map(|sandbox| Watched::Entity(Entity::Sandbox(sandbox.id.clone()))),
        )
        .chain(tasks.iter().filter(|task| task.place.is_some()).map(ready))
        .map(|watched| format!("{watched:?}"))
        .collect();
    assert_eq!(watched, need, "the watch list holds exactly what needs reconciliation");
    Snapshot { tasks, sandboxes }
}

/// Checks what must hold when nothing is left to do.
pub async fn check_final(simulation: &Simulation) -> Snapshot {
    let Snapshot { tasks, sandboxes } = check_consistent(simulation).await;
    assert_eq!(simulation.provider.names(), [], "no sandbox is left at the provider");
    for sandbox in &sandboxes {
        assert!(sandbox.status().is_final(), "{} is {:?}", sandbox.id, sandbox.status());
        assert!(!sandbox.needs_reconcile(), "{} is not released", sandbox.id);
        check_hashes(simulation, &sandbox.id).await;
        let log = log(simulation, &Entity::Sandbox(sandbox.id.clone()), sandbox.seq).await;
        assert_eq!(check_sandbox_log(&log), sandbox.status(), "{}: {:#?}", sandbox.id, describe(&log));
    }
    let completed: BTreeSet<_> =
        tasks.iter().filter(|task| task.status == Status::Completed).map(|task| &task.id).collect();
    for task in &tasks {
        let open: Vec<_> = task.depends_on.iter().filter(|id| !completed.contains(id)).collect();
        assert_eq!(task.unmet as usize, open.len(), "{} counts its unmet dependencies", task.id);
        let waits = task.status == Status::Pending && !open.is_empty();
        assert!(task.status.is_final() || waits, "{} is stuck: {task:?}", task.id);
        let log = log(simulation, &Entity::Task(task.id.clone()), task.seq).await;
        let attempts = check_task_log(&log, task);
        for (number, sandbox_id) in &attempts {
            let sandbox = sandboxes.iter().find(|sandbox| sandbox.id == *sandbox_id).unwrap();
            let assignment = sandbox.assignment.as_ref().unwrap();
            assert_eq!((assignment.attempt, &assignment.task), (*number, &task.id));
        }
        if task.status == Status::Completed {
            let last = sandboxes.iter().find(|sandbox| Some(&sandbox.id) == task.sandbox.as_ref()).unwrap();
            assert!(
                matches!(last.activity.outcome, Some(Outcome::Completed { .. })),
                "{:?}",
                last.activity.outcome
            );
        }
    }
    Snapshot { tasks, sandboxes }
}

/// The snapshot and all logs, as lines.
pub async fn lines(simulation: &Simulation, snapshot: &Snapshot) -> Vec<String> {
    let tasks = snapshot
        .tasks
        .iter()
        .map(|task| (serde_json::to_string(task).unwrap(), Entity::Task(task.id.clone()), task.seq));
    let sandboxes = snapshot
        .sandboxes
        .iter()
        .map(|sandbox| (format!("{sandbox:?}"), Entity::Sandbox(sandbox.id.clone()), sandbox.seq));
    let mut lines = Vec::new();
    for (line, entity, last_seq) in tasks.chain(sandboxes) {
        lines.push(line);
        let log = log(simulation, &entity, last_seq).await;
        lines.extend(log.iter().map(|event| serde_json::to_string(event).unwrap()));
    }
    lines
}

async fn log(simulation: &Simulation, entity: &Entity, last_seq: u64) -> Vec<EventOut> {
    let command = Command {
        principal: Principal::operator("local"),
        entity: entity.clone(),
        after_seq: 0,
        before_seq: None,
        order: Order::Oldest,
        limit: 500,
    };
    let page = run(Deps { store: &simulation.aws.store }, command).await.unwrap();
    let numbers: Vec<u64> = page.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=last_seq).collect::<Vec<_>>(), "the log of {entity:?} has gaps");
    page.events
}

/// The running hash of a log continues, whichever transaction wrote a segment.
async fn check_hashes(simulation: &Simulation, id: &SandboxId) {
    let command = verify::Command {
        principal: Principal::operator("local"),
        sandbox: id.clone(),
        query: VerificationQuery { after_seq: 0, to_seq: None },
    };
    let verified = verify::run(verify::Deps { store: &simulation.aws.store }, command).await.unwrap();
    assert_eq!((verified.problem, verified.unhashed_events, verified.has_more), (None, 0, false), "{id}");
}

fn describe(log: &[EventOut]) -> Vec<String> {
    log.iter().map(|event| format!("{} {}", event.event_type, event.event_data.text())).collect()
}

/// Checks that a task's log is a valid sequence of transitions that ends in its status. Returns its attempts.
fn check_task_log(log: &[EventOut], task: &Task) -> BTreeMap<u32, SandboxId> {
    use Status::{Assigned, Cancelled, Claiming, Completed, Failed, Pending, Running};
    let mut attempts: BTreeMap<u32, SandboxId> = BTreeMap::new();
    // `claims` counts since the last retry by a user.
    let (mut status, mut placed, mut claims, mut current) = (None, false, 0, None);
    let mut not_before: Option<Timestamp> = None;
    for event in log {
        let context = || format!("{}: at {} in {:#?}", task.id, event.seq, describe(log));
        let text = |field: &str| event.event_data.string(field);
        let check_sandbox = || assert_eq!(text("sandbox_id"), current, "{}", context());
        let name = event.event_type.as_str().strip_prefix("task.").unwrap_or_else(|| panic!("{}", context()));
        let active = matches!(status, Some(Claiming | Assigned | Running));
        let finished = matches!(status, Some(Completed | Failed | Cancelled));
        status = Some(match name {
            "created" => {
                assert!(status.is_none(), "{}", context());
                Pending
            }
            "ready" => {
                assert!(status == Some(Pending) && !placed, "{}", context());
                assert!(not_before.is_none_or(|when| event.created_at >= when), "too early: {}", context());
                placed = true;
                Pending
            }
            "claimed" => {
                assert!(status == Some(Pending) && placed, "{}", context());
                (placed, claims, current) = (false, claims + 1, text("sandbox_id"));
                let number = attempts.len() as u32 + 1;
                assert!(event.event_data.text().contains(&format!("\"attempt\":{number}")), "{}", context());
                let sandbox = SandboxId::parse(current.clone().unwrap()).unwrap();
                assert!(!attempts.values().any(|earlier| *earlier == sandbox), "{}", context());
                attempts.insert(number, sandbox);
                assert!(claims <= 1 + task.max_retries, "too many attempts: {}", context());
                Claiming
            }
            "assigned" => {
                assert_eq!(status, Some(Claiming), "{}", context());
                check_sandbox();
                Assigned
            }
            "started" => {
                assert!(matches!(status, Some(Claiming | Assigned)), "{}", context());
                check_sandbox();
                Running
            }
            "completed" => {
                assert!(active, "{}", context());
                check_sandbox();
                Completed
            }
            "retrying" if event.event_data.text().contains("\"manual\":true") => {
                assert!(matches!(status, Some(Failed | Cancelled)), "{}", context());
                (claims, current, not_before) = (0, None, None);
                Pending
            }
            "retrying" => {
                assert!(active, "{}", context());
                check_sandbox();
                current = None;
                not_before = text("not_before").and_then(|when| Timestamp::parse(&when));
                Pending
            }
            "failed" | "cancelled" => {
                assert!(!finished && status.is_some(), "{}", context());
                (placed, current) = (false, None);
                if name == "failed" { Failed } else { Cancelled }
            }
            _ => panic!("{}", context()),
        });
    }
    assert_eq!(status, Some(task.status), "{}: {:#?}", task.id, describe(log));
    assert_eq!(attempts.len() as u32, task.attempt, "{}: {:#?}", task.id, describe(log));
    attempts
}

/// Checks that a sandbox's log is a valid sequence of transitions. Returns the status that it ends in.
fn check_sandbox_log(log: &[EventOut]) -> SandboxStatus {
    use SandboxStatus::{Completed, Completing, Creating, Failed, Pending, Running, Terminated};
    const STAGES: [&str; 6] = ["pending", "preparing", "creating", "uploading", "starting", "spawned"];
    let (mut status, mut stage, mut released) = (None, 0, false);
    for event in log {
        let context = || format!("at {} in {:#?}", event.seq, describe(log));
        assert!(!released, "event after release: {}", context());
        let Some(name) = event.event_type.as_str().strip_prefix("sandbox.") else { continue };
        let finished = matches!(status, Some(Completed | Failed | Terminated));
        status = match name {
            "released" => {
                assert!(finished, "{}", context());
                released = true;
                status
            }
            "retrying" => {
                assert!(status == Some(Creating), "{}", context());
                status
            }
            "running" => {
                assert!(status == Some(Creating) && stage == STAGES.len(), "{}", context());
                Some(Running)
            }
            "completing" => {
                assert_eq!(status, Some(Running), "{}", context());
                Some(Completing)
            }
            "completed" => {
                assert_eq!(status, Some(Completing), "{}", context());
                Some(Completed)
            }
            "failed" | "terminated" | "terminated_idle" => {
                assert!(!finished, "{}", context());
                Some(if name == "failed" { Failed } else { Terminated })
            }
            provisioning => {
                assert_eq!(Some(&provisioning), STAGES.get(stage), "{}", context());
                assert!(matches!(status, None | Some(Pending | Creating)), "{}", context());
                stage += 1;
                Some(if stage == 1 { Pending } else { Creating })
            }
        };
    }
    assert!(released, "{:#?}", describe(log));
    status.unwrap()
}
