//! Applies the state of a sandbox to its task, and the task's transition to its ticket, in one transaction.

use super::Flow;
use crate::clock::jitter;
use crate::error::Error;
use crate::orchestration::Deps;
use crate::tasks;
use domain::attempt::{Attempt, Outcome};
use domain::sandbox::reconcile::TaskUpdate;
use domain::{Sandbox, Task};

pub(super) async fn run(
    deps: Deps<'_>,
    task: &Task,
    sandbox: &Sandbox,
    update: TaskUpdate,
) -> Result<Flow, Error> {
    let Some(assignment) = &sandbox.assignment else { return Ok(Flow::Wait(None)) };
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    let now = deps.clock.now();
    let transition = match update {
        TaskUpdate::Assigned => task.assign(&attempt, now),
        TaskUpdate::Started => task.start(&attempt, now),
        TaskUpdate::Completing => task.completing(&attempt, now),
        TaskUpdate::Finished(Outcome::Completed { result, .. }) => task.complete(&attempt, &result, now),
        TaskUpdate::Finished(Outcome::Failed { error, class, .. }) => {
            task.fail(&attempt, &error, class, jitter(now), now)
        }
        TaskUpdate::Finished(Outcome::Cancelled { reason, .. }) => task.cancel(&reason, now),
    };
    // The task has changed since it was read.
    let Some(transition) = transition else { return Ok(Flow::Conflict) };
    let written = tasks::commit::write(deps, task, transition).await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Continue))
}
