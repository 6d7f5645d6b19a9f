//! What holds of [`next`], whatever the thresholds: it never turns in a circle, nothing is stuck, and each reason to end
//! a sandbox has its moment.

use super::*;
use crate::attempt::{Assignment, Spawn};
use crate::task::transitions::tests::in_state;
use crate::{JsonObject, OrgId, SandboxId, TaskId};

/// The one place that asks.
fn due(sandbox: &Sandbox, task: Option<&Task>, now: Timestamp) -> Step {
    next(sandbox, task, &Thresholds::default(), now)
}

const STATUSES: [Status; 9] = [
    Status::Registered,
    Status::Pending,
    Status::Creating,
    Status::Running,
    Status::Completing,
    Status::Completed,
    Status::Failed,
    Status::Terminated,
    Status::Unknown,
];
const STAGES: [Stage; 6] =
    [Stage::Recorded, Stage::Preparing, Stage::Creating, Stage::Uploading, Stage::Starting, Stage::Started];
const TASKS: [&str; 10] = [
    "waiting",
    "queued",
    "claiming",
    "assigned",
    "running",
    "validating",
    "needs_revision",
    "completed",
    "failed",
    "cancelled",
];
/// Just now, within every threshold, and long after.
const NOWS: [i64; 4] = [0, 20, 400, 100_000];

/// How the one thing that is due goes.
#[derive(Debug, Clone, Copy)]
enum Goes {
    /// It is done.
    Well,
    /// It fails, and is to be done again a little later.
    Badly,
    /// Whoever began it dies, and their lease is not over.
    Nowhere,
}

#[test]
fn a_step_that_was_done_is_not_due_again_at_once() {
    let mut steps = 0;
    for (sandbox, task) in everything() {
        for now in NOWS.map(at) {
            for goes in [Goes::Well, Goes::Badly, Goes::Nowhere] {
                steps += follow(sandbox.clone(), task.clone(), now, goes);
            }
        }
    }
    assert!(steps > 10_000, "hardly anything was due: {steps}");
}

/// Does what is due at one moment until nothing is, and says how much that was.
fn follow(mut sandbox: Sandbox, mut task: Option<Task>, now: Timestamp, goes: Goes) -> usize {
    let mut done: Vec<Step> = Vec::new();
    loop {
        let step = due(&sandbox, task.as_ref(), now);
        let about = || format!("{step:?} at {now:?}, after {done:?}: {sandbox:?} for {task:?}");
        check_sensible(&step, &sandbox, task.as_ref(), now, &about);
        if let Step::Wait { .. } = step {
            return done.len();
        }
        assert!(!done.contains(&step), "a circle: {}", about());
        assert!(done.len() < 20, "no end of it: {}", about());
        apply(&step, &mut sandbox, &mut task, now, goes);
        done.push(step);
    }
}

fn check_sensible(
    step: &Step,
    sandbox: &Sandbox,
    task: Option<&Task>,
    now: Timestamp,
    about: &dyn Fn() -> String,
) {
    assert!(
        sandbox.needs_reconcile() || *step == Step::Wait { until: None },
        "it needs no care: {}",
        about()
    );
    let outcome = &sandbox.activity.outcome;
    match step {
        Step::Wait { until } => assert!(until.is_none_or(|until| until > now), "it is time: {}", about()),
        Step::Provision(_) => {
            assert!(
                matches!(sandbox.status, Status::Pending | Status::Creating) && outcome.is_none(),
                "{}",
                about()
            );
            assert!(is_its_own(sandbox, task), "nobody needs it: {}", about());
        }
        Step::End(_) => assert!(outcome.is_none(), "it has ended: {}", about()),
        Step::UpdateTask(_) => assert!(is_its_own(sandbox, task), "the task is not its own: {}", about()),
        Step::Release => {
            assert!(outcome.is_some(), "nobody knows what came of it: {}", about());
            assert!(!is_its_own(sandbox, task), "its task does not know what came of it: {}", about());
        }
    }
}

/// What whoever tends a sandbox writes, in short.
fn apply(step: &Step, sandbox: &mut Sandbox, task: &mut Option<Task>, now: Timestamp, goes: Goes) {
    let attempt =
        Attempt { number: sandbox.assignment.as_ref().unwrap().attempt, sandbox: sandbox.id.clone() };
    let spawn = sandbox.activity.spawn.as_mut().unwrap();
    match step {
        Step::Wait { .. } => {}
        Step::Provision(stage) => {
            sandbox.status = Status::Creating;
            *spawn = if spawn.stage == *stage { spawn.clone() } else { spawn.at(*stage, now) };
            match goes {
                Goes::Well => *spawn = spawn.at(stage.next().expect("a stage that is made has a next"), now),
                Goes::Badly => spawn.retry_at = Some(now.plus_secs(1)),
                Goes::Nowhere => spawn.lease_until = Some(now.plus_secs(60)),
            }
        }
        Step::End(end) => {
            let (status, _, outcome) = end.outcome(now);
            (sandbox.status, sandbox.activity.outcome) = (status, Some(outcome));
            spawn.left_at.get_or_insert(now);
        }
        Step::UpdateTask(settlement) => {
            let before = task.take().expect("there is a task to settle");
            let moved = match settlement {
                TaskUpdate::Assigned => before.assign(&attempt, now),
                TaskUpdate::Started => before.start(&attempt, now),
                TaskUpdate::Finished(Outcome::Done { result, .. }) => before.complete(&attempt, result, now),
                TaskUpdate::Finished(Outcome::Failed { error, class, .. }) => {
                    before.fail(&attempt, error, *class, 0.5, now)
                }
                TaskUpdate::Finished(Outcome::CalledOff { reason, .. }) => before.cancel(reason, now),
            };
            *task = Some(moved.unwrap_or_else(|| panic!("{settlement:?} cannot happen to {before:?}")).task);
        }
        Step::Release => match goes {
            Goes::Well => spawn.released_at = Some(now),
            Goes::Badly => spawn.retry_at = Some(now.plus_secs(2)),
            Goes::Nowhere => spawn.lease_until = Some(now.plus_secs(60)),
        },
    }
}

#[test]
fn a_sandbox_that_is_released_or_was_not_made_by_the_plane_needs_no_care() {
    let mut checked_at = 0;
    for (mut sandbox, task) in everything() {
        checked_at += 1;
        sandbox.activity.spawn.as_mut().unwrap().released_at = Some(at(0));
        assert_eq!(due(&sandbox, task.as_ref(), at(100_000)), Step::Wait { until: None }, "{sandbox:?}");
        sandbox.activity.spawn = None;
        assert_eq!(due(&sandbox, task.as_ref(), at(100_000)), Step::Wait { until: None }, "{sandbox:?}");
        sandbox.assignment = None;
        assert_eq!(due(&sandbox, task.as_ref(), at(100_000)), Step::Wait { until: None }, "{sandbox:?}");
    }
    assert!(checked_at > 1_000);
}

/// Whatever is killed, and however silent everybody is: after a day there is something to do, until it is gone.
#[test]
fn an_agent_that_is_done_before_anybody_looked_has_begun_first() {
    let done = Outcome::Failed { error: "it went wrong".into(), class: Class::Transient, at: at(5) };
    for (state, heard, due_first) in [
        ("claiming", true, TaskUpdate::Started),
        ("assigned", true, TaskUpdate::Started),
        ("running", true, TaskUpdate::Finished(done.clone())),
        ("assigned", false, TaskUpdate::Finished(done.clone())),
    ] {
        let mut sandbox = sandbox(Status::Completing, Stage::Started);
        running_since(&mut sandbox, heard.then_some(at(1)));
        sandbox.activity.outcome = Some(done.clone());
        assert_eq!(due(&sandbox, Some(&own(state)), at(6)), Step::UpdateTask(due_first), "{state}");
    }
}

#[test]
fn nothing_is_stuck_for_ever() {
    for (mut sandbox, mut task) in everything() {
        let ended = sandbox.status.is_final() || sandbox.status == Status::Completing;
        let is_real = !matches!(sandbox.status, Status::Registered | Status::Unknown)
            && ended == sandbox.activity.outcome.is_some();
        if !is_real {
            continue;
        }
        let mut now = at(0);
        for _ in 0..40 {
            if !sandbox.needs_reconcile() {
                break;
            }
            now = now.plus_secs(86_400);
            loop {
                match due(&sandbox, task.as_ref(), now) {
                    Step::Wait { .. } => break,
                    step => apply(&step, &mut sandbox, &mut task, now, Goes::Well),
                }
            }
        }
        assert!(!sandbox.needs_reconcile(), "stuck: {sandbox:?} for {task:?}");
        assert!(!is_its_own(&sandbox, task.as_ref()), "its task is stuck: {task:?}");
    }
}

/// What brings a sandbox into the state in which a sweep ends it, at the latest moment at which it does not yet.
type Setting = fn(&mut Sandbox, &mut Option<Task>, &Thresholds) -> i64;

/// One row per reason that can be seen from the head: how it comes to that, and the task's state.
const REASONS: [(&str, &str, Setting); 7] = [
    ("dead", "running", |sandbox, _, thresholds| {
        // It worked until it fell silent.
        running(sandbox, "working", 0, 0);
        thresholds.heartbeat_timeout_secs
    }),
    ("stuck_running", "running", |sandbox, _, thresholds| {
        running(sandbox, "working", thresholds.stuck_running_secs, 0);
        thresholds.stuck_running_secs
    }),
    ("idle_timeout", "running", |sandbox, _, thresholds| {
        running(sandbox, "waiting", thresholds.idle_secs, 0);
        thresholds.idle_secs
    }),
    ("stuck_creating", "assigned", |sandbox, _, thresholds| {
        making(sandbox, Stage::Creating);
        thresholds.creating_secs
    }),
    ("never_started", "assigned", |sandbox, _, thresholds| {
        making(sandbox, Stage::Started);
        thresholds.start_secs
    }),
    ("timeout", "running", |sandbox, task, _| {
        running(sandbox, "working", 60, 60);
        task.as_mut().unwrap().timeout_secs = Some(60);
        60
    }),
    ("timeout", "assigned", |sandbox, task, _| {
        // Also if its task was not told yet that it runs.
        running(sandbox, "working", 60, 60);
        task.as_mut().unwrap().timeout_secs = Some(60);
        60
    }),
];

#[test]
fn each_reason_to_end_a_sandbox_has_its_moment() {
    let thresholds = Thresholds::default();
    for (reason, state, setting) in REASONS {
        let mut sandbox = sandbox(Status::Running, Stage::Started);
        let mut task = Some(own(state));
        let secs = setting(&mut sandbox, &mut task, &thresholds);
        let before = due(&sandbox, task.as_ref(), at(secs - 1));
        assert!(!matches!(before, Step::End(_)), "{reason}, a second too early: {before:?}");
        let step = due(&sandbox, task.as_ref(), at(secs));
        let Step::End(end) = step else { panic!("{reason} after {secs} s: {step:?}") };
        assert_eq!((end.cause.as_str(), end.since), (reason, at(0)), "{sandbox:?}");
        // A sign of life, and it goes on; what takes too long as a whole does not.
        if sandbox.status == Status::Running && reason != "timeout" {
            running(&mut sandbox, "working", secs, secs);
            let step = due(&sandbox, task.as_ref(), at(secs));
            assert!(!matches!(step, Step::End(_)), "{reason}, and then a sign of life: {step:?}");
        }
    }
}

#[test]
fn a_sandbox_whose_task_is_over_or_elsewhere_is_not_needed() {
    for status in [Status::Pending, Status::Creating, Status::Running] {
        for (task, needed) in tasks() {
            let step = due(&sandbox(status, Stage::Recorded), task.as_ref(), at(0));
            let ends = matches!(&step, Step::End(end) if end.cause == Cause::NotNeeded);
            assert_eq!(ends, !needed, "{status:?} for {task:?}: {step:?}");
        }
    }
}

/// What is said of each end, what the sandbox is then, and whether its task is tried again.
const ENDS: [(Cause, &str, Status, &str, &str); 8] = [
    (Cause::Dead, "dead", Status::Failed, "failed", "tried again"),
    (Cause::Idle, "idle_timeout", Status::Terminated, "terminated_idle", "fails"),
    (Cause::Stuck, "stuck_running", Status::Terminated, "terminated_idle", "tried again"),
    (Cause::NotMade, "stuck_creating", Status::Failed, "failed", "tried again"),
    (Cause::NeverHeard, "never_started", Status::Failed, "failed", "tried again"),
    (Cause::TimedOut, "timeout", Status::Failed, "failed", "fails"),
    (Cause::Lost, "lost", Status::Failed, "failed", "tried again"),
    (Cause::NotNeeded, "not_needed", Status::Terminated, "terminated", "called off"),
];

#[test]
fn each_end_is_told_by_its_name_and_tried_again_if_that_may_help() {
    for (cause, name, status, turn, then) in ENDS {
        let end = End { cause, since: at(0) };
        let (seen, told, outcome) = end.outcome(at(9));
        assert_eq!((cause.as_str(), seen, told), (name, status, turn));
        let follows = match &outcome {
            Outcome::Failed { class: Class::Transient, .. } => "tried again",
            Outcome::Failed { class: Class::Permanent, .. } => "fails",
            Outcome::CalledOff { .. } => "called off",
            Outcome::Done { .. } => "is done",
        };
        assert_eq!(follows, then, "{name}");
        assert!(cause.sentence().ends_with('.'), "{name}: words for people are sentences");
        // And its task follows it, once.
        let mut ended = sandbox(seen, Stage::Started);
        ended.activity.outcome = Some(outcome.clone());
        let task = own("running");
        assert_eq!(
            due(&ended, Some(&task), at(9)),
            Step::UpdateTask(TaskUpdate::Finished(outcome)),
            "{name}"
        );
    }
}

/// A worker that is done may say what it has left to say; one that was never heard has nothing to say.
#[test]
fn a_sandbox_is_removed_when_its_worker_has_left_or_had_its_time() {
    let thresholds = Thresholds::default();
    let task = own("completed");
    let mut sandbox = sandbox(Status::Completing, Stage::Started);
    sandbox.activity.outcome = Some(Outcome::Done { result: JsonObject::empty(), at: at(0) });
    running_since(&mut sandbox, Some(at(0)));
    let over = at(thresholds.completing_secs);
    assert_eq!(due(&sandbox, Some(&task), at(1)), Step::Wait { until: Some(over) });
    assert_eq!(due(&sandbox, Some(&task), over), Step::Release);
    let mut left = sandbox.clone();
    left.activity.spawn.as_mut().unwrap().left_at = Some(at(1));
    assert_eq!(due(&left, Some(&task), at(1)), Step::Release);
    running_since(&mut sandbox, None);
    assert_eq!(due(&sandbox, Some(&task), at(1)), Step::Release);
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + secs)
}

/// Every status, stage and outcome of a sandbox, with every state of its task.
fn everything() -> impl Iterator<Item = (Sandbox, Option<Task>)> {
    let result = JsonObject::of(&serde_json::json!({"output": "done"}));
    let outcomes = [
        None,
        Some(Outcome::Done { result, at: at(0) }),
        Some(Outcome::Failed { error: "away".into(), class: Class::Transient, at: at(0) }),
        Some(Outcome::Failed { error: "forbidden".into(), class: Class::Permanent, at: at(0) }),
        Some(Outcome::CalledOff { reason: "enough".into(), at: at(0) }),
    ];
    STATUSES.into_iter().flat_map(move |status| {
        let outcomes = outcomes.clone();
        STAGES.into_iter().flat_map(move |stage| {
            let sandboxes = outcomes.clone().into_iter().map(move |outcome| {
                let mut sandbox = sandbox(status, stage);
                sandbox.activity.outcome = outcome;
                sandbox
            });
            sandboxes.flat_map(|sandbox| tasks().into_iter().map(move |(task, _)| (sandbox.clone(), task)))
        })
    })
}

/// Every state of a task, with whether it needs this sandbox: gone, on another try, and on this one.
fn tasks() -> Vec<(Option<Task>, bool)> {
    let mut tasks = vec![(None, false)];
    for state in TASKS {
        let (mine, mut elsewhere) = (own(state), own(state));
        elsewhere.attempt += 1;
        elsewhere.sandbox = Some(SandboxId::parse("s-3").unwrap());
        let active = mine.status.is_active();
        tasks.extend([(Some(mine), active), (Some(elsewhere), false)]);
    }
    tasks
}

/// The task of the sandbox below.
fn own(state: &str) -> Task {
    in_state(state)
}

fn is_its_own(sandbox: &Sandbox, task: Option<&Task>) -> bool {
    let attempt = Attempt { number: 2, sandbox: sandbox.id.clone() };
    task.is_some_and(|task| task.is_current(&attempt) && task.status.is_active())
}

/// A sandbox that came to this just now.
fn sandbox(status: Status, stage: Stage) -> Sandbox {
    let assignment = Assignment {
        task: TaskId::parse("t-1").unwrap(),
        ticket: None,
        attempt: 2,
        provider: "process".into(),
    };
    let (id, org) = (SandboxId::parse("s-2").unwrap(), OrgId::parse("acme").unwrap());
    let mut head = Sandbox::assigned(id, org, "a try".into(), assignment, at(0));
    head.status = status;
    head.activity.spawn = Some(Spawn::recorded(at(0)).at(stage, at(0)));
    if status == Status::Running {
        running_since(&mut head, Some(at(0)));
    }
    head
}

fn running_since(sandbox: &mut Sandbox, since: Option<Timestamp>) {
    sandbox.activity.spawn.as_mut().unwrap().running_since = since;
}

fn making(sandbox: &mut Sandbox, stage: Stage) {
    *sandbox = self::sandbox(Status::Creating, stage);
}

/// One that has run since 0, with its latest heartbeat and its latest work.
fn running(sandbox: &mut Sandbox, status: &str, heartbeat: i64, work: i64) {
    *sandbox = self::sandbox(Status::Running, Stage::Started);
    let activity = &mut sandbox.activity;
    (activity.heartbeats.last_at, activity.last_event_at) = (Some(at(heartbeat)), Some(at(heartbeat)));
    activity.heartbeats.last_status = Some(status.to_owned());
    activity.last_work_at = Some(at(work));
}
