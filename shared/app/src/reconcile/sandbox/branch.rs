//! Gives a task its branch, before a sandbox is paid for.

use super::Deps;
use super::provision::Work;
use crate::error::chain;
use crate::orchestration::Repository;
use crate::tasks;
use code_hosts::{Creation, Reason};
use domain::attempt::Attempt;
use domain::task::{TaskBranch, branch_name};
use domain::ticket::ANALYZE_REQUIREMENTS;
use domain::{Sandbox, Task, Ticket};
use providers::{Failure, FailureClass};
use std::collections::BTreeSet;
use store::branches::BranchClaim;

/// Maximum number of names that are tried.
const MAX_NAMES: u32 = 1_000;

/// Checks the repository, creates the branch, and records it with the task. Idempotent. Retries and revisions continue on
/// the branch that the task has.
pub(super) async fn prepare(deps: Deps<'_>, sandbox: &Sandbox, work: &mut Work) -> Result<(), Failure> {
    // An analysis changes nothing.
    if work.task.task_type == ANALYZE_REQUIREMENTS {
        return Ok(());
    }
    let Some(repository) = repository(deps, &work.task, work.ticket.as_ref())? else { return Ok(()) };
    let base = work.task.branch.as_ref().map(|branch| branch.base.clone());
    let base = base.or_else(|| work.task.execution.base_branch.clone());
    let base = repository.host.check(base.as_deref()).await.map_err(of_code_host)?;
    if work.task.branch.is_some() {
        return Ok(());
    }
    if let Some(named) = &work.task.execution.branch {
        let default = repository.host.check(None).await.map_err(of_code_host)?.branch;
        if *named == base.branch || *named == default {
            return Err(Failure::refused(
                "The branch of a task must be neither its base nor the default branch. Name another branch, or none",
            ));
        }
    }
    let claim = BranchClaim { task: work.task.id.clone(), base_commit: base.commit };
    let (name, base_commit) = match &work.task.execution.branch {
        Some(name) => create(&repository, name.clone(), claim).await?,
        None => create_own(deps, &repository, &work.task, claim).await?,
    };
    let branch = TaskBranch { name, base: base.branch, base_commit, pull_request: None };
    record(deps, sandbox, work, &repository.name, branch).await
}

/// The repository of a task at its code host, if this plane has one for it.
pub(super) fn repository(
    deps: Deps<'_>,
    task: &Task,
    ticket: Option<&Ticket>,
) -> Result<Option<Repository>, Failure> {
    deps.code_hosts.repository(deps.orchestration, task, ticket).map_err(of_code_host)
}

/// A failure of a code host as a failure of the stage, with what a person can do about it.
pub(super) fn of_code_host(failure: code_hosts::Failure) -> Failure {
    let class = match failure.reason {
        Reason::Busy { retry_after_secs } => FailureClass::Busy { retry_after_secs },
        reason if reason.is_transient() => FailureClass::Unreachable,
        _ => FailureClass::Refused,
    };
    Failure { class, message: format!("{failure}. {}", failure.reason.remedy()) }
}

/// Creates the branch that the request names, unless it exists. Returns its name, and where it starts.
async fn create(
    repository: &Repository,
    name: String,
    claim: BranchClaim,
) -> Result<(String, String), Failure> {
    let created = repository.host.create_branch(&name, &claim.base_commit).await.map_err(of_code_host)?;
    let commit = match created {
        Creation::Created => claim.base_commit,
        Creation::Exists { commit } => commit,
    };
    Ok((name, commit))
}

/// Creates a branch with the first name that no other task and no branch of the repository has.
///
/// The claim is stored before the branch is created. So a branch of a claimed name that starts at the claim's commit is
/// ours: the response to its creation was lost.
async fn create_own(
    deps: Deps<'_>,
    repository: &Repository,
    task: &Task,
    claim: BranchClaim,
) -> Result<(String, String), Failure> {
    let existing = repository.host.branches().await.map_err(of_code_host)?;
    // Where file names ignore case, so do branches.
    let existing: BTreeSet<String> = existing.into_iter().map(|branch| branch.name.to_lowercase()).collect();
    for number in 1..=MAX_NAMES {
        let name = branch_name(task, number);
        let known = deps.store.branch_claim(&repository.address, &name).await.map_err(of_store)?;
        let is_free = |claim: &Option<BranchClaim>| claim.is_none() && !is_taken(&existing, &name);
        let held = match known {
            Some(claim) if claim.task == task.id => claim,
            other if is_free(&other) => {
                let claimed = deps.store.claim_branch(&repository.address, &name, claim.clone()).await;
                claimed.map_err(of_store)?
            }
            _ => continue,
        };
        if held.task != task.id {
            continue;
        }
        match repository.host.create_branch(&name, &held.base_commit).await.map_err(of_code_host)? {
            Creation::Created => return Ok((name, held.base_commit)),
            Creation::Exists { commit } if commit == held.base_commit => return Ok((name, commit)),
            Creation::Exists { .. } => {}
        }
    }
    Err(Failure::refused(format!("{MAX_NAMES} names of branches are taken")))
}

/// Git stores branches as files: `a` and `a/b` exclude each other.
fn is_taken(existing: &BTreeSet<String>, name: &str) -> bool {
    let parents = name.match_indices('/').any(|(end, _)| existing.contains(&name[..end]));
    let directory = format!("{name}/");
    let below = existing.range(directory.clone()..).next().is_some_and(|next| next.starts_with(&directory));
    parents || below || existing.contains(name)
}

/// Records the branch. The task may have changed since it was read.
async fn record(
    deps: Deps<'_>,
    sandbox: &Sandbox,
    work: &mut Work,
    repository: &str,
    branch: TaskBranch,
) -> Result<(), Failure> {
    let Some(assignment) = &sandbox.assignment else { return Ok(()) };
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    loop {
        let now = deps.clock.now();
        let Some(transition) = work.task.branch_created(&attempt, branch.clone(), repository, now) else {
            return Err(Failure::unreachable("the task no longer needs this sandbox"));
        };
        let written = tasks::commit::write(*deps, &work.task, transition).await;
        if let Some(task) = written.map_err(|error| Failure::unreachable(chain(&error)))? {
            work.task = task;
            return Ok(());
        }
        let current = deps.store.task(&work.task.id).await.map_err(of_store)?;
        work.task = current.ok_or_else(|| Failure::refused("the task does not exist"))?;
    }
}

fn of_store(error: store::error::Error) -> Failure {
    Failure::unreachable(chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_cannot_store_beside_others_are_taken() {
        let existing = ["fix", "feature/a", "docs/a/b"].map(str::to_owned).into();
        for (name, taken) in [
            ("fix/a", true),
            ("feature/a", true),
            ("feature/a/b", true),
            ("feature/ab", false),
            ("docs/a", true),
            ("docs/b", false),
            ("test/a", false),
        ] {
            assert_eq!(is_taken(&existing, name), taken, "{name}");
        }
    }
}
