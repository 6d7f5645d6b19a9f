//! Tells those that wait for a task that it is completed. Each of them counts what it still waits for; nobody scans.
//!
//! Thousands may wait for one task, and each is told in a transaction of its own. So whoever tells them tells as many as
//! they have time for, and asks for a job that goes on.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{events, race, reconcile};
use contract::jobs::Job;
use domain::task::Status;
use domain::{Task, TaskId};
use store::commit::{Change, Commit, Committed, Edge};

/// Which task is completed.
pub type Command = TaskId;

/// Those that are ready now.
pub type Outcome = Vec<TaskId>;

/// How many are told between two looks.
const AT_ONCE: usize = 25;
/// How many are told while somebody waits for an answer: a request has ten seconds on Lambda.
const MOST_IN_A_REQUEST: usize = 100;
/// How many are told by one job, which has a minute.
const MOST_IN_A_JOB: usize = 1_000;

/// Tells as many as a request has time for, and asks that the rest be told.
///
/// A repeat tells those that were not told: each is told in the transaction that removes the edge to it.
pub async fn run(deps: Deps<'_>, task: Command) -> Result<Outcome, Error> {
    up_to(deps, task, MOST_IN_A_REQUEST).await
}

/// The same with the patience of a job.
pub(crate) async fn as_a_job(deps: Deps<'_>, task: Command) -> Result<Outcome, Error> {
    up_to(deps, task, MOST_IN_A_JOB).await
}

async fn up_to(deps: Deps<'_>, task: TaskId, most: usize) -> Result<Vec<TaskId>, Error> {
    let mut race = race::Race::new(deps.clock);
    let (mut ready, mut told, mut asked) = (Vec::new(), 0, 0);
    loop {
        let Some(done) = deps.store.task(&task).await? else { return Ok(ready) };
        if done.status != Status::Completed || done.dependents == 0 {
            return Ok(ready);
        }
        let waiting = deps.store.dependants(&task, AT_ONCE).await?;
        if !waiting.is_empty() && told >= most {
            reconcile::jobs::ask(deps.work, &Job::ReconcileTask { task_id: task }).await;
            return Ok(ready);
        }
        let fresh = if waiting.is_empty() {
            usize::from(all_told(deps, &done).await?)
        } else {
            tell(deps, &done, &waiting, &mut ready).await?
        };
        if ready.len() > asked {
            asked = ready.len();
            reconcile::jobs::ask(deps.work, &dispatch_job(&done.org)).await;
        }
        told += fresh;
        if fresh > 0 {
            race = race::Race::new(deps.clock);
        } else {
            race.lost().await?;
        }
    }
}

async fn all_told(deps: Deps<'_>, done: &Task) -> Result<bool, Error> {
    let mut after = done.clone();
    (after.dependents, after.version) = (0, done.version + 1);
    let mut commit = Commit::new(deps.clock.now());
    commit.tasks.push(Change { before: Some(done), after, events: Vec::new() });
    Ok(matches!(deps.store.commit(commit).await?, Committed::Done(_)))
}

/// How many of them were told.
async fn tell(
    deps: Deps<'_>,
    done: &Task,
    waiting: &[TaskId],
    ready: &mut Vec<TaskId>,
) -> Result<usize, Error> {
    let tasks = deps.store.tasks(waiting).await?;
    let mut told = 0;
    for id in waiting {
        let now = deps.clock.now();
        let mut commit = Commit::new(now);
        commit.edges.push(Edge::Remove { task: done.id.clone(), waits: id.clone() });
        let task = tasks.iter().find(|task| task.id == *id);
        let moved = task.and_then(|task| task.unblocked(&done.id, &deps.orchestration.weights, now));
        let is_ready = moved.as_ref().is_some_and(|moved| moved.task.place.is_some());
        if let (Some(task), Some(moved)) = (task, moved) {
            commit.tasks.push(events::emit::task_change(deps.ids, task, moved));
        }
        if let Committed::Done(_) = deps.store.commit(commit).await? {
            told += 1;
            if is_ready {
                ready.push(id.clone());
            }
        }
    }
    Ok(told)
}
