//! Changes what a task says of itself, as long as it is not over.

use crate::error::Error;
use crate::visibility::visible_task;
use crate::{orchestration, race, tasks};
use domain::access::Principal;
use domain::task::edits::{Edit, Edited};
use domain::{Task, TaskId};

/// What it touches.
pub type Deps<'a> = orchestration::Deps<'a>;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub task: TaskId,
    /// What is to be different.
    pub edit: Edit,
}

/// The task, as it is now.
pub type Outcome = Task;

/// A repeat changes nothing.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let task = visible_task(deps.store, &command.principal, &command.task).await?;
        let now = deps.clock.now();
        match task.edited(&command.edit, &deps.orchestration.weights, now) {
            Edited::Same => return Ok(task),
            Edited::Over => return Err(tasks::transition::over(&task)),
            Edited::Changed(moved) => {
                if let Some(after) = tasks::commit::write(deps, &task, *moved).await? {
                    return Ok(after);
                }
                race.lost().await?;
            }
        }
    }
}
