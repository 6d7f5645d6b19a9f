//! Updates the places of tasks in the queue after their number of dependents has changed.

use crate::error::{Error, chain};
use crate::orchestration::Deps;
use domain::Task;
use store::commit::{Change, Commit};

/// A place is only a hint about urgency, so a failure or a conflict is ignored and the task keeps its place.
pub(crate) async fn run(deps: Deps<'_>, tasks: &[Task]) {
    for task in tasks {
        if let Err(error) = requeue(deps, task).await {
            tracing::warn!(task.id = %task.id, "Could not move {} in the queue: {}", task.id, chain(&error));
        }
    }
}

async fn requeue(deps: Deps<'_>, task: &Task) -> Result<(), Error> {
    let mut after = task.clone().reranked(&deps.orchestration.weights);
    if after.place == task.place {
        return Ok(());
    }
    after.version += 1;
    let mut commit = Commit::new(deps.clock.now());
    commit.tasks.push(Change { before: Some(task), after, events: Vec::new() });
    deps.store.commit(commit).await?;
    Ok(())
}
