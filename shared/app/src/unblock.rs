//! Tells those that wait for a task that it is completed. Each of them counts what it still waits for; nobody scans.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{race, telling, work};
use domain::task::Status;
use domain::{Task, TaskId};
use store::commit::{Change, Commit, Committed, Edge};

/// Which task is completed.
pub type Command = TaskId;

/// Those that are ready now.
pub type Outcome = Vec<TaskId>;

/// How many are told between two looks.
const AT_ONCE: usize = 25;

/// A repeat tells those that were not told: each is told in the transaction that removes the edge to it.
pub async fn run(deps: Deps<'_>, task: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    let mut ready = Vec::new();
    loop {
        let Some(done) = deps.store.task(&task).await? else { return Ok(ready) };
        if done.status != Status::Completed || done.dependents == 0 {
            return Ok(ready);
        }
        let waiting = deps.store.dependants(&task, AT_ONCE).await?;
        let told = if waiting.is_empty() {
            all_told(deps, &done).await?
        } else {
            tell(deps, &done, &waiting, &mut ready).await?
        };
        if !ready.is_empty() {
            work::ask(deps.work, &dispatch_job(&done.org)).await;
        }
        if told {
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

async fn tell(
    deps: Deps<'_>,
    done: &Task,
    waiting: &[TaskId],
    ready: &mut Vec<TaskId>,
) -> Result<bool, Error> {
    let tasks = deps.store.tasks(waiting).await?;
    let mut told = false;
    for id in waiting {
        let now = deps.clock.now();
        let mut commit = Commit::new(now);
        commit.edges.push(Edge::Remove { task: done.id.clone(), waits: id.clone() });
        let task = tasks.iter().find(|task| task.id == *id);
        let moved = task.and_then(|task| task.unblocked(&done.id, &deps.orchestration.weights, now));
        let is_ready = moved.as_ref().is_some_and(|moved| moved.task.place.is_some());
        if let (Some(task), Some(moved)) = (task, moved) {
            commit.tasks.push(telling::task_change(task, moved));
        }
        if let Committed::Done(_) = deps.store.commit(commit).await? {
            told = true;
            if is_ready {
                ready.push(id.clone());
            }
        }
    }
    Ok(told)
}
