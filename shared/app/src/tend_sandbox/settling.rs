//! What a sandbox's turn does to its task, and the task's turn to its ticket: written together.

use super::Flow;
use super::making::jitter;
use crate::error::Error;
use crate::orchestration::Deps;
use crate::settled;
use domain::attempt::{Attempt, Outcome};
use domain::care::Settlement;
use domain::{Head, Task};

pub(super) async fn run(
    deps: Deps<'_>,
    task: &Task,
    head: &Head,
    settlement: Settlement,
) -> Result<Flow, Error> {
    let Some(assignment) = &head.assignment else { return Ok(Flow::Rest(None)) };
    let attempt = Attempt { number: assignment.attempt, sandbox: head.id.clone() };
    let now = deps.clock.now();
    let moved = match settlement {
        Settlement::Assigned => task.assign(&attempt, now),
        Settlement::Started => task.start(&attempt, now),
        Settlement::Over(Outcome::Done { result, .. }) => task.complete(&attempt, &result, now),
        Settlement::Over(Outcome::Failed { error, class, .. }) => {
            task.fail(&attempt, &error, class, jitter(now), now)
        }
        Settlement::Over(Outcome::CalledOff { reason, .. }) => task.cancel(&reason, now),
    };
    // The task is not where it was read to be: look again.
    let Some(moved) = moved else { return Ok(Flow::Lost) };
    let written = settled::write(deps, task, moved).await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Again))
}
