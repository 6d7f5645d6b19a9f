//! Every move from every state, by the try that counts and by others.

use super::*;
use crate::task::{Execution, MAX_RETRIES, Priority};
use crate::{OrgId, TicketId};
use proptest::prelude::*;

/// What each move makes of a task: a row per move, a column per state, and a dot where nothing happens. `waiting` and
/// `queued` are `pending` without and with a place in the queue. A move that only the task's own try can make
/// (`its try`) does nothing by any other.
const MOVES: &str = "
move                | by      | told           | waiting   | queued    | claiming   | assigned   | running    | validating     | needs_revision | completed | failed | cancelled
ready               | anybody | ready          | queued    | .         | .          | .          | .          | .              | .              | .         | .      | .
claim               | anybody | claimed        | .         | claiming  | .          | .          | .          | .              | .              | .         | .      | .
assign              | its try | assigned       | .         | .         | assigned   | .          | .          | .              | .              | .         | .      | .
start               | its try | started        | .         | .         | running    | running    | .          | .              | .              | .         | .      | .
complete            | its try | completed      | .         | .         | completed  | completed  | completed  | .              | .              | .         | .      | .
complete, to judge  | its try | validating     | .         | .         | validating | validating | validating | .              | .              | .         | .      | .
fail, may pass      | its try | retrying       | .         | .         | waiting    | waiting    | waiting    | .              | .              | .         | .      | .
fail, too often     | its try | failed         | .         | .         | failed     | failed     | failed     | .              | .              | .         | .      | .
fail, for good      | its try | failed         | .         | .         | failed     | failed     | failed     | .              | .              | .         | .      | .
judge, good         | its try | completed      | .         | .         | .          | .          | .          | completed      | .              | .         | .      | .
judge, bad          | its try | needs_revision | .         | .         | .          | .          | .          | needs_revision | .              | .         | .      | .
nobody judges       | anybody | failed         | .         | .         | .          | .          | .          | failed         | .              | .         | .      | .
revise              | anybody | ready          | .         | .         | .          | .          | .          | .              | queued         | .         | .      | .
revise, too often   | anybody | failed         | .         | .         | .          | .          | .          | .              | failed         | .         | .      | .
cancel              | anybody | cancelled      | cancelled | cancelled | cancelled  | cancelled  | cancelled  | cancelled      | cancelled      | .         | .      | .
give up             | anybody | failed         | failed    | failed    | failed     | failed     | failed     | failed         | failed         | .         | .      | .
retry               | anybody | retrying ready | .         | .         | .          | .          | .          | .              | .              | .         | queued | queued
";

fn make(name: &str, task: &Task, attempt: &Attempt) -> Option<Transition> {
    let (now, weights) = (at(NOW), &Weights::default());
    let result = JsonObject::of(&json!({"output": "done"}));
    let with = |change: &dyn Fn(&mut Task)| {
        let mut task = task.clone();
        change(&mut task);
        task
    };
    match name {
        "ready" => task.ready(weights, now),
        "claim" => task.claim(SandboxId::parse("s-3").unwrap(), now),
        "assign" => task.assign(attempt, now),
        "start" => task.start(attempt, now),
        "complete" => task.complete(attempt, &result, now),
        "complete, to judge" => with(&|task| task.validation = true).complete(attempt, &result, now),
        "fail, may pass" => task.fail(attempt, "away", Class::Transient, 0.5, now),
        "fail, too often" => {
            with(&|task| task.retry_count = MAX_RETRIES).fail(attempt, "away", Class::Transient, 0.5, now)
        }
        "fail, for good" => task.fail(attempt, "forbidden", Class::Permanent, 0.5, now),
        "judge, good" => task.validated(attempt, true, "well done", now),
        "judge, bad" => task.validated(attempt, false, "no tests", now),
        "nobody judges" => task.validation_timed_out("nobody looked", now),
        "revise" => task.revise(weights, now),
        "revise, too often" => with(&|task| task.revisions = MAX_REVISIONS).revise(weights, now),
        "cancel" => task.cancel("not needed", now),
        "give up" => task.give_up("it is no use", now),
        "retry" => task.retry(weights, now),
        other => panic!("the table has a move that there is none of: {other}"),
    }
}

#[test]
fn what_comes_late_again_or_from_another_sandbox_moves_no_task() {
    let mut rows = MOVES.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let states = &header[3..];
    let seen: Vec<Status> = states.iter().map(|state| in_state(state).status).collect();
    assert!(Status::ALL.iter().all(|status| seen.contains(status)), "every status has a column: {seen:?}");
    for row in rows {
        assert_eq!(row.len(), header.len(), "{row:?}");
        let (name, only_its_try, told) = (row[0], row[1] == "its try", row[2]);
        for (state, expected) in states.iter().zip(&row[3..]) {
            let before = in_state(state);
            let moved = make(name, &before, &current());
            let after = moved.as_ref().map_or(".", |moved| state_of(&moved.task));
            assert_eq!(after, *expected, "{name} of a task that is {state}");
            for foreign in others() {
                let by_another = make(name, &before, &foreign);
                if only_its_try {
                    assert_eq!(by_another, None, "{name} of a task that is {state}, by {foreign:?}");
                } else {
                    assert_eq!(by_another, moved, "{name} is nobody's in particular");
                }
            }
            if let Some(moved) = moved {
                check_whole(name, &before, &moved, told);
                assert_eq!(
                    make(name, &moved.task, &current()),
                    None,
                    "{name} of a task that is {state}, again"
                );
            }
        }
    }
}

/// What holds of every task after every move.
fn check_whole(name: &str, before: &Task, moved: &Transition, told: &str) {
    let after = &moved.task;
    let names: Vec<&str> = moved.events.iter().map(|told| told.event_type.as_str()).collect();
    let expected: Vec<String> = told.split(' ').map(|turn| format!("task.{turn}")).collect();
    assert_eq!(names, expected, "{name}");
    for told in &moved.events {
        assert_eq!(told.data.string("task_id").as_deref(), Some("t-1"), "{name}: {:?}", told.data);
        assert_eq!(told.data.string("ticket_id").as_deref(), Some("k-1"), "{name}: {:?}", told.data);
    }
    assert_eq!((after.version, after.updated_at), (before.version + 1, at(NOW)), "{name}");
    assert_eq!((after.seq, after.segments), (before.seq, before.segments), "its log is the store's: {name}");
    assert_eq!(after.completed_at, after.status.is_final().then_some(at(NOW)), "{name}");
    let since = if after.status == before.status { before.since } else { at(NOW) };
    assert_eq!(after.since, since, "{name}");
    assert!(
        after.place.is_none() || after.status == Status::Pending,
        "only what waits stands in the queue: {name}"
    );
    assert!(after.attempt == before.attempt || name == "claim", "a try begins with a claim: {name}");
    assert!(after.sandbox == before.sandbox || name == "claim", "and so does its sandbox: {name}");
    let waits = after.status == Status::Pending && after.place.is_none();
    assert!(!waits || after.needs_reconcile(), "somebody looks after what waits: {name}");
}

#[test]
fn a_task_waits_for_what_it_depends_on_and_until_it_may_be_tried_again() {
    let weights = Weights::default();
    let waiting = in_state("waiting");
    let later = Task { not_before: Some(at(NOW + 1)), ..waiting.clone() };
    assert_eq!(later.ready(&weights, at(NOW)), None);
    assert!(later.ready(&weights, at(NOW + 1)).is_some());
    let blocked = Task { unmet: 2, depends_on: vec![id("t-a"), id("t-b")], ..waiting };
    assert_eq!(blocked.ready(&weights, at(NOW)), None);
    assert_eq!(blocked.unblocked(&id("t-c"), &weights, at(NOW)), None, "it does not wait for that one");
    let half = blocked.unblocked(&id("t-a"), &weights, at(NOW)).unwrap();
    assert_eq!((half.task.unmet, half.task.place.is_some(), half.events.len()), (1, false, 0));
    let free = half.task.unblocked(&id("t-b"), &weights, at(NOW)).unwrap();
    assert_eq!((free.task.unmet, state_of(&free.task)), (0, "queued"));
    assert_eq!(free.task.unblocked(&id("t-b"), &weights, at(NOW)), None, "it waits for nothing any more");
}

/// Nobody begins it while it is over, and it does not wait for ever once somebody wants it after all.
#[test]
fn a_task_that_is_over_is_unblocked_and_not_begun() {
    let weights = Weights::default();
    for state in ["completed", "failed", "cancelled"] {
        let over = Task { unmet: 1, depends_on: vec![id("t-a")], ..in_state(state) };
        let unblocked = over.unblocked(&id("t-a"), &weights, at(NOW)).unwrap();
        assert_eq!((unblocked.task.unmet, state_of(&unblocked.task)), (0, state));
        assert!(unblocked.events.is_empty(), "{state}");
    }
}

#[test]
fn a_revision_is_told_what_was_said_and_a_new_try_is_another() {
    let judged = in_state("validating").validated(&current(), false, "no tests", at(NOW)).unwrap().task;
    assert_eq!(judged.feedback.as_deref(), Some("no tests"));
    let back = judged.revise(&Weights::default(), at(NOW)).unwrap().task;
    assert_eq!((back.revisions, state_of(&back)), (1, "queued"));
    let again = back.claim(SandboxId::parse("s-3").unwrap(), at(NOW)).unwrap().task;
    assert_eq!((again.attempt, again.feedback.as_deref()), (3, Some("no tests")));
    for late in ["assign", "start", "complete", "fail, for good"] {
        assert_eq!(make(late, &again, &current()), None, "{late} by the try that was judged");
    }
}

proptest! {
    /// Whatever is done to it by whomever, in whatever order, a task begins a try only with a claim, is tried again by
    /// itself no more often than it may be, and what is told of it is what it is.
    #[test]
    fn a_task_is_tried_no_more_often_than_it_may_be(
        steps in proptest::collection::vec((0usize..64, 0usize..5), 0..120),
    ) {
        let names: Vec<&str> = MOVES.trim().lines().skip(1)
            .map(|line| line.split('|').next().unwrap().trim())
            .filter(|name| !["fail, too often", "revise, too often", "complete, to judge"].contains(name)).collect();
        let mut task = in_state("queued");
        (task.validation, task.attempt, task.sandbox) = (true, 0, None);
        let (mut claims, mut asked) = (0, 1);
        for (pick, by) in steps {
            let name = names[pick % names.len()];
            let own = task.sandbox.clone().map(|sandbox| Attempt { number: task.attempt, sandbox });
            let attempt = if by == 4 { others()[pick % 4].clone() } else { own.unwrap_or_else(current) };
            let Some(moved) = make(name, &task, &attempt) else { continue };
            claims += u32::from(name == "claim");
            asked += u32::from(name == "retry");
            prop_assert_eq!(moved.task.attempt, claims);
            task = moved.task;
            // Time passes.
            task.not_before = task.not_before.map(|_| at(NOW));
            prop_assert!(task.retry_count <= task.max_retries && task.revisions <= MAX_REVISIONS);
        }
        prop_assert!(claims <= asked * (1 + MAX_RETRIES + MAX_REVISIONS), "{} tries, asked for {} times", claims, asked);
    }
}

const NOW: i64 = 1_000;

pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

/// The try that counts.
pub(crate) fn current() -> Attempt {
    Attempt { number: 2, sandbox: SandboxId::parse("s-2").unwrap() }
}

/// An older try, and some that never were: another sandbox, and other tries in the same one.
fn others() -> [Attempt; 4] {
    [(1, "s-1"), (2, "s-9"), (1, "s-2"), (3, "s-2")]
        .map(|(number, sandbox)| Attempt { number, sandbox: SandboxId::parse(sandbox).unwrap() })
}

/// A task of two tries in this state.
pub(crate) fn in_state(state: &str) -> Task {
    let status = match state {
        "waiting" | "queued" => Status::Pending,
        other => Status::ALL.into_iter().find(|status| status.as_str() == other).unwrap(),
    };
    Task {
        id: id("t-1"),
        org: OrgId::parse("acme").unwrap(),
        ticket: Some(TicketId::parse("k-1").unwrap()),
        project: None,
        task_type: "implement_feature".into(),
        title: "Count the words".into(),
        description: "Of a text.".into(),
        phase: "PHASE_IMPLEMENTATION".into(),
        priority: Priority::Medium,
        status,
        created_at: at(0),
        updated_at: at(500),
        started_at: Some(at(100)),
        completed_at: status.is_final().then_some(at(500)),
        since: at(500),
        depends_on: Vec::new(),
        unmet: 0,
        dependents: 0,
        place: (state == "queued").then_some(Place { rank: 7, deadline_at: None }),
        attempt: 2,
        sandbox: Some(current().sandbox),
        retry_count: 1,
        max_retries: MAX_RETRIES,
        not_before: (state == "waiting").then_some(at(NOW)),
        timeout_secs: None,
        deadline_at: None,
        validation: false,
        feedback: None,
        revisions: 0,
        result: None,
        error: None,
        execution: Execution::default(),
        digest: None,
        version: 9,
        seq: 12,
        segments: 8,
    }
}

/// What the column of a task in the table is called.
pub(crate) fn state_of(task: &Task) -> &'static str {
    match (task.status, &task.place) {
        (Status::Pending, None) => "waiting",
        (Status::Pending, Some(_)) => "queued",
        (status, _) => status.as_str(),
    }
}
