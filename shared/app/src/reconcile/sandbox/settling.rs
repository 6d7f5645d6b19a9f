//! What a sandbox's turn does to its task, and the task's turn to its ticket: written together.

use super::Flow;
use super::making::jitter;
use crate::error::Error;
use crate::orchestration::Deps;
use crate::tasks;
use domain::attempt::{Attempt, Outcome};
use domain::sandbox::reconcile::TaskUpdate;
use domain::{Sandbox, Task};

pub(super) async fn run(
    deps: Deps<'_>,
    task: &Task,
    head: &Sandbox,
    settlement: TaskUpdate,
) -> Result<Flow, Error> {
    let Some(assignment) = &head.assignment else { return Ok(Flow::Rest(None)) };
    let attempt = Attempt { number: assignment.attempt, sandbox: head.id.clone() };
    let now = deps.clock.now();
    let moved = match settlement {
        TaskUpdate::Assigned => task.assign(&attempt, now),
        TaskUpdate::Started => task.start(&attempt, now),
        TaskUpdate::Finished(Outcome::Done { result, .. }) => task.complete(&attempt, &result, now),
        TaskUpdate::Finished(Outcome::Failed { error, class, .. }) => {
            task.fail(&attempt, &error, class, jitter(now), now)
        }
        TaskUpdate::Finished(Outcome::CalledOff { reason, .. }) => task.cancel(&reason, now),
    };
    // The task is not where it was read to be: look again.
    let Some(moved) = moved else { return Ok(Flow::Lost) };
    let written = tasks::commit::write(deps, task, moved).await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Again))
}
