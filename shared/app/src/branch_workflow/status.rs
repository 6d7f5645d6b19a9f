//! Compares the branch of a task with its base.

use super::select;
use crate::error::Error;
use crate::tasks::pull_request::{no_branch, of_code_host};
use contract::branch_workflow::{BranchStatus, Selection};
use domain::access::Principal;

pub use super::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub selection: Selection,
}

pub type Outcome = BranchStatus;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, selection } = command;
    let (task, repository) = select(deps, &principal, &selection).await?;
    let branch = task.branch.ok_or_else(|| no_branch(&task.id))?;
    let host = repository.host.as_ref();
    let compared = host.compare(&branch.base, &branch.name).await.map_err(of_code_host)?;
    let pull_request = match &branch.pull_request {
        Some(link) => host.pull_request(link.number).await.map_err(of_code_host)?,
        None => None,
    };
    Ok(BranchStatus {
        success: true,
        task_id: task.id,
        branch_name: branch.name,
        ahead_by: compared.ahead,
        behind_by: compared.behind,
        has_conflicts: pull_request.is_some_and(|found| found.mergeable == Some(false)),
        error: None,
    })
}
