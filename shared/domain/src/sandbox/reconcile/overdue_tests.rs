//! What takes too long, and from when that is counted.

use super::*;
use crate::attempt::Assignment;
use crate::{OrgId, SandboxId, TaskId};
use serde_json::json;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

/// A sandbox that was written down at 0, and its task.
fn sandbox(status: Status, stage: Stage) -> (Sandbox, Task) {
    let org = OrgId::parse("acme").unwrap();
    let id = SandboxId::parse("s-1").unwrap();
    let assignment = Assignment {
        task: TaskId::parse("t-1").unwrap(),
        ticket: None,
        attempt: 1,
        provider: "process".into(),
    };
    let mut head = Sandbox::assigned(id, org, "a task".into(), assignment, at(0));
    head.status = status;
    let spawn = head.activity.spawn.as_mut().unwrap();
    spawn.stage = stage;
    spawn.running_since = (status == Status::Running).then(|| at(0));
    let task = serde_json::from_value(json!({
        "id": "t-1", "org": "acme", "task_type": "x", "title": "x", "description": "", "phase": "p",
        "priority": "MEDIUM", "status": "running", "created_at": at(0), "updated_at": at(0), "since": at(0),
        "max_retries": 3, "version": 1, "attempt": 1, "sandbox": "s-1",
    }));
    (head, task.unwrap())
}

fn cause(step: &Step) -> Option<&'static str> {
    match step {
        Step::End(end) => Some(end.cause.as_str()),
        _ => None,
    }
}

/// Each of these would be given up by what is known of it; and each is given the whole time again by a plane that was
/// away and has come back.
#[test]
fn a_silence_counts_from_when_somebody_listened() {
    let hour = 3_600;
    let beating = |status: &str| {
        let (mut head, task) = sandbox(Status::Running, Stage::Started);
        head.activity.heartbeats.last_at = Some(at(hour - 1));
        head.activity.heartbeats.last_status = Some(status.into());
        (head, task)
    };
    let mut late = beating("working");
    late.0.activity.last_work_at = Some(at(hour - 1));
    late.1.timeout_secs = Some(600);
    let cases = [
        ("dead", 120, sandbox(Status::Running, Stage::Started)),
        ("idle_timeout", 600, beating("waiting")),
        ("stuck_running", 900, beating("working")),
        ("stuck_starting", 2_100, beating("starting")),
        ("stuck_creating", 300, sandbox(Status::Creating, Stage::Uploading)),
        ("never_started", 180, sandbox(Status::Creating, Stage::Started)),
        ("timeout", 120, late),
    ];
    let thresholds = Thresholds::default();
    for (expected, secs, (mut head, task)) in cases {
        let (back, now) = (hour, at(hour));
        assert_eq!(cause(&next(&head, Some(&task), &thresholds, now)), Some(expected));
        let mut due = |now: i64| {
            if expected != "dead" {
                head.activity.heartbeats.last_at = Some(at(now - 1));
            }
            cause(&next_since(&head, Some(&task), &thresholds, Some(at(back)), at(now)))
        };
        assert_eq!(due(back), None, "{expected} at once");
        assert_eq!(due(back + secs - 1), None, "{expected} a second before");
        assert_eq!(due(back + secs), Some(expected));
    }
}

#[test]
fn the_time_for_which_a_provider_is_left_alone_is_not_the_sandboxs_own() {
    let (mut head, task) = sandbox(Status::Creating, Stage::Creating);
    let due = |head: &Sandbox, now| cause(&next(head, Some(&task), &Thresholds::default(), at(now)));
    assert_eq!(due(&head, 300), Some("stuck_creating"));
    head.activity.spawn.as_mut().unwrap().held_until = Some(at(280));
    assert_eq!(due(&head, 579), None);
    assert_eq!(due(&head, 580), Some("stuck_creating"));
}

#[test]
fn what_was_nobodys_fault_is_tried_again() {
    let class = |cause| match (End { cause, since: at(0) }).outcome(at(1)).2 {
        Outcome::Failed { class, .. } => Some(class),
        _ => None,
    };
    use Cause::*;
    for cause in [Dead, Stuck, NotUp, NotMade, NeverHeard, Lost] {
        assert_eq!(class(cause), Some(Class::Transient), "{cause:?}");
    }
    for cause in [Idle, TimedOut] {
        assert_eq!(class(cause), Some(Class::Permanent), "{cause:?}");
    }
}
