//! Merges one branch, or finds out why that is not possible.

use super::{Deps, Progress, Stopped, changed, conflict, waiting};
use crate::error::Error;
use crate::tasks::merge::{NotMerged, perform, record};
use crate::tasks::pull_request::{self, Found, checks_of_others};
use code_hosts::{CheckState, PullRequestState, Reason};
use contract::payloads::AgentCompleted;
use contract::tasks::MergeRequest;
use domain::event::catalogue;
use domain::task::{PullRequestLink, Status};
use domain::ticket::merge::{BranchState, TicketMerge};
use domain::{Task, Ticket};

/// Delay before a code host is asked again for something that it computes.
const COMPUTING_SECS: i64 = 5;
/// Delay before checks are read again.
const CHECKS_SECS: i64 = 30;
/// A branch whose checks take longer is skipped.
const MAX_CHECKS_SECS: i64 = 6 * 3600;
/// Delay before the task is read again that resolves a conflict.
const RESOLVING_SECS: i64 = 15;

pub(super) async fn merge(
    deps: Deps<'_>,
    ticket: &Ticket,
    merge: &TicketMerge,
    index: usize,
) -> Result<Progress, Stopped> {
    let now = deps.clock.now();
    let branch = &merge.branches[index];
    let skip = |reason: &str| {
        changed(ticket, merge.clone(), index, BranchState::Skipped, Some(reason), deps.clock.now())
    };
    if branch.state == BranchState::Resolving
        && let Some(resolver) = &branch.resolved_by
    {
        match deps.store.task(resolver).await?.map(|task| task.status) {
            Some(Status::Completed) => {}
            Some(status) if !status.is_final() => {
                let reason = format!("An agent resolves the conflicts in task {resolver}.");
                return Ok(waiting(ticket, merge, index, &reason, now.plus_secs(RESOLVING_SECS)));
            }
            status => {
                let status = status.map_or("gone", Status::as_str);
                let reason = format!("Task {resolver}, which should resolve the conflicts, is {status}.");
                return Ok(changed(ticket, merge.clone(), index, BranchState::Conflict, Some(&reason), now));
            }
        }
    }
    let Some(task) = deps.store.task(&branch.task_id).await? else {
        return Ok(skip("Its task does not exist."));
    };
    if task.status != Status::Completed {
        return Ok(skip(&format!("Its task is {}.", task.status.as_str())));
    }
    if tests_failed(&task) {
        return Ok(skip("The tests of its task failed."));
    }
    let found = match pull_request::of_task(deps.pull_requests(), task).await {
        Ok(found) => found,
        Err(Error::Conflict { detail, .. }) => return Ok(skip(&detail)),
        Err(error) => return Err(error.into()),
    };
    let Some(link) = found.branch.pull_request.clone() else {
        return Ok(skip("It has no pull request."));
    };
    of_pull_request(deps, ticket, merge, index, found, &link).await
}

async fn of_pull_request(
    deps: Deps<'_>,
    ticket: &Ticket,
    merge: &TicketMerge,
    index: usize,
    found: Found,
    link: &PullRequestLink,
) -> Result<Progress, Stopped> {
    let now = deps.clock.now();
    let branch = &merge.branches[index];
    let skip = |reason: &str| changed(ticket, merge.clone(), index, BranchState::Skipped, Some(reason), now);
    let host = found.repository.host.clone();
    let Some(pull) = host.pull_request(link.number).await? else {
        return Ok(skip("Its pull request does not exist."));
    };
    match &pull.state {
        PullRequestState::Merged { commit } => {
            record(deps.pull_requests(), &found.task, &pull.head_commit, commit, &merge.by).await?;
            return merged(deps, ticket, merge, index, &pull.head_commit, commit).await;
        }
        PullRequestState::Closed => return Ok(skip("Its pull request is closed.")),
        PullRequestState::Open => {}
    }
    let checks = checks_of_others(host.checks(&pull.head_commit).await?);
    let names = |state| {
        let found = checks.iter().filter(|check| check.state == state).map(|check| check.name.as_str());
        found.collect::<Vec<_>>().join(", ")
    };
    let (failed, running) = (names(CheckState::Failure), names(CheckState::Pending));
    if !failed.is_empty() {
        return Ok(skip(&format!("Checks fail: {failed}.")));
    }
    if !running.is_empty() {
        if now > branch.since.plus_secs(MAX_CHECKS_SECS) {
            return Ok(skip(&format!("Checks do not end: {running}.")));
        }
        return Ok(waiting(ticket, merge, index, "Checks are running.", now.plus_secs(CHECKS_SECS)));
    }
    match pull.mergeable {
        Some(false) => return conflict::found(deps, ticket, merge, index, found, &pull.head_commit).await,
        None => {
            let reason = "The code host looks for conflicts.";
            return Ok(waiting(ticket, merge, index, reason, now.plus_secs(COMPUTING_SECS)));
        }
        Some(true) => {}
    }
    let head = pull.head_commit;
    let request = MergeRequest {
        method: merge.method,
        commit: Some(head.clone()),
        delete_branch: merge.delete_branches,
    };
    match perform(deps.pull_requests(), found.clone(), &request, &merge.by).await {
        Ok(done) => merged(deps, ticket, merge, index, &head, &done.commit).await,
        Err(NotMerged::CodeHost(failure)) => match failure.reason {
            Reason::Conflict => conflict::found(deps, ticket, merge, index, found, &head).await,
            Reason::HeadMoved => {
                let reason = "The branch has a new commit.";
                Ok(waiting(ticket, merge, index, reason, now.plus_secs(COMPUTING_SECS)))
            }
            _ => Err(failure.into()),
        },
        Err(NotMerged::Other(Error::Conflict { detail, .. })) => Ok(skip(&detail)),
        Err(NotMerged::Other(error)) => Err(error.into()),
    }
}

async fn merged(
    deps: Deps<'_>,
    ticket: &Ticket,
    merge: &TicketMerge,
    index: usize,
    head: &str,
    commit: &str,
) -> Result<Progress, Stopped> {
    let mut merge = merge.clone();
    let resolver = merge.branches[index].resolved_by.clone();
    // It has the same pull request.
    if let Some(resolver) = resolver
        && let Some(task) = deps.store.task(&resolver).await?
    {
        record(deps.pull_requests(), &task, head, commit, &merge.by).await?;
    }
    merge.branches[index].commit = Some(commit.to_owned());
    Ok(changed(ticket, merge, index, BranchState::Merged, None, deps.clock.now()))
}

fn tests_failed(task: &Task) -> bool {
    let reported: Option<AgentCompleted> = task.result.as_ref().and_then(catalogue::read);
    reported.is_some_and(|reported| reported.report.state.tests_passed == Some(false))
}
