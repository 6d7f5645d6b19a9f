//! Every transition in every state, by the current attempt and by others.

use super::*;
use crate::feedback::{Feedback, Rounds};
use crate::task::{Execution, MAX_RETRIES, Priority, PullRequestLink, TaskBranch};
use crate::{OrgId, TicketId};
use proptest::prelude::*;
use serde_json::json;

/// A row per transition, a column per state, and a dot where the transition does not apply. `waiting` and `queued` are
/// `pending` without and with a place in the queue. A transition by `current` is ignored from any other attempt.
const TRANSITIONS: &str = "
transition            | by      | events         | waiting   | queued    | claiming   | assigned   | running    | completing | validating     | needs_revision | completed | failed | cancelled
ready                 | any     | ready          | queued    | .         | .          | .          | .          | .          | .              | .              | .         | .      | .
claim                 | any     | claimed        | .         | claiming  | .          | .          | .          | .          | .              | .              | .         | .      | .
assign                | current | assigned       | .         | .         | assigned   | .          | .          | .          | .              | .              | .         | .      | .
start                 | current | started        | .         | .         | running    | running    | .          | .          | .              | .              | .         | .      | .
branch created        | current | branch_created | .         | .         | claiming   | assigned   | .          | .          | .              | .              | .         | .      | .
completing            | current | completing     | .         | .         | completing | completing | completing | .          | .              | .              | .         | .      | .
complete              | current | completed      | .         | .         | completed  | completed  | completed  | completed  | .              | .              | .         | .      | .
complete, with review | current | validating     | .         | .         | validating | validating | validating | validating | .              | .              | .         | .      | .
fail, transient       | current | retrying       | .         | .         | waiting    | waiting    | waiting    | waiting    | .              | .              | .         | .      | .
fail, no retries left | current | failed         | .         | .         | failed     | failed     | failed     | failed     | .              | .              | .         | .      | .
fail, permanent       | current | failed         | .         | .         | failed     | failed     | failed     | failed     | .              | .              | .         | .      | .
review, passed        | current | completed      | .         | .         | .          | .          | .          | .          | completed      | .              | .         | .      | .
review, rejected      | current | needs_revision | .         | .         | .          | .          | .          | .          | needs_revision | .              | .         | .      | .
review timeout        | any     | failed         | .         | .         | .          | .          | .          | .          | failed         | .              | .         | .      | .
revise                | any     | ready          | .         | .         | .          | .          | .          | .          | .              | queued         | .         | .      | .
revise, none left     | any     | failed         | .         | .         | .          | .          | .          | .          | .              | failed         | .         | .      | .
cancel                | any     | cancelled      | cancelled | cancelled | cancelled  | cancelled  | cancelled  | cancelled  | cancelled      | cancelled      | .         | .      | .
mark failed           | any     | failed         | failed    | failed    | failed     | failed     | failed     | failed     | failed         | failed         | .         | .      | .
retry                 | any     | retrying ready | .         | .         | .          | .          | .          | .          | .              | .              | .         | queued | queued
feedback              | any     | feedback_received ready | . | .        | .          | .          | .          | .          | .              | .              | queued    | .      | .
";

fn review(passed: bool, feedback: &str) -> Review<'_> {
    Review { passed, feedback, evidence: None }
}

fn branch() -> TaskBranch {
    TaskBranch {
        name: "feature/k-1-count-the-words".into(),
        base: "main".into(),
        base_commit: "5f2c".into(),
        pull_request: None,
    }
}

fn apply(name: &str, task: &Task, attempt: &Attempt) -> Option<Transition> {
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
        "branch created" => task.branch_created(attempt, branch(), "acme/shop", now),
        "completing" => task.completing(attempt, now),
        "complete" => task.complete(attempt, &result, now),
        "complete, with review" => with(&|task| task.validation = true).complete(attempt, &result, now),
        "fail, transient" => task.fail(attempt, "away", Class::Transient, 0.5, now),
        "fail, no retries left" => {
            with(&|task| task.retry_count = MAX_RETRIES).fail(attempt, "away", Class::Transient, 0.5, now)
        }
        "fail, permanent" => task.fail(attempt, "forbidden", Class::Permanent, 0.5, now),
        "review, passed" => task.reviewed(attempt, review(true, "well done"), now),
        "review, rejected" => task.reviewed(attempt, review(false, "no tests"), now),
        "review timeout" => task.validation_timed_out("no review", now),
        "revise" => task.revise(weights, now),
        "revise, none left" => with(&|task| task.revisions = MAX_REVISIONS).revise(weights, now),
        "cancel" => task.cancel("not needed", now),
        "mark failed" => task.mark_failed("does not work", now),
        "retry" => task.retry(weights, now),
        "feedback" => with(&|task| {
            let link = PullRequestLink { number: 7, url: "u".into(), commit: "a1".into(), merged_at: None };
            task.branch = Some(TaskBranch { pull_request: Some(link), ..branch() });
            task.rounds.get_or_insert(Rounds::new(7, at(500)));
        })
        .revise_for_feedback(&Feedback::default(), &[], weights, now),
        other => panic!("the table has an unknown transition: {other}"),
    }
}

#[test]
fn late_repeated_or_foreign_reports_change_nothing() {
    let mut rows = TRANSITIONS.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let states = &header[3..];
    let seen: Vec<Status> = states.iter().map(|state| in_state(state).status).collect();
    assert!(Status::ALL.iter().all(|status| seen.contains(status)), "every status has a column: {seen:?}");
    for row in rows {
        assert_eq!(row.len(), header.len(), "{row:?}");
        let (name, only_current, events) = (row[0], row[1] == "current", row[2]);
        for (state, expected) in states.iter().zip(&row[3..]) {
            let before = in_state(state);
            let transition = apply(name, &before, &current());
            let after = transition.as_ref().map_or(".", |transition| state_of(&transition.task));
            assert_eq!(after, *expected, "{name} in {state}");
            for foreign in others() {
                let by_another = apply(name, &before, &foreign);
                if only_current {
                    assert_eq!(by_another, None, "{name} in {state}, by {foreign:?}");
                } else {
                    assert_eq!(by_another, transition, "{name} does not depend on the attempt");
                }
            }
            if let Some(transition) = transition {
                check_invariants(name, &before, &transition, events);
                assert_eq!(apply(name, &transition.task, &current()), None, "{name} in {state}, again");
            }
        }
    }
}

/// What holds after every transition.
fn check_invariants(name: &str, before: &Task, transition: &Transition, events: &str) {
    let after = &transition.task;
    let names: Vec<&str> = transition.events.iter().map(|event| event.event_type.as_str()).collect();
    let expected: Vec<String> = events.split(' ').map(|name| format!("task.{name}")).collect();
    assert_eq!(names, expected, "{name}");
    for event in &transition.events {
        assert_eq!(event.data.string("task_id").as_deref(), Some("t-1"), "{name}: {:?}", event.data);
        assert_eq!(event.data.string("ticket_id").as_deref(), Some("k-1"), "{name}: {:?}", event.data);
    }
    assert_eq!((after.version, after.updated_at), (before.version + 1, at(NOW)), "{name}");
    assert_eq!((after.seq, after.segments), (before.seq, before.segments), "the store updates these: {name}");
    assert_eq!(after.completed_at, after.status.is_final().then_some(at(NOW)), "{name}");
    let since = if after.status == before.status { before.since } else { at(NOW) };
    assert_eq!(after.since, since, "{name}");
    assert!(
        after.place.is_none() || after.status == Status::Pending,
        "only a pending task is queued: {name}"
    );
    assert!(after.attempt == before.attempt || name == "claim", "only a claim begins an attempt: {name}");
    assert!(after.sandbox == before.sandbox || name == "claim", "only a claim changes the sandbox: {name}");
    let waits = after.status == Status::Pending && after.place.is_none();
    assert!(!waits || after.needs_reconcile(), "a waiting task is reconciled: {name}");
}

#[test]
fn a_task_waits_for_dependencies_and_for_its_retry_time() {
    let weights = Weights::default();
    let waiting = in_state("waiting");
    let later = Task { not_before: Some(at(NOW + 1)), ..waiting.clone() };
    assert_eq!(later.ready(&weights, at(NOW)), None);
    assert!(later.ready(&weights, at(NOW + 1)).is_some());
    let blocked = Task { unmet: 2, depends_on: vec![id("t-a"), id("t-b")], ..waiting };
    assert_eq!(blocked.ready(&weights, at(NOW)), None);
    assert_eq!(blocked.unblocked(&id("t-c"), &weights, at(NOW)), None, "not a dependency");
    let first = blocked.unblocked(&id("t-a"), &weights, at(NOW)).unwrap();
    assert_eq!((first.task.unmet, first.task.place.is_some(), first.events.len()), (1, false, 0));
    let second = first.task.unblocked(&id("t-b"), &weights, at(NOW)).unwrap();
    assert_eq!((second.task.unmet, state_of(&second.task)), (0, "queued"));
    assert_eq!(second.task.unblocked(&id("t-b"), &weights, at(NOW)), None, "no unmet dependency is left");
}

/// Otherwise a manual retry would wait forever.
#[test]
fn a_finished_task_is_unblocked_but_not_queued() {
    let weights = Weights::default();
    for state in ["completed", "failed", "cancelled"] {
        let finished = Task { unmet: 1, depends_on: vec![id("t-a")], ..in_state(state) };
        let unblocked = finished.unblocked(&id("t-a"), &weights, at(NOW)).unwrap();
        assert_eq!((unblocked.task.unmet, state_of(&unblocked.task)), (0, state));
        assert!(unblocked.events.is_empty(), "{state}");
    }
}

#[test]
fn a_revision_keeps_the_feedback_and_begins_a_new_attempt() {
    let review = review(false, "no tests");
    let reviewed = in_state("validating").reviewed(&current(), review, at(NOW)).unwrap().task;
    assert_eq!(reviewed.feedback.as_deref(), Some("no tests"));
    let back = reviewed.revise(&Weights::default(), at(NOW)).unwrap().task;
    assert_eq!((back.revisions, state_of(&back)), (1, "queued"));
    let again = back.claim(SandboxId::parse("s-3").unwrap(), at(NOW)).unwrap().task;
    assert_eq!((again.attempt, again.feedback.as_deref()), (3, Some("no tests")));
    for late in ["assign", "start", "complete", "fail, permanent"] {
        assert_eq!(apply(late, &again, &current()), None, "{late} by the attempt that was reviewed");
    }
}

#[test]
fn the_event_of_a_review_has_its_evidence_byte_for_byte() {
    let evidence: JsonObject =
        serde_json::from_str(r#"{"z":1e400, "a":123456789012345678901234567890,"text":"\u00e9"}"#).unwrap();
    for (passed, event_type) in [(true, "task.completed"), (false, "task.needs_revision")] {
        let review = Review { evidence: Some(&evidence), ..review(passed, "see below") };
        let events = in_state("validating").reviewed(&current(), review, at(NOW)).unwrap().events;
        assert_eq!(events[0].event_type.as_str(), event_type);
        let fields = events[0].data.fields();
        let (_, stored) = fields.iter().find(|(name, _)| name == "evidence").unwrap();
        assert_eq!(stored.get(), evidence.text());
    }
}

proptest! {
    /// Whatever the order of transitions, only a claim begins an attempt, and the number of attempts is limited.
    #[test]
    fn attempts_never_exceed_their_limit(
        steps in proptest::collection::vec((0usize..64, 0usize..5), 0..120),
    ) {
        let names: Vec<&str> = TRANSITIONS.trim().lines().skip(1)
            .map(|line| line.split('|').next().unwrap().trim())
            .filter(|name| !["fail, no retries left", "revise, none left", "complete, with review", "feedback"].contains(name)).collect();
        let mut task = in_state("queued");
        (task.validation, task.attempt, task.sandbox) = (true, 0, None);
        let (mut claims, mut requests) = (0, 1);
        for (pick, by) in steps {
            let name = names[pick % names.len()];
            let own = task.sandbox.clone().map(|sandbox| Attempt { number: task.attempt, sandbox });
            let attempt = if by == 4 { others()[pick % 4].clone() } else { own.unwrap_or_else(current) };
            let Some(transition) = apply(name, &task, &attempt) else { continue };
            claims += u32::from(name == "claim");
            requests += u32::from(name == "retry");
            prop_assert_eq!(transition.task.attempt, claims);
            task = transition.task;
            // Time passes.
            task.not_before = task.not_before.map(|_| at(NOW));
            prop_assert!(task.retry_count <= task.max_retries && task.revisions <= MAX_REVISIONS);
        }
        prop_assert!(claims <= requests * (1 + MAX_RETRIES + MAX_REVISIONS), "{} attempts for {} requests", claims, requests);
    }
}

const NOW: i64 = 1_000;

pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

/// The current attempt.
pub(crate) fn current() -> Attempt {
    Attempt { number: 2, sandbox: SandboxId::parse("s-2").unwrap() }
}

/// An older attempt, and some that do not exist: another sandbox, and other attempts in the same one.
fn others() -> [Attempt; 4] {
    [(1, "s-1"), (2, "s-9"), (1, "s-2"), (3, "s-2")]
        .map(|(number, sandbox)| Attempt { number, sandbox: SandboxId::parse(sandbox).unwrap() })
}

/// A task in its second attempt, in this state.
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
        branch: None,
        rounds: None,
        digest: None,
        version: 9,
        seq: 12,
        segments: 8,
    }
}

/// The column of a task in the table.
pub(crate) fn state_of(task: &Task) -> &'static str {
    match (task.status, &task.place) {
        (Status::Pending, None) => "waiting",
        (Status::Pending, Some(_)) => "queued",
        (status, _) => status.as_str(),
    }
}

#[test]
fn pull_request_is_opened_before_the_task_ends() {
    let link = |commit: &str| PullRequestLink {
        number: 7,
        url: "https://git.example/acme/shop/pull/7".into(),
        commit: commit.into(),
        merged_at: None,
    };
    let mut task = in_state("completing");
    task.branch = Some(branch());
    let completed = |task: &Task| task.complete(&current(), &JsonObject::empty(), at(NOW)).unwrap();
    let opened = completed(&task).with_pull_request(link("a1"));
    let names: Vec<&str> = opened.events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(names, ["task.pull_request_opened", "task.completed"]);
    assert_eq!(opened.events[0].data.string("commit").as_deref(), Some("a1"));
    assert_eq!(opened.task.branch.as_ref().unwrap().pull_request, Some(link("a1")));
    task.branch = opened.task.branch.clone();
    let updated = completed(&task).with_pull_request(link("b2"));
    assert!(updated.events[0].data.text().contains(r#""updated":true"#), "{:?}", updated.events);

    let merged = opened.task.merged("b2", "c3", at(NOW)).unwrap();
    assert_eq!(merged.task.branch.as_ref().unwrap().pull_request.as_ref().unwrap().commit, "b2");
    assert_eq!(merged.events[0].event_type.as_str(), "task.merged");
    assert_eq!(merged.task.status, Status::Completed);
    assert_eq!(merged.task.merged("b2", "c3", at(NOW)), None, "a repeated merge changes nothing");
    assert_eq!(task_without_pull_request().merged("b2", "c3", at(NOW)), None);
}

fn task_without_pull_request() -> Task {
    Task { branch: Some(branch()), ..in_state("completed") }
}
