//! The branches of a ticket under the names of OmoiOS: a request selects one task, and the use cases of its branch, pull
//! request and merge do the rest.

pub mod finish;
pub mod merge;
pub mod start;
pub mod status;

use crate::error::Error;
use crate::orchestration::Repository;
use crate::tasks::pull_request::{self, no_branch};
use crate::tickets;
use crate::visibility::visible_task;
use contract::branch_workflow::Selection;
use domain::access::Principal;
use domain::ticket::ANALYZE_REQUIREMENTS;
use domain::{Invalid, Task, TaskId};

pub type Deps<'a> = pull_request::Deps<'a>;

/// Maximum number of tasks of a ticket that are searched, newest first.
const MAX_TASKS: usize = 100;

/// The one task that a request selects, with its repository at the code host.
async fn select(
    deps: Deps<'_>,
    principal: &Principal,
    selection: &Selection,
) -> Result<(Task, Repository), Error> {
    let task = match &selection.task {
        Some(id) => named(deps, principal, id, selection).await?,
        None => only(deps, principal, selection).await?,
    };
    let repository = pull_request::repository(deps, &task).await?.ok_or_else(|| no_branch(&task.id))?;
    if selection.repository.as_ref().is_some_and(|named| !is_at(&repository.address, named)) {
        let rule = format!("must be that of task {}: {}", task.id, repository.name);
        return Err(Invalid::new("repo_name", rule).into());
    }
    Ok((task, repository))
}

async fn named(
    deps: Deps<'_>,
    principal: &Principal,
    id: &TaskId,
    selection: &Selection,
) -> Result<Task, Error> {
    let task = visible_task(deps.store, principal, id).await?;
    if selection.ticket.is_some() && selection.ticket != task.ticket {
        return Err(Invalid::new("task_id", "does not name a task of this ticket").into());
    }
    match mismatch(&task, selection) {
        Some(field) => Err(Invalid::new(field, format!("is not that of task {id}")).into()),
        None => Ok(task),
    }
}

async fn only(deps: Deps<'_>, principal: &Principal, selection: &Selection) -> Result<Task, Error> {
    let Some(id) = &selection.ticket else { return Err(Invalid::new("ticket_id", "is missing").into()) };
    let ticket = tickets::visible(deps.store, principal, id).await?;
    let ids = deps.store.tasks_of_ticket(&ticket.id, None, MAX_TASKS).await?.items;
    let mut tasks = deps.store.tasks(&ids).await?;
    tasks.retain(|task| task.task_type != ANALYZE_REQUIREMENTS && mismatch(task, selection).is_none());
    match (tasks.pop(), tasks.len()) {
        (Some(task), 0) => Ok(task),
        (Some(_), more) => {
            let rule = format!("is required: {} tasks of the ticket fit", more + 1);
            Err(Invalid::new("task_id", rule).into())
        }
        (None, _) => Err(Error::NotFound(format!("A task of ticket {id} with this branch"))),
    }
}

/// The field of the selection that does not apply to a task.
fn mismatch(task: &Task, selection: &Selection) -> Option<&'static str> {
    let branch = task.branch.as_ref();
    let number = branch.and_then(|branch| branch.pull_request.as_ref()).map(|link| link.number);
    if selection.branch.is_some() && selection.branch.as_ref() != branch.map(|branch| &branch.name) {
        return Some("branch_name");
    }
    (selection.number.is_some() && selection.number != number).then_some("pr_number")
}

/// Whether an address for git ends with `owner/name`, on whatever host.
fn is_at(address: &str, repository: &str) -> bool {
    let address = address.trim_end_matches('/').to_ascii_lowercase();
    let address = address.strip_suffix(".git").unwrap_or(&address);
    let repository = repository.to_ascii_lowercase();
    let repository = repository.strip_suffix(".git").unwrap_or(&repository);
    address.strip_suffix(repository).is_some_and(|host| host.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_is_compared_as_a_whole() {
        for (address, repository, same) in [
            ("https://github.com/acme/shop.git", "acme/shop", true),
            ("https://github.com/acme/shop.git", "Acme/Shop", true),
            ("https://git.example/acme/shop", "acme/shop", true),
            ("https://github.com/acme/shop.git", "cme/shop", false),
            ("https://github.com/acme/shop.git", "acme/other", false),
            ("https://github.com/acme/shop-two.git", "acme/shop", false),
        ] {
            assert_eq!(is_at(address, repository), same, "{address} {repository}");
        }
    }
}
