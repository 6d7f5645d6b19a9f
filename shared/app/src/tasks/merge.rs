//! Merges the pull request of a task.

use super::pull_request::{self, Found, find, of_code_host};
use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::Repository;
use code_hosts::{Failure, Merge, MergeMethod, PullRequestState};
use contract::ProblemCode;
use contract::tasks::{MergeRequest, MergedOut};
use domain::access::Principal;
use domain::message::Sender;
use domain::task::{self, Status};
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

/// Why nothing was merged.
#[derive(Debug)]
pub(crate) enum NotMerged {
    CodeHost(Failure),
    Other(Error),
}

impl From<Failure> for NotMerged {
    fn from(failure: Failure) -> Self {
        Self::CodeHost(failure)
    }
}

impl From<Error> for NotMerged {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Merges exactly the commit that the caller has seen, or else the newest one, and deletes the branch. Idempotent: the
/// same request for a merged pull request returns its commit.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, task, request } = command;
    let found = find(deps, &principal, &task).await?;
    perform(deps, found, &request, &Sender::of(&principal)).await.map_err(|why| match why {
        NotMerged::CodeHost(failure) => of_code_host(failure),
        NotMerged::Other(error) => error,
    })
}

pub(crate) async fn perform(
    deps: Deps<'_>,
    found: Found,
    request: &MergeRequest,
    by: &Sender,
) -> Result<MergedOut, NotMerged> {
    let Found { task, branch, repository } = found;
    let Some(link) = &branch.pull_request else {
        let detail = format!("Task {} has no pull request to merge.", task.id);
        return Err(Error::conflict(ProblemCode::NoPullRequest, detail, json!({})).into());
    };
    // A queued round of feedback is work too: its attempt would start on a branch that is gone.
    let has_round = task.rounds.as_ref().is_some_and(|rounds| rounds.round.is_some());
    if task.status.is_active() || task.status == Status::Pending && has_round {
        let detail = format!(
            "Task {} is {}; its pull request can be merged when it has ended.",
            task.id,
            task.status.as_str()
        );
        let facts = json!({"current_status": task.status});
        return Err(Error::conflict(ProblemCode::TaskActive, detail, facts).into());
    }
    let host = repository.host.as_ref();
    let found = host.pull_request(link.number).await?;
    let found = found.ok_or_else(|| Error::NotFound(format!("Pull request {}", link.number)))?;
    let (head, commit) = match found.state {
        // Whatever the caller has seen.
        PullRequestState::Merged { commit } => (found.head_commit, commit),
        _ => {
            let head = request.commit.clone().unwrap_or(found.head_commit);
            let method = match request.method {
                task::MergeMethod::Merge => MergeMethod::Merge,
                task::MergeMethod::Squash => MergeMethod::Squash,
                task::MergeMethod::Rebase => MergeMethod::Rebase,
            };
            let title = format!("{} (#{})", found.title, link.number);
            let merge = Merge { method, head: head.clone(), title: Some(title) };
            (head, host.merge(link.number, &merge).await?.commit)
        }
    };
    record(deps, &task, &head, &commit, by).await?;
    // A branch that the request named may be there for more than this task.
    let is_ours = task.execution.branch.is_none();
    let branch_deleted = request.delete_branch && is_ours && delete(&repository, &branch.name, &head).await;
    Ok(MergedOut {
        task_id: task.id,
        number: link.number,
        url: link.url.clone(),
        base: branch.base,
        commit,
        branch_deleted,
    })
}

/// Deletes the branch, unless it has commits that were not merged. Returns whether it is gone.
async fn delete(repository: &Repository, branch: &str, head: &str) -> bool {
    let host = repository.host.as_ref();
    let deleted = async {
        match host.branch(branch).await? {
            Some(commit) if commit != head => Ok(false),
            Some(_) => host.delete_branch(branch).await.map(|()| true),
            None => Ok(true),
        }
    };
    deleted.await.unwrap_or_else(|failure: Failure| {
        // The work is in the base. What is left of the branch can be deleted by hand.
        tracing::warn!("Could not delete branch {branch} of {}: {failure}", repository.name);
        false
    })
}

/// Records the merge, unless that is done.
pub(crate) async fn record(
    deps: Deps<'_>,
    task: &Task,
    head: &str,
    commit: &str,
    by: &Sender,
) -> Result<(), Error> {
    let (mut retry, mut task) = (ConflictRetry::new(deps.clock), task.clone());
    loop {
        let Some(transition) = task.merged(head, commit, deps.clock.now()) else { return Ok(()) };
        if pull_request::write(deps, &task, transition.by_sender(by)).await?.is_some() {
            return Ok(());
        }
        retry.conflict().await?;
        let Some(current) = deps.store.task(&task.id).await? else { return Ok(()) };
        task = current;
    }
}
