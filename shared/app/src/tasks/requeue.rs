//! Gives tasks the place in the queue that they are worth, after more or fewer tasks wait for them.

use crate::error::{Error, chain};
use crate::orchestration::Deps;
use domain::Task;
use store::commit::{Change, Commit};

/// A place is a hint about urgency: whoever cannot be moved now (somebody has just claimed it, or the table is away)
/// keeps the place that it has.
pub(crate) async fn run(deps: Deps<'_>, tasks: &[Task]) {
    for task in tasks {
        if let Err(error) = move_one(deps, task).await {
            tracing::warn!(task.id = %task.id, "Could not move {} in the queue: {}", task.id, chain(&error));
        }
    }
}

async fn move_one(deps: Deps<'_>, task: &Task) -> Result<(), Error> {
    let mut after = task.clone().placed_anew(&deps.orchestration.weights);
    if after.place == task.place {
        return Ok(());
    }
    after.version += 1;
    let mut commit = Commit::new(deps.clock.now());
    commit.tasks.push(Change { before: Some(task), after, events: Vec::new() });
    deps.store.commit(commit).await?;
    Ok(())
}
