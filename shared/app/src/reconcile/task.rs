//! Reconciles a task without an active sandbox: retries it after its backoff, times out its review, queues its
//! revision, or unblocks its dependents.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::Deps;
use crate::tasks;
use domain::task::Status;
use domain::{Task, TaskId, Timestamp};

pub type Command = TaskId;

/// The current state, if the task exists.
pub type Outcome = Option<Task>;

/// Idempotent.
pub async fn run(deps: Deps<'_>, id: Command) -> Result<Outcome, Error> {
    let Some(task) = apply_due_transitions(deps, &id).await? else { return Ok(None) };
    if !has_blocked_dependents(&task) {
        return Ok(Some(task));
    }
    tasks::unblock::run_in_job(deps, id.clone()).await?;
    Ok(deps.store.task(&id).await?)
}

/// The same within the time of a request: a job unblocks the dependents that are left.
pub(crate) async fn run_in_request(deps: Deps<'_>, id: Command) -> Result<(), Error> {
    if apply_due_transitions(deps, &id).await?.is_some_and(|task| has_blocked_dependents(&task)) {
        tasks::unblock::run(deps, id).await?;
    }
    Ok(())
}

fn has_blocked_dependents(task: &Task) -> bool {
    task.status == Status::Completed && task.dependents > 0
}

/// Applies transitions of the task until none is due.
async fn apply_due_transitions(deps: Deps<'_>, id: &TaskId) -> Result<Option<Task>, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let Some(task) = deps.store.task(id).await? else { return Ok(None) };
        let now = deps.clock.now();
        let weights = &deps.orchestration.weights;
        let transition = match task.status {
            Status::Pending => task.ready(weights, now),
            Status::NeedsRevision => task.revise(weights, now),
            Status::Validating if is_overdue(deps, &task, now) => {
                task.validation_timed_out("The result was not reviewed in time.", now)
            }
            _ => None,
        };
        let Some(transition) = transition else { return Ok(Some(task)) };
        match tasks::commit::write(deps, &task, transition).await? {
            Some(_) => retry = ConflictRetry::new(deps.clock),
            None => retry.conflict().await?,
        }
    }
}

/// Whether a sweep has to enqueue a job for the task.
pub(crate) fn is_due(deps: Deps<'_>, task: &Task, now: Timestamp) -> bool {
    match task.status {
        Status::Pending => {
            task.awaits_transition() && task.unmet == 0 && task.not_before.is_none_or(|when| when <= now)
        }
        Status::Validating => is_overdue(deps, task, now),
        Status::NeedsRevision => true,
        Status::Completed => task.dependents > 0,
        _ => false,
    }
}

fn is_overdue(deps: Deps<'_>, task: &Task, now: Timestamp) -> bool {
    now >= task.since.plus_secs(deps.orchestration.validation_secs)
}
