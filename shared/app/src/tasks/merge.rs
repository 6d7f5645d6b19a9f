//! Merges the pull request of a task.

use super::pull_request::{self, Found, find, of_code_host};
use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use code_hosts::{Merge, MergeMethod, PullRequestState, Reason};
use contract::ProblemCode;
use contract::tasks::{MergeMethodIn, MergeRequest, MergedOut};
use domain::access::Principal;
use domain::{Task, TaskId};
use serde_json::json;

pub type Deps<'a> = pull_request::Deps<'a>;

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub task: TaskId,
    pub request: MergeRequest,
}

pub type Outcome = MergedOut;

/// Merges exactly the commit that the caller has seen, or else the newest one, and deletes the branch. Idempotent: the
/// same request for a merged pull request returns its commit.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, task, request } = command;
    let Found { task, branch, repository } = find(deps, &principal, &task).await?;
    let Some(link) = &branch.pull_request else {
        let detail = format!("Task {} has no pull request to merge.", task.id);
        return Err(Error::conflict(ProblemCode::NoPullRequest, detail, json!({})));
    };
    let host = repository.host.as_ref();
    let found = host.pull_request(link.number).await.map_err(of_code_host)?;
    let found = found.ok_or_else(|| Error::NotFound(format!("Pull request {}", link.number)))?;
    let head = request.commit.clone().unwrap_or_else(|| found.head_commit.clone());
    let commit = match found.state {
        PullRequestState::Merged { commit } => commit,
        _ => {
            let method = match request.method {
                MergeMethodIn::Merge => MergeMethod::Merge,
                MergeMethodIn::Squash => MergeMethod::Squash,
                MergeMethodIn::Rebase => MergeMethod::Rebase,
            };
            let title = format!("{} (#{})", found.title, link.number);
            let merge = Merge { method, head, title: Some(title) };
            host.merge(link.number, &merge).await.map_err(of_code_host)?.commit
        }
    };
    record(deps, &task, &commit, &principal).await?;
    let mut branch_deleted = false;
    if request.delete_branch {
        // The work is in the base. What is left of the branch can be deleted by hand.
        match host.delete_branch(&branch.name).await {
            Ok(()) => branch_deleted = true,
            Err(failure) if failure.reason == Reason::NotFound => branch_deleted = true,
            Err(failure) => {
                tracing::warn!(task.id = %task.id, "Could not delete branch {}: {failure}", branch.name)
            }
        }
    }
    Ok(MergedOut {
        task_id: task.id,
        number: link.number,
        url: link.url.clone(),
        base: branch.base,
        commit,
        branch_deleted,
    })
}

/// Records the merge, unless that is done.
async fn record(deps: Deps<'_>, task: &Task, commit: &str, by: &Principal) -> Result<(), Error> {
    let (mut retry, mut task) = (ConflictRetry::new(deps.clock), task.clone());
    loop {
        let Some(transition) = task.merged(commit, deps.clock.now()) else { return Ok(()) };
        if pull_request::write(deps, &task, transition.by(by)).await?.is_some() {
            return Ok(());
        }
        retry.conflict().await?;
        let Some(current) = deps.store.task(&task.id).await? else { return Ok(()) };
        task = current;
    }
}
