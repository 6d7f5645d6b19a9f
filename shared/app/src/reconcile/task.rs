//! Does what is due for a task that no sandbox is at work for: it may be tried again, nobody judged it in time, it goes
//! back to be revised, or others wait to be told that it is completed.

use crate::error::Error;
use crate::orchestration::Deps;
use crate::{race, tasks};
use domain::task::Status;
use domain::{Task, TaskId, Timestamp};

/// Which task.
pub type Command = TaskId;

/// As it is now, if it exists.
pub type Outcome = Option<Task>;

/// A repeat does what is still to be done.
pub async fn run(deps: Deps<'_>, id: Command) -> Result<Outcome, Error> {
    let Some(task) = settle(deps, &id).await? else { return Ok(None) };
    if !has_others_to_tell(&task) {
        return Ok(Some(task));
    }
    tasks::unblock::as_a_job(deps, id.clone()).await?;
    Ok(deps.store.task(&id).await?)
}

/// The same while somebody waits for an answer: not all may have been told, and a job goes on.
pub(crate) async fn within_a_request(deps: Deps<'_>, id: Command) -> Result<(), Error> {
    if settle(deps, &id).await?.is_some_and(|task| has_others_to_tell(&task)) {
        tasks::unblock::run(deps, id).await?;
    }
    Ok(())
}

fn has_others_to_tell(task: &Task) -> bool {
    task.status == Status::Completed && task.dependents > 0
}

/// Does what is due for the task itself.
async fn settle(deps: Deps<'_>, id: &TaskId) -> Result<Option<Task>, Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let Some(task) = deps.store.task(id).await? else { return Ok(None) };
        let now = deps.clock.now();
        let weights = &deps.orchestration.weights;
        let moved = match task.status {
            Status::Pending => task.ready(weights, now),
            Status::NeedsRevision => task.revise(weights, now),
            Status::Validating if is_overdue(deps, &task, now) => {
                task.validation_timed_out("Nobody judged the result in time.", now)
            }
            _ => None,
        };
        let Some(moved) = moved else { return Ok(Some(task)) };
        match tasks::commit::write(deps, &task, moved).await? {
            Some(_) => race = race::Race::new(deps.clock),
            None => race.lost().await?,
        }
    }
}

/// Whether something is due for it now: what a sweep asks before it asks for work.
pub(crate) fn is_due(deps: Deps<'_>, task: &Task, now: Timestamp) -> bool {
    match task.status {
        Status::Pending => {
            task.needs_reconcile() && task.unmet == 0 && task.not_before.is_none_or(|when| when <= now)
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
