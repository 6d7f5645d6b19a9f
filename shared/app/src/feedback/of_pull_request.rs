//! Reads the feedback on a pull request that a webhook names.

use super::{Deps, read};
use crate::error::Error;
use domain::{OrgId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// As `contract::repository::key` returns it.
    pub repository: String,
    pub number: u64,
    /// The org whose secret has signed the webhook; `None` if it is that of every org.
    pub org: Option<OrgId>,
    pub changed_at: Timestamp,
}

pub type Outcome = ();

/// Idempotent. Does nothing for a pull request that no task has.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { repository, number, org, changed_at } = command;
    let store = deps.base.store;
    let Some(id) = store.task_of_pull_request(&repository, number).await? else { return Ok(()) };
    let Some(task) = store.task(&id).await? else { return Ok(()) };
    if org.is_some_and(|org| org != task.org) {
        return Ok(());
    }
    read::run(deps, read::Command { task: id, changed_at: Some(changed_at) }).await
}
