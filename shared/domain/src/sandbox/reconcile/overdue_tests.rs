//! Timeouts, and from when they are counted.

use super::*;
use crate::attempt::Assignment;
use crate::{OrgId, SandboxId, TaskId};
use serde_json::json;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

/// A sandbox that was created at 0, and its task.
fn sandbox(status: Status, stage: Stage) -> (Sandbox, Task) {
    let org = OrgId::parse("acme").unwrap();
    let id = SandboxId::parse("s-1").unwrap();
    let assignment = Assignment {
        task: TaskId::parse("t-1").unwrap(),
        ticket: None,
        attempt: 1,
        provider: "process".into(),
    };
    let mut sandbox = Sandbox::assigned(id, org, "a task".into(), assignment, at(0)).with_status(status);
    let provisioning = sandbox.activity.provisioning.as_mut().unwrap();
    provisioning.stage = stage;
    provisioning.running_since = (status == Status::Running).then(|| at(0));
    let task = serde_json::from_value(json!({
        "id": "t-1", "org": "acme", "task_type": "x", "title": "x", "description": "", "phase": "p",
        "priority": "MEDIUM", "status": "running", "created_at": at(0), "updated_at": at(0), "since": at(0),
        "max_retries": 3, "version": 1, "attempt": 1, "sandbox": "s-1",
    }));
    (sandbox, task.unwrap())
}

fn cause(step: &Step) -> Option<&'static str> {
    match step {
        Step::End(end) => Some(end.cause.as_str()),
        _ => None,
    }
}

/// Each of these sandboxes has exceeded a timeout. After an outage of the plane, each gets the whole time again.
#[test]
fn timeouts_restart_after_an_outage_of_the_plane() {
    let hour = 3_600;
    let with_heartbeat = |status: &str| {
        let (mut sandbox, task) = sandbox(Status::Running, Stage::Started);
        sandbox.activity.heartbeats.last_at = Some(at(hour - 1));
        sandbox.activity.heartbeats.last_status = Some(status.into());
        (sandbox, task)
    };
    let mut late = with_heartbeat("working");
    late.0.activity.last_work_at = Some(at(hour - 1));
    late.1.timeout_secs = Some(600);
    let cases = [
        ("dead", 120, sandbox(Status::Running, Stage::Started)),
        ("idle_timeout", 600, with_heartbeat("waiting")),
        ("stuck_running", 900, with_heartbeat("working")),
        ("stuck_starting", 2_100, with_heartbeat("starting")),
        ("stuck_creating", 300, sandbox(Status::Creating, Stage::Uploading)),
        ("never_started", 180, sandbox(Status::Creating, Stage::Started)),
        ("timeout", 120, late),
    ];
    let thresholds = Thresholds::default();
    for (expected, secs, (mut sandbox, task)) in cases {
        let (back, now) = (hour, at(hour));
        assert_eq!(cause(&next(&sandbox, Some(&task), &thresholds, now)), Some(expected));
        let mut due = |now: i64| {
            if expected != "dead" {
                sandbox.activity.heartbeats.last_at = Some(at(now - 1));
            }
            cause(&next_since(&sandbox, Some(&task), &thresholds, Some(at(back)), at(now)))
        };
        assert_eq!(due(back), None, "{expected} immediately");
        assert_eq!(due(back + secs - 1), None, "{expected} a second before");
        assert_eq!(due(back + secs), Some(expected));
    }
}

#[test]
fn time_with_an_open_breaker_does_not_count() {
    let (mut sandbox, task) = sandbox(Status::Creating, Stage::Creating);
    let due = |sandbox: &Sandbox, now| cause(&next(sandbox, Some(&task), &Thresholds::default(), at(now)));
    assert_eq!(due(&sandbox, 300), Some("stuck_creating"));
    sandbox.activity.provisioning.as_mut().unwrap().held_until = Some(at(280));
    assert_eq!(due(&sandbox, 579), None);
    assert_eq!(due(&sandbox, 580), Some("stuck_creating"));
}

#[test]
fn infrastructure_failures_are_transient() {
    let class = |cause| match (End { cause, since: at(0) }).outcome(at(1)).1 {
        Outcome::Failed { class, .. } => Some(class),
        _ => None,
    };
    use Cause::*;
    for cause in [Dead, StuckRunning, StuckStarting, StuckCreating, NeverStarted, Lost] {
        assert_eq!(class(cause), Some(Class::Transient), "{cause:?}");
    }
    for cause in [IdleTimeout, TimedOut] {
        assert_eq!(class(cause), Some(Class::Permanent), "{cause:?}");
    }
}
