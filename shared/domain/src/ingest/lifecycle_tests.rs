//! What each event of a worker does to a sandbox, in every state of the sandbox.

use super::*;
use crate::access::{Principal, Visibility, can_see};
use crate::attempt::{Assignment, Provisioning};
use crate::sandbox::Status;
use crate::{OrgId, SandboxId, TaskId};
use serde_json::json;

const MANY: Amount = Amount::new(1_000, 1 << 30);

/// The status of a provisioned sandbox after an event from its worker, and the lifecycle events that are emitted: a row
/// per event, a column per state, and a dot where nothing changes. `starting` is `creating` with a worker that may have
/// been started: before that, nothing has its token. The events are in numbered batches. The last two rows are
/// `POST …/task-complete`.
const EVENTS: &str = "
event                | pending | creating | starting                                 | running                 | completing | completed | failed | terminated | unknown
agent.heartbeat      | .       | .        | running (spawned running)                | .                       | .          | .         | .      | .          | .
agent.started        | .       | .        | running (spawned running)                | .                       | .          | .         | .      | .          | .
agent.message        | .       | .        | running (spawned running)                | .                       | .          | .         | .      | .          | .
agent.error          | .       | .        | running (spawned running)                | .                       | .          | .         | .      | .          | .
continuous.completed | .       | .        | running (spawned running)                | .                       | .          | .         | .      | .          | .
agent.shutdown       | .       | .        | running (spawned running)                | .                       | .          | .         | .      | .          | .
agent.completed      | .       | .        | completing (spawned running completing)  | completing (completing) | .          | .         | .      | .          | .
agent.failed         | .       | .        | failed (spawned running failed)          | failed (failed)         | .          | .         | .      | .          | .
reports success      | .       | .        | completing (spawned running completing)  | completing (completing) | .          | .         | .      | .          | .
reports failure      | .       | .        | failed (spawned running failed)          | failed (failed)         | .          | .         | .      | .          | .
";

#[test]
fn late_repeated_or_foreign_events_change_nothing() {
    let mut rows = EVENTS.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let states = rows.next().unwrap();
    for row in rows {
        assert_eq!(row.len(), states.len(), "{row:?}");
        for (state, expected) in states.iter().zip(&row).skip(1) {
            let before = in_state(state);
            let name = format!("{} in a sandbox that is {state}", row[0]);
            match row[0].strip_prefix("reports ") {
                Some(report) => check_report(&before, report == "success", expected, &name),
                None => check_event(&before, row[0], expected, &name),
            }
        }
    }
}

/// A running sandbox whose worker sends single events, and how each changes its status. `.` changes nothing.
const SINGLE_EVENTS: [(&[&str], &str); 5] = [
    (&["agent.started .", "agent.completed completing"], "a single run"),
    (
        &["continuous.started .", "agent.completed .", "agent.completed .", "continuous.completed failed"],
        "errors",
    ),
    (
        &["iteration.started .", "agent.completed .", "agent.failed failed", "continuous.completed ."],
        "a failure",
    ),
    (&["continuous.completed failed", "agent.completed ."], "only its end"),
    (&["agent.completed completing", "continuous.completed ."], "an end after the final report"),
];

#[test]
fn within_a_continuous_run_only_its_end_is_the_final_report() {
    for (events, name) in SINGLE_EVENTS {
        let mut sandbox = in_state("running");
        for line in events {
            let (event_type, expected) = line.split_once(' ').unwrap();
            let single = Batch::new(None, vec![event(event_type)], String::new());
            let decided = decide(&sandbox, &single, 100, MANY, at(9)).unwrap();
            let Decision::Store { next, .. } = decided else { panic!("{name}: {line}") };
            let seen = if next.status() == sandbox.status() { "." } else { next.status().as_str() };
            assert_eq!(seen, expected, "{name}: {line}");
            assert!(
                next.activity.outcome.is_none() || next.activity.continuous_run.is_none(),
                "{name}: {line}"
            );
            sandbox = *next;
        }
    }
}

/// A worker that numbers its batches reports a task once, after the end of its run, maybe in another batch.
#[test]
fn in_numbered_batches_the_end_of_a_run_is_no_final_report() {
    let mut sandbox = in_state("running");
    for (number, event_type) in (1..).zip(["continuous.started", "iteration.started", "continuous.completed"])
    {
        let decided = decide(&sandbox, &batch(2, number, event_type), 100, MANY, at(9)).unwrap();
        let Decision::Store { next, .. } = decided else { panic!("{event_type}") };
        assert_eq!((next.status(), &next.activity.continuous_run), (Status::Running, &None), "{event_type}");
        sandbox = *next;
    }
    let decided = decide(&sandbox, &batch(2, 4, "agent.completed"), 100, MANY, at(9)).unwrap();
    let Decision::Store { next, .. } = decided else { panic!("treated as a retry") };
    assert_eq!(next.status(), Status::Completing);
}

/// `POST …/task-complete` ends a task at any time.
#[test]
fn a_report_on_its_own_is_final_within_a_continuous_run() {
    let start = Batch::new(None, vec![event("continuous.started")], String::new());
    let decided = decide(&in_state("running"), &start, 100, MANY, at(9)).unwrap();
    let Decision::Store { next, .. } = decided else { panic!("treated as a retry") };
    assert!(next.activity.continuous_run.is_some());
    let (after, _) = final_report(&next, &event("agent.completed"), at(10)).unwrap();
    assert_eq!((after.status(), after.activity.continuous_run), (Status::Completing, None));
}

fn check_event(before: &Sandbox, event_type: &str, expected: &str, name: &str) {
    let batch = batch(2, 1, event_type);
    let Decision::Store { next, lifecycle_events, .. } = decide(before, &batch, 100, MANY, at(9)).unwrap()
    else {
        panic!("{name} was treated as a retry")
    };
    check(before, &next, &lifecycle_events, batch.events.len(), expected, name);
    let exited = next.activity.provisioning.as_ref().unwrap().worker_exited_at;
    assert_eq!(exited.is_some(), event_type == "agent.shutdown", "{name}");
    // A retry gets the original receipt.
    assert!(matches!(decide(&next, &batch, 100, MANY, at(10)).unwrap(), Decision::Repeat(_)), "{name}");
    // The same event in another batch: nothing is emitted twice, and the first outcome stays.
    let again = self::batch(2, 2, event_type);
    let Decision::Store { next: after, lifecycle_events, .. } =
        decide(&next, &again, 100, MANY, at(10)).unwrap()
    else {
        panic!("{name} was treated as a retry")
    };
    assert_eq!((after.status(), lifecycle_events), (next.status(), Vec::new()), "{name}, twice");
    assert_eq!(after.activity.outcome, next.activity.outcome, "{name}, twice");
    // Late, from a run of the worker before this one.
    let late = self::batch(1, 1, event_type);
    assert_eq!(
        decide(&next, &late, 100, MANY, at(10)),
        Err(Refusal::StaleEpoch { current: 2 }),
        "{name}, late"
    );
    // From another sandbox, or from this one with a revoked token.
    for (sandbox, generation) in [("s-9", 1), ("s-1", 0)] {
        let foreign = Principal::Worker { sandbox: SandboxId::parse(sandbox).unwrap(), generation };
        assert_ne!(can_see(&foreign, before), Visibility::Visible, "{name}, by the worker of {sandbox}");
    }
}

fn check_report(before: &Sandbox, success: bool, expected: &str, name: &str) {
    let report = event(if success { "agent.completed" } else { "agent.failed" });
    let Some((next, lifecycle_events)) = final_report(before, &report, at(9)) else {
        assert_eq!(expected, ".", "{name}");
        return;
    };
    check(before, &next, &lifecycle_events, 1, expected, name);
    for again in ["agent.completed", "agent.failed"] {
        assert_eq!(final_report(&next, &event(again), at(10)), None, "{name}, and then {again}");
    }
}

fn check(
    before: &Sandbox,
    next: &Sandbox,
    lifecycle_events: &[LifecycleEvent],
    events: usize,
    expected: &str,
    name: &str,
) {
    let names: Vec<&str> = lifecycle_events
        .iter()
        .map(|event| event.event_type.as_str().trim_start_matches("sandbox."))
        .collect();
    let seen = match (next.status() == before.status(), names.is_empty()) {
        (true, true) => ".".to_owned(),
        _ => format!("{} ({})", next.status().as_str(), names.join(" ")),
    };
    assert_eq!(seen, expected, "{name}");
    assert_eq!(
        next.seq,
        before.seq + (events + lifecycle_events.len()) as u64,
        "all events are counted: {name}"
    );
    assert_eq!(next.version, before.version + 1, "{name}");
    let ends = expected.starts_with("completing") || expected.starts_with("failed");
    match (&before.activity.outcome, &next.activity.outcome) {
        (None, after) => assert_eq!(after.is_some(), ends, "{name}"),
        (first, after) => assert_eq!(first, after, "the first final report counts: {name}"),
    }
    let (was, is) =
        (before.activity.provisioning.as_ref().unwrap(), next.activity.provisioning.as_ref().unwrap());
    let started = expected.contains("running (") || expected.contains(" running ");
    assert_eq!(is.running_since != was.running_since, started, "{name}");
    assert_eq!((&before.assignment, before.generation), (&next.assignment, next.generation), "{name}");
}

/// A sandbox that another system runs has no task: its reports do not end it.
#[test]
fn a_registered_sandbox_runs_and_ends_no_attempt() {
    for status in [Status::Registered, Status::Running, Status::Terminated] {
        let (id, org) = (SandboxId::parse("s-1").unwrap(), OrgId::parse("acme").unwrap());
        let before = Sandbox::new(id, org, None, at(0)).with_status(status);
        for event_type in ["agent.heartbeat", "agent.completed", "agent.failed", "agent.shutdown"] {
            let decided = decide(&before, &batch(1, 1, event_type), 100, MANY, at(9)).unwrap();
            let Decision::Store { next, lifecycle_events, .. } = decided else { panic!("{event_type}") };
            let expected = if status == Status::Terminated { status } else { Status::Running };
            assert_eq!((next.status(), lifecycle_events.len()), (expected, 0), "{event_type}");
            assert!(next.activity.outcome.is_none() && next.activity.provisioning.is_none(), "{event_type}");
        }
        assert_eq!(final_report(&before, &event("agent.completed"), at(9)), None);
    }
}

#[test]
fn the_first_final_report_of_a_batch_counts() {
    for (first, second, expected) in [
        ("agent.completed", "agent.failed", Status::Completing),
        ("agent.failed", "agent.completed", Status::Failed),
    ] {
        let number = Some(BatchNumber { epoch: 2, batch: 1 });
        let both = Batch::new(number, vec![event(first), event(second)], "both".into());
        let decided = decide(&in_state("running"), &both, 100, MANY, at(9)).unwrap();
        let Decision::Store { next, lifecycle_events, .. } = decided else { panic!("{first}") };
        assert_eq!((next.status(), lifecycle_events.len()), (expected, 1), "{first}, then {second}");
    }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn completed() -> Outcome {
    Outcome::Completed { result: JsonObject::empty(), at: at(5) }
}

fn event(name: &str) -> NewEvent {
    NewEvent {
        id: EventId::parse("e").unwrap(),
        event_type: EventType::parse(name).unwrap(),
        source: Source::Agent,
        data: JsonObject::of(&json!({"error": "out of disk"})),
        emitted_at: None,
    }
}

fn batch(epoch: u64, number: u64, event_type: &str) -> Batch {
    let number = BatchNumber { epoch, batch: number };
    Batch::new(Some(number), vec![event(event_type)], format!("{number:?} {event_type}"))
}

/// A provisioned sandbox in this state.
fn in_state(state: &str) -> Sandbox {
    let assignment = Assignment {
        task: TaskId::parse("t-1").unwrap(),
        ticket: None,
        attempt: 1,
        provider: "process".into(),
    };
    let (id, org) = (SandboxId::parse("s-1").unwrap(), OrgId::parse("acme").unwrap());
    let sandbox = Sandbox::assigned(id, org, "an attempt".into(), assignment, at(0));
    let (status, stage, outcome) = match state {
        "pending" => (Status::Pending, Stage::Recorded, None),
        "creating" => (Status::Creating, Stage::Uploading, None),
        "starting" => (Status::Creating, Stage::Starting, None),
        "running" => (Status::Running, Stage::Started, None),
        "completing" => (Status::Completing, Stage::Started, Some(completed())),
        "completed" => (Status::Completed, Stage::Started, Some(completed())),
        "failed" => (Status::Failed, Stage::Started, Some(Outcome::failed("broken", at(5)))),
        "terminated" => (
            Status::Terminated,
            Stage::Started,
            Some(Outcome::Cancelled { reason: "enough".into(), at: at(5) }),
        ),
        "unknown" => (Status::Unknown, Stage::Started, None),
        other => panic!("there is no state {other}"),
    };
    let mut provisioning = Provisioning::recorded(at(0)).at(stage, at(1));
    provisioning.running_since = (stage == Stage::Started).then_some(at(2));
    let mut sandbox = sandbox.with_status(status);
    (sandbox.activity.provisioning, sandbox.activity.outcome) = (Some(provisioning), outcome);
    sandbox
}
