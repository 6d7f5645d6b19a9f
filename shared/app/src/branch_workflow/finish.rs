//! Opens the pull request of a task, or updates it.

use super::select;
use crate::error::Error;
use crate::tasks::pull_request;
use contract::branch_workflow::{Finish, Finished};
use domain::access::Principal;

pub use super::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub finish: Finish,
}

pub type Outcome = Finished;

/// Idempotent, like the use case of the pull request.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, finish: Finish(selection) } = command;
    let (task, _) = select(deps, &principal, &selection).await?;
    let open = pull_request::Command { principal, task: task.id, open: true };
    let opened = pull_request::run(deps, open).await?;
    let nothing = || format!("The branch {} has nothing to propose.", opened.branch);
    Ok(Finished {
        success: opened.number.is_some(),
        task_id: opened.task_id,
        pr_number: opened.number,
        pr_url: opened.url,
        error: opened.number.is_none().then(nothing),
    })
}
