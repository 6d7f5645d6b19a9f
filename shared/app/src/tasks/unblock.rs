//! Unblocks the dependents of a completed task. Each dependent counts its unmet dependencies, so no scan is needed.
//!
//! A task may have thousands of dependents, and each is unblocked in its own transaction. So one call unblocks a
//! limited number of them, and enqueues a job for the rest.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{events, reconcile};
use contract::jobs::Job;
use domain::task::Status;
use domain::{Task, TaskId};
use store::commit::{Change, Commit, Committed, Edge};

/// The completed task.
pub type Command = TaskId;

/// The tasks that are ready now.
pub type Outcome = Vec<TaskId>;

/// Number of dependents to read in one call.
const READ_SIZE: usize = 25;
/// Maximum number of dependents to unblock in a request, which has ten seconds on Lambda.
const MAX_PER_REQUEST: usize = 100;
/// Maximum number of dependents to unblock in a job, which has a minute.
const MAX_PER_JOB: usize = 1_000;

/// Unblocks as many dependents as a request has time for.
///
/// Idempotent: the transaction that unblocks a dependent also removes its edge.
pub async fn run(deps: Deps<'_>, task: Command) -> Result<Outcome, Error> {
    up_to(deps, task, MAX_PER_REQUEST).await
}

/// Unblocks as many dependents as a job has time for.
pub(crate) async fn run_in_job(deps: Deps<'_>, task: Command) -> Result<Outcome, Error> {
    up_to(deps, task, MAX_PER_JOB).await
}

async fn up_to(deps: Deps<'_>, task: TaskId, max: usize) -> Result<Vec<TaskId>, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    let (mut ready, mut unblocked, mut dispatched) = (Vec::new(), 0, 0);
    loop {
        let Some(completed) = deps.store.task(&task).await? else { return Ok(ready) };
        if completed.status != Status::Completed || completed.dependents == 0 {
            return Ok(ready);
        }
        let dependents = deps.store.dependents(&task, READ_SIZE).await?;
        if !dependents.is_empty() && unblocked >= max {
            reconcile::jobs::enqueue(deps.orchestration_jobs, &Job::ReconcileTask { task_id: task }).await;
            return Ok(ready);
        }
        let progress = if dependents.is_empty() {
            usize::from(clear_dependents(deps, &completed).await?)
        } else {
            unblock(deps, &completed, &dependents, &mut ready).await?
        };
        if ready.len() > dispatched {
            dispatched = ready.len();
            reconcile::jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&completed.org)).await;
        }
        unblocked += progress;
        if progress > 0 {
            retry = ConflictRetry::new(deps.clock);
        } else {
            retry.conflict().await?;
        }
    }
}

/// Sets the number of dependents to 0: all of them are unblocked.
async fn clear_dependents(deps: Deps<'_>, completed: &Task) -> Result<bool, Error> {
    let mut after = completed.clone();
    (after.dependents, after.version) = (0, completed.version + 1);
    let mut commit = Commit::new(deps.clock.now());
    commit.tasks.push(Change { before: Some(completed), after, events: Vec::new() });
    Ok(matches!(deps.store.commit(commit).await?, Committed::Done(_)))
}

/// Returns the number of dependents that were unblocked.
async fn unblock(
    deps: Deps<'_>,
    completed: &Task,
    dependents: &[TaskId],
    ready: &mut Vec<TaskId>,
) -> Result<usize, Error> {
    let tasks = deps.store.tasks(dependents).await?;
    let mut unblocked = 0;
    for id in dependents {
        let now = deps.clock.now();
        let mut commit = Commit::new(now);
        commit.edges.push(Edge::Remove { task: completed.id.clone(), dependent: id.clone() });
        let task = tasks.iter().find(|task| task.id == *id);
        let transition =
            task.and_then(|task| task.unblocked(&completed.id, &deps.orchestration.weights, now));
        let is_ready = transition.as_ref().is_some_and(|transition| transition.task.place.is_some());
        if let (Some(task), Some(transition)) = (task, transition) {
            commit.tasks.push(events::emit::task_change(deps.ids, task, transition));
        }
        if let Committed::Done(_) = deps.store.commit(commit).await? {
            unblocked += 1;
            if is_ready {
                ready.push(id.clone());
            }
        }
    }
    Ok(unblocked)
}
