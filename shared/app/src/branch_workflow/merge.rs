//! Merges the pull request of a task.

use super::select;
use crate::error::Error;
use crate::tasks;
use code_hosts::Reason;
use contract::branch_workflow::{Merge, Merged};
use contract::tasks::MergeRequest;
use domain::access::Principal;

pub use super::Deps;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub merge: Merge,
}

pub type Outcome = Merged;

/// Idempotent, like the use case of the merge. A conflict is an outcome, as clients of OmoiOS expect.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, merge } = command;
    let (task, _) = select(deps, &principal, &merge.selection).await?;
    let request = MergeRequest { method: merge.method, commit: None, delete_branch: merge.delete_branch };
    let command = tasks::merge::Command { principal, task: task.id.clone(), request };
    let (merge_sha, error) = match tasks::merge::run(deps, command).await {
        Ok(merged) => (Some(merged.commit), None),
        Err(Error::Conflict { detail, facts, .. }) if facts.get("reason").is_some_and(is_conflict) => {
            (None, Some(detail))
        }
        Err(error) => return Err(error),
    };
    let (success, has_conflicts) = (merge_sha.is_some(), error.is_some());
    Ok(Merged { success, task_id: task.id, merge_sha, has_conflicts, error })
}

fn is_conflict(reason: &serde_json::Value) -> bool {
    reason == Reason::Conflict.code()
}
