//! Creates the branch of a task, before its first attempt needs it.

use super::select;
use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::tasks::branch::{self, NotCreated};
use crate::tasks::pull_request::{self, no_branch, of_code_host};
use crate::visibility::visible_task;
use contract::branch_workflow::{Start, Started};
use domain::Task;
use domain::access::Principal;
use domain::task::TaskBranch;

pub use super::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub start: Start,
}

pub type Outcome = Started;

/// Idempotent: a task that has a branch keeps it, and its attempts work on it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, start: Start(selection) } = command;
    let (task, repository) = select(deps, &principal, &selection).await?;
    if let Some(branch) = &task.branch {
        return Ok(started(&task, branch));
    }
    if task.status.is_final() {
        return Err(no_branch(&task.id));
    }
    let base = repository.host.check(task.execution.base_branch.as_deref()).await.map_err(of_code_host)?;
    let created = branch::create(deps.store, &repository, &task, base).await;
    let branch = created.map_err(|error| match error {
        NotCreated::CodeHost(failure) => of_code_host(failure),
        NotCreated::Store(error) => error.into(),
    })?;
    record(deps, &principal, task, branch, &repository.name).await
}

/// Records the branch, unless an attempt has done so meanwhile: it is the same one.
async fn record(
    deps: Deps<'_>,
    principal: &Principal,
    mut task: Task,
    branch: TaskBranch,
    repository: &str,
) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        if let Some(branch) = &task.branch {
            return Ok(started(&task, branch));
        }
        let Some(transition) = task.branch_started(branch.clone(), repository, deps.clock.now()) else {
            return Err(no_branch(&task.id));
        };
        if pull_request::write(deps, &task, transition.by(principal)).await?.is_some() {
            return Ok(started(&task, &branch));
        }
        retry.conflict().await?;
        task = visible_task(deps.store, principal, &task.id).await?;
    }
}

fn started(task: &Task, branch: &TaskBranch) -> Started {
    Started {
        success: true,
        task_id: task.id.clone(),
        branch_name: branch.name.clone(),
        sha: branch.base_commit.clone(),
        error: None,
    }
}
