//! Properties of [`next`]: it never loops, no sandbox is stuck, and each cause of an end applies exactly at its threshold.

use super::*;
use crate::attempt::{Assignment, Provisioning};
use crate::event::payloads::SandboxEnd;
use crate::sandbox::transitions::Trigger;
use crate::task::TaskBranch;
use crate::task::transitions::tests::in_state;
use crate::{JsonObject, OrgId, SandboxId, TaskId};

fn due(sandbox: &Sandbox, task: Option<&Task>, now: Timestamp) -> Step {
    next(sandbox, task, &Thresholds::default(), now)
}

const STAGES: [Stage; 6] =
    [Stage::Recorded, Stage::Preparing, Stage::Creating, Stage::Uploading, Stage::Starting, Stage::Started];
const TASKS: [&str; 11] = [
    "waiting",
    "queued",
    "claiming",
    "assigned",
    "running",
    "completing",
    "validating",
    "needs_revision",
    "completed",
    "failed",
    "cancelled",
];
/// Immediately, within every threshold, and long after.
const NOWS: [i64; 4] = [0, 20, 400, 100_000];

/// The result of a step.
#[derive(Debug, Clone, Copy)]
enum StepResult {
    Done,
    /// It fails and is to be retried a little later.
    Failed,
    /// The process that began it dies, and its lease has not expired.
    Abandoned,
}

#[test]
fn a_completed_step_is_not_due_again_immediately() {
    let mut steps = 0;
    for (sandbox, task) in everything() {
        for now in NOWS.map(at) {
            for result in [StepResult::Done, StepResult::Failed, StepResult::Abandoned] {
                steps += follow(sandbox.clone(), task.clone(), now, result);
            }
        }
    }
    assert!(steps > 10_000, "too few steps were due: {steps}");
}

/// Applies the steps that are due at `now` until none is. Returns their number.
fn follow(mut sandbox: Sandbox, mut task: Option<Task>, now: Timestamp, result: StepResult) -> usize {
    let mut done: Vec<Step> = Vec::new();
    loop {
        let step = due(&sandbox, task.as_ref(), now);
        let about = || format!("{step:?} at {now:?}, after {done:?}: {sandbox:?} for {task:?}");
        check_sensible(&step, &sandbox, task.as_ref(), now, &about);
        if let Step::Wait { .. } = step {
            return done.len();
        }
        assert!(!done.contains(&step), "a loop: {}", about());
        assert!(done.len() < 20, "it does not end: {}", about());
        apply(&step, &mut sandbox, &mut task, now, result);
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
        "it needs no reconciliation: {}",
        about()
    );
    let outcome = &sandbox.activity.outcome;
    match step {
        Step::Wait { until } => {
            assert!(until.is_none_or(|until| until > now), "the wait has already ended: {}", about());
        }
        Step::Provision(_) => {
            assert!(
                matches!(sandbox.status(), Status::Pending | Status::Creating) && outcome.is_none(),
                "{}",
                about()
            );
            assert!(is_current_for(sandbox, task), "its task does not need it: {}", about());
        }
        Step::End(_) => assert!(outcome.is_none(), "it has an outcome: {}", about()),
        Step::UpdateTask(_) => {
            assert!(is_current_for(sandbox, task), "it is not the task's current sandbox: {}", about());
        }
        Step::OpenPullRequest => {
            assert!(is_current_for(sandbox, task), "it is not the task's current sandbox: {}", about());
            assert!(task.is_some_and(|task| task.branch.is_some()), "there is no branch: {}", about());
        }
        Step::Release => {
            assert!(outcome.is_some(), "it has no outcome: {}", about());
            assert!(!is_current_for(sandbox, task), "its task does not have the outcome: {}", about());
        }
    }
}

/// A short form of what `app::reconcile::sandbox` writes.
fn apply(step: &Step, sandbox: &mut Sandbox, task: &mut Option<Task>, now: Timestamp, result: StepResult) {
    let attempt =
        Attempt { number: sandbox.assignment.as_ref().unwrap().attempt, sandbox: sandbox.id.clone() };
    match step {
        Step::Wait { .. } => {}
        Step::Provision(stage) => {
            sandbox.transition(Trigger::ProvisioningStarted);
            let provisioning = sandbox.activity.provisioning.as_mut().unwrap();
            *provisioning = if provisioning.stage == *stage {
                provisioning.clone()
            } else {
                provisioning.at(*stage, now)
            };
            match result {
                StepResult::Done => {
                    *provisioning =
                        provisioning.at(stage.next().expect("only Started has no next stage"), now);
                }
                StepResult::Failed => provisioning.retry_at = Some(now.plus_secs(1)),
                StepResult::Abandoned => provisioning.lease_until = Some(now.plus_secs(60)),
            }
        }
        Step::End(end) => {
            sandbox.transition(Trigger::Ended(end.cause));
            sandbox.activity.outcome = Some(end.outcome(now).1);
            let provisioning = sandbox.activity.provisioning.as_mut().unwrap();
            if !end.cause.worker_may_live() {
                provisioning.worker_exited_at.get_or_insert(now);
            }
        }
        Step::UpdateTask(update) => {
            let before = task.take().expect("there is a task to update");
            let transition = match update {
                TaskUpdate::Assigned => before.assign(&attempt, now),
                TaskUpdate::Started => before.start(&attempt, now),
                TaskUpdate::Completing => before.completing(&attempt, now),
                TaskUpdate::Finished(Outcome::Completed { result, .. }) => {
                    before.complete(&attempt, result, now)
                }
                TaskUpdate::Finished(Outcome::Failed { error, class, .. }) => {
                    before.fail(&attempt, error, *class, 0.5, now)
                }
                TaskUpdate::Finished(Outcome::Cancelled { reason, .. }) => before.cancel(reason, now),
            };
            *task =
                Some(transition.unwrap_or_else(|| panic!("{update:?} does not apply to {before:?}")).task);
        }
        Step::OpenPullRequest => {
            let provisioning = sandbox.activity.provisioning.as_mut().unwrap();
            match result {
                StepResult::Done => {
                    let before = task.take().expect("there is a task with a branch");
                    let done = before.complete(&attempt, &JsonObject::empty(), now);
                    *task = Some(done.expect("an active task can be completed").task);
                }
                StepResult::Failed => provisioning.retry_at = Some(now.plus_secs(2)),
                StepResult::Abandoned => provisioning.lease_until = Some(now.plus_secs(60)),
            }
        }
        Step::Release => {
            let provisioning = sandbox.activity.provisioning.as_mut().unwrap();
            match result {
                StepResult::Done => provisioning.released_at = Some(now),
                StepResult::Failed => provisioning.retry_at = Some(now.plus_secs(2)),
                StepResult::Abandoned => provisioning.lease_until = Some(now.plus_secs(60)),
            }
        }
    }
}

#[test]
fn a_released_or_registered_sandbox_needs_no_reconciliation() {
    let mut checked = 0;
    for (mut sandbox, task) in everything() {
        checked += 1;
        sandbox.activity.provisioning.as_mut().unwrap().released_at = Some(at(0));
        assert_eq!(due(&sandbox, task.as_ref(), at(100_000)), Step::Wait { until: None }, "{sandbox:?}");
        sandbox.activity.provisioning = None;
        assert_eq!(due(&sandbox, task.as_ref(), at(100_000)), Step::Wait { until: None }, "{sandbox:?}");
        sandbox.assignment = None;
        assert_eq!(due(&sandbox, task.as_ref(), at(100_000)), Step::Wait { until: None }, "{sandbox:?}");
    }
    assert!(checked > 1_000);
}

#[test]
fn a_task_is_started_before_its_attempt_is_finished() {
    let failed = Outcome::Failed { error: "out of disk".into(), class: Class::Transient, at: at(5) };
    for (state, has_reported, due_first) in [
        ("claiming", true, TaskUpdate::Started),
        ("assigned", true, TaskUpdate::Started),
        ("running", true, TaskUpdate::Finished(failed.clone())),
        ("assigned", false, TaskUpdate::Finished(failed.clone())),
    ] {
        let mut sandbox = sandbox(Status::Completing, Stage::Started);
        running_since(&mut sandbox, has_reported.then_some(at(1)));
        sandbox.activity.outcome = Some(failed.clone());
        assert_eq!(due(&sandbox, Some(&own(state)), at(6)), Step::UpdateTask(due_first), "{state}");
    }
}

/// Whatever is killed, and even if no worker reports: each day something is due, until the sandbox is released.
#[test]
fn every_sandbox_is_released_eventually() {
    for (mut sandbox, mut task) in everything() {
        let ended = sandbox.status().is_final() || sandbox.status() == Status::Completing;
        let is_real = !matches!(sandbox.status(), Status::Registered | Status::Unknown)
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
                    step => apply(&step, &mut sandbox, &mut task, now, StepResult::Done),
                }
            }
        }
        assert!(!sandbox.needs_reconcile(), "stuck: {sandbox:?} for {task:?}");
        assert!(!is_current_for(&sandbox, task.as_ref()), "its task is stuck: {task:?}");
    }
}

/// Brings a sandbox into a state that a sweep will end. Returns after how many seconds that is due.
type Setup = fn(&mut Sandbox, &mut Option<Task>, &Thresholds) -> i64;

/// A row per cause: the state of the task, and how the sandbox gets there.
const CAUSES: [(&str, &str, Setup); 7] = [
    ("dead", "running", |sandbox, _, thresholds| {
        // It worked until its heartbeats stopped.
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
        provisioning(sandbox, Stage::Creating);
        thresholds.creating_secs
    }),
    ("never_started", "assigned", |sandbox, _, thresholds| {
        provisioning(sandbox, Stage::Started);
        thresholds.start_secs
    }),
    ("timeout", "running", |sandbox, task, _| {
        running(sandbox, "working", 60, 60);
        task.as_mut().unwrap().timeout_secs = Some(60);
        60
    }),
    ("timeout", "assigned", |sandbox, task, _| {
        // Also if its task is not marked as started yet.
        running(sandbox, "working", 60, 60);
        task.as_mut().unwrap().timeout_secs = Some(60);
        60
    }),
];

#[test]
fn each_cause_applies_exactly_at_its_threshold() {
    let thresholds = Thresholds::default();
    for (reason, state, setup) in CAUSES {
        let mut sandbox = sandbox(Status::Running, Stage::Started);
        let mut task = Some(own(state));
        let secs = setup(&mut sandbox, &mut task, &thresholds);
        let before = due(&sandbox, task.as_ref(), at(secs - 1));
        assert!(!matches!(before, Step::End(_)), "{reason}, a second too early: {before:?}");
        let step = due(&sandbox, task.as_ref(), at(secs));
        let Step::End(end) = step else { panic!("{reason} after {secs} s: {step:?}") };
        assert_eq!((end.cause.as_str(), end.since), (reason, at(0)), "{sandbox:?}");
        // A heartbeat resets it, except for the timeout of the whole task.
        if sandbox.status() == Status::Running && reason != "timeout" {
            running(&mut sandbox, "working", secs, secs);
            let step = due(&sandbox, task.as_ref(), at(secs));
            assert!(!matches!(step, Step::End(_)), "{reason}, and then a heartbeat: {step:?}");
        }
    }
}

#[test]
fn a_sandbox_without_a_current_attempt_is_not_needed() {
    for status in [Status::Pending, Status::Creating, Status::Running] {
        for (task, needed) in tasks() {
            let step = due(&sandbox(status, Stage::Recorded), task.as_ref(), at(0));
            let ends = matches!(&step, Step::End(end) if end.cause == Cause::NotNeeded);
            assert_eq!(ends, !needed, "{status:?} for {task:?}: {step:?}");
        }
    }
}

/// For each cause: its name, the status of the sandbox, the lifecycle event, and what happens to the task.
const ENDS: [(Cause, &str, Status, &str, &str); 9] = [
    (Cause::Dead, "dead", Status::Failed, "sandbox.failed", "is retried"),
    (Cause::IdleTimeout, "idle_timeout", Status::Terminated, "sandbox.terminated_idle", "fails"),
    (Cause::StuckRunning, "stuck_running", Status::Terminated, "sandbox.terminated_idle", "is retried"),
    (Cause::StuckStarting, "stuck_starting", Status::Terminated, "sandbox.terminated_idle", "is retried"),
    (Cause::StuckCreating, "stuck_creating", Status::Failed, "sandbox.failed", "is retried"),
    (Cause::NeverStarted, "never_started", Status::Failed, "sandbox.failed", "is retried"),
    (Cause::TimedOut, "timeout", Status::Failed, "sandbox.failed", "fails"),
    (Cause::Lost, "lost", Status::Failed, "sandbox.failed", "is retried"),
    (Cause::NotNeeded, "not_needed", Status::Terminated, "sandbox.terminated", "is cancelled"),
];

#[test]
fn each_cause_has_a_status_an_event_and_an_outcome() {
    let listed = ENDS.map(|(cause, ..)| cause);
    assert!(Cause::ALL.iter().all(|cause| listed.contains(cause)), "{listed:?}");
    for (cause, name, status, event, then) in ENDS {
        let mut ended = sandbox(Status::Running, Stage::Started);
        assert!(ended.transition(Trigger::Ended(cause)), "{name}");
        let (emitted, outcome) = End { cause, since: at(0) }.outcome(at(9));
        let emitted = End { cause, since: at(0) }.event(emitted, SandboxEnd::default()).event_type;
        assert_eq!((cause.as_str(), ended.status(), emitted.as_str()), (name, status, event));
        let follows = match &outcome {
            Outcome::Failed { class: Class::Transient, .. } => "is retried",
            Outcome::Failed { class: Class::Permanent, .. } => "fails",
            Outcome::Cancelled { .. } => "is cancelled",
            Outcome::Completed { .. } => "is completed",
        };
        assert_eq!(follows, then, "{name}");
        assert!(cause.sentence().ends_with('.'), "{name}: texts for people are sentences");
        // Its task follows.
        ended.activity.outcome = Some(outcome.clone());
        let task = own("running");
        assert_eq!(
            due(&ended, Some(&task), at(9)),
            Step::UpdateTask(TaskUpdate::Finished(outcome)),
            "{name}"
        );
    }
}

/// A worker that never reported has nothing to flush.
#[test]
fn a_sandbox_is_released_when_its_worker_exits_or_the_grace_period_ends() {
    let thresholds = Thresholds::default();
    let task = own("completed");
    let mut sandbox = sandbox(Status::Completing, Stage::Started);
    sandbox.activity.outcome = Some(Outcome::Completed { result: JsonObject::empty(), at: at(0) });
    running_since(&mut sandbox, Some(at(0)));
    let deadline = at(thresholds.completing_secs);
    assert_eq!(due(&sandbox, Some(&task), at(1)), Step::Wait { until: Some(deadline) });
    assert_eq!(due(&sandbox, Some(&task), deadline), Step::Release);
    let mut exited = sandbox.clone();
    exited.activity.provisioning.as_mut().unwrap().worker_exited_at = Some(at(1));
    assert_eq!(due(&exited, Some(&task), at(1)), Step::Release);
    running_since(&mut sandbox, None);
    assert_eq!(due(&sandbox, Some(&task), at(1)), Step::Release);
}

/// The plane removes a sandbox only after its worker had time to save the work, unless the worker is dead.
#[test]
fn worker_that_lives_has_time_to_save_when_the_plane_ends_its_sandbox() {
    let thresholds = Thresholds::default();
    let task = own("cancelled");
    let mut ended = sandbox(Status::Terminated, Stage::Started);
    ended.activity.outcome = Some(Outcome::Cancelled { reason: "too slow".into(), at: at(1_000) });
    running_since(&mut ended, Some(at(0)));
    let deadline = at(1_000 + thresholds.completing_secs);
    for (last_sign, expected) in [
        (at(999), Step::Wait { until: Some(deadline) }),
        (at(1_001 - thresholds.heartbeat_timeout_secs), Step::Wait { until: Some(deadline) }),
        (at(1_000 - thresholds.heartbeat_timeout_secs), Step::Release),
    ] {
        ended.activity.heartbeats.last_at = Some(last_sign);
        assert_eq!(due(&ended, Some(&task), at(1_001)), expected, "{last_sign}");
        assert_eq!(due(&ended, Some(&task), deadline), Step::Release);
    }
    ended.activity.heartbeats.last_at = Some(at(999));
    ended.activity.provisioning.as_mut().unwrap().worker_exited_at = Some(at(1_001));
    assert_eq!(due(&ended, Some(&task), at(1_001)), Step::Release);
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + secs)
}

/// Every status, stage and outcome of a sandbox, with every state of its task.
fn everything() -> impl Iterator<Item = (Sandbox, Option<Task>)> {
    let result = JsonObject::of(&serde_json::json!({"output": "done"}));
    let outcomes = [
        None,
        Some(Outcome::Completed { result, at: at(0) }),
        Some(Outcome::Failed { error: "connection refused".into(), class: Class::Transient, at: at(0) }),
        Some(Outcome::Failed { error: "forbidden".into(), class: Class::Permanent, at: at(0) }),
        Some(Outcome::Cancelled { reason: "enough".into(), at: at(0) }),
    ];
    Status::ALL.into_iter().flat_map(move |status| {
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

/// Every state of a task, and whether it needs this sandbox: deleted, in another attempt, and in this one, without a branch
/// and with one.
fn tasks() -> Vec<(Option<Task>, bool)> {
    let mut tasks = vec![(None, false)];
    for state in TASKS {
        let (mine, mut elsewhere) = (own(state), own(state));
        elsewhere.attempt += 1;
        elsewhere.sandbox = Some(SandboxId::parse("s-3").unwrap());
        let active = mine.status.is_active();
        tasks.extend([
            (Some(with_branch(mine.clone())), active),
            (Some(mine), active),
            (Some(elsewhere), false),
        ]);
    }
    tasks
}

fn with_branch(task: Task) -> Task {
    let branch = TaskBranch {
        name: "feature/k-1".into(),
        base: "main".into(),
        base_commit: "5f2c".into(),
        pull_request: None,
    };
    Task { branch: Some(branch), ..task }
}

#[test]
fn a_task_with_a_branch_completes_through_its_pull_request() {
    let mut sandbox = sandbox(Status::Completing, Stage::Started);
    sandbox.activity.outcome = Some(Outcome::Completed { result: JsonObject::empty(), at: at(0) });
    running_since(&mut sandbox, Some(at(0)));
    let running = with_branch(own("running"));
    assert_eq!(due(&sandbox, Some(&running), at(1)), Step::UpdateTask(TaskUpdate::Completing));
    let completing = with_branch(own("completing"));
    assert_eq!(due(&sandbox, Some(&completing), at(1)), Step::OpenPullRequest);
    sandbox.activity.provisioning.as_mut().unwrap().retry_at = Some(at(9));
    assert_eq!(due(&sandbox, Some(&completing), at(1)), Step::Wait { until: Some(at(9)) });
    sandbox.activity.outcome = Some(Outcome::failed("connection refused", at(0)));
    let due = due(&sandbox, Some(&running), at(1));
    assert!(
        matches!(due, Step::UpdateTask(TaskUpdate::Finished(_))),
        "a failed attempt proposes nothing: {due:?}"
    );
}

/// The task of the sandbox below.
fn own(state: &str) -> Task {
    in_state(state)
}

fn is_current_for(sandbox: &Sandbox, task: Option<&Task>) -> bool {
    let attempt = Attempt { number: 2, sandbox: sandbox.id.clone() };
    task.is_some_and(|task| task.is_current(&attempt) && task.status.is_active())
}

/// A sandbox that has just reached this status.
fn sandbox(status: Status, stage: Stage) -> Sandbox {
    let assignment = Assignment {
        task: TaskId::parse("t-1").unwrap(),
        ticket: None,
        attempt: 2,
        provider: "process".into(),
    };
    let (id, org) = (SandboxId::parse("s-2").unwrap(), OrgId::parse("acme").unwrap());
    let mut sandbox = Sandbox::assigned(id, org, "an attempt".into(), assignment, at(0)).with_status(status);
    sandbox.activity.provisioning = Some(Provisioning::recorded(at(0)).at(stage, at(0)));
    if status == Status::Running {
        running_since(&mut sandbox, Some(at(0)));
    }
    sandbox
}

fn running_since(sandbox: &mut Sandbox, since: Option<Timestamp>) {
    sandbox.activity.provisioning.as_mut().unwrap().running_since = since;
}

fn provisioning(sandbox: &mut Sandbox, stage: Stage) {
    *sandbox = self::sandbox(Status::Creating, stage);
}

/// Running since 0, with its latest heartbeat and its latest work.
fn running(sandbox: &mut Sandbox, status: &str, heartbeat: i64, work: i64) {
    *sandbox = self::sandbox(Status::Running, Stage::Started);
    let activity = &mut sandbox.activity;
    (activity.heartbeats.last_at, activity.last_event_at) = (Some(at(heartbeat)), Some(at(heartbeat)));
    activity.heartbeats.last_status = Some(status.to_owned());
    activity.last_work_at = Some(at(work));
}
