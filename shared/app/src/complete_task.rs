//! A worker says what came of its task by another way than its log. It counts as if the log had said so.

use crate::error::Error;
use crate::sight::visible_head;
use crate::{orchestration, race, telling, tend_sandbox, unblock, work};
use contract::jobs::Job;
use contract::tasks::{Complete, Completed, Report};
use domain::access::Principal;
use domain::attempt::{Attempt, Outcome as TryOutcome, reported};
use domain::ingest::last_word;
use domain::task::Status;
use domain::{EventType, Head, JsonObject, SandboxId, Task, TaskId, Timestamp};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

/// What it touches.
pub type Deps<'a> = orchestration::Deps<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// By the worker of which sandbox.
    pub sandbox: SandboxId,
    /// What came of it.
    pub complete: Complete,
}

/// What became of the task.
pub type Outcome = Completed;

/// So many of those that waited for the task are named in the answer.
const MAX_NAMED: usize = 50;

/// A repeat does what the first may have left undone, and gets the same answer.
///
/// The task must be the one that the sandbox was made for, and this try the current one. The first last word counts:
/// whoever says something else afterwards is refused.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, complete } = command;
    let mut race = race::Race::new(deps.clock);
    let head = loop {
        let head = visible_head(deps.store, &principal, &sandbox).await?;
        let task = own_task(deps, &head, &complete.task).await?;
        if let Some(outcome) = &head.activity.outcome {
            if !says_the_same(outcome, &complete.report) {
                return Err(said(&head));
            }
            break head;
        }
        if !task.status.is_active() {
            return Err(not_its_own(&head, &task.id));
        }
        match record(deps, &head, &task, &complete.report).await? {
            Some(head) => break head,
            None => race.lost().await?,
        }
    };
    let task = tend_sandbox::settle(deps, &sandbox).await?;
    let task = task.ok_or_else(|| Error::Internal("a task that was read is gone".into()))?;
    if task.status == Status::Completed && task.dependents > 0 {
        unblock::run(deps, task.id.clone()).await?;
    }
    if head.needs_care() {
        work::ask(deps.work, &Job::TendSandbox { sandbox_id: sandbox }).await;
    }
    Ok(Completed {
        status: "accepted".to_owned(),
        new_status: task.status.as_str().to_owned(),
        unblocked_tasks: unblocked(deps, &task, &head.activity.waiters).await?,
        task_id: task.id,
    })
}

/// The task, if it is the sandbox's own and this try is the one that counts.
async fn own_task(deps: Deps<'_>, head: &Head, wanted: &TaskId) -> Result<Task, Error> {
    let assignment = head.assignment.as_ref().filter(|assignment| assignment.task == *wanted);
    let Some(assignment) = assignment else { return Err(not_its_own(head, wanted)) };
    let attempt = Attempt { number: assignment.attempt, sandbox: head.id.clone() };
    let task = deps.store.task(wanted).await?.filter(|task| task.is_current(&attempt));
    task.ok_or_else(|| not_its_own(head, wanted))
}

/// Writes it down; `None` if somebody else was faster.
async fn record(deps: Deps<'_>, head: &Head, task: &Task, report: &Report) -> Result<Option<Head>, Error> {
    let now = deps.clock.now();
    let Some((mut after, turns)) = last_word(head, outcome_of(report, now)?, now) else {
        return Err(Error::conflict(
            "sandbox_not_running",
            format!("Sandbox {} is {}; its worker cannot have done anything.", head.id, head.status.as_str()),
            json!({"current_status": head.status.as_str()}),
        ));
    };
    if task.dependents > 0 {
        after.activity.waiters = deps.store.dependants(&task.id, MAX_NAMED).await?;
    }
    let events = turns.into_iter().map(telling::event_of).collect();
    let mut commit = Commit::new(now);
    commit.sandboxes.push(Change { before: Some(head), after, events });
    match deps.store.commit(commit).await? {
        Committed::Done(mut done) => Ok(done.sandboxes.pop()),
        Committed::Conflict => Ok(None),
    }
}

/// What the log would say of it.
fn outcome_of(report: &Report, now: Timestamp) -> Result<TryOutcome, Error> {
    let (name, data) = match report {
        Report::Done(result) => ("agent.completed", result.clone()),
        Report::Failed(error) => ("agent.failed", JsonObject::of(&json!({"error": error}))),
    };
    let outcome = reported(&EventType::parse(name)?, &data, now);
    outcome.ok_or_else(|| Error::Internal(format!("{name} ends nothing").into()))
}

fn says_the_same(outcome: &TryOutcome, report: &Report) -> bool {
    matches!(
        (outcome, report),
        (TryOutcome::Done { .. }, Report::Done(_)) | (TryOutcome::Failed { .. }, Report::Failed(_))
    )
}

/// Those of the task's dependants that wait for nothing any more.
async fn unblocked(deps: Deps<'_>, task: &Task, waiters: &[TaskId]) -> Result<Vec<TaskId>, Error> {
    if task.status != Status::Completed {
        return Ok(Vec::new());
    }
    let waiters = deps.store.tasks(waiters).await?;
    Ok(waiters.into_iter().filter(|waiter| waiter.unmet == 0).map(|waiter| waiter.id).collect())
}

fn not_its_own(head: &Head, task: &TaskId) -> Error {
    let detail =
        format!("Sandbox {} does not work on task {task}, or no longer; nothing was changed.", head.id);
    Error::conflict("not_its_task", detail, json!({}))
}

fn said(head: &Head) -> Error {
    let detail = format!("What came of sandbox {} is known already, and is not this.", head.id);
    Error::conflict("outcome_known", detail, json!({"current_status": head.status.as_str()}))
}
