//! Creates the branch of a task at its code host, under a name that no other task and no person has.

use crate::orchestration::Repository;
use code_hosts::{Base, Creation, Failure, Reason};
use domain::Task;
use domain::task::{TaskBranch, branch_name};
use std::collections::BTreeSet;
use store::Store;
use store::branches::BranchClaim;

/// Maximum number of names that are tried.
const MAX_NAMES: u32 = 1_000;

/// Why a branch was not created.
#[derive(Debug)]
pub(crate) enum NotCreated {
    CodeHost(Failure),
    Store(store::error::Error),
}

impl From<Failure> for NotCreated {
    fn from(failure: Failure) -> Self {
        Self::CodeHost(failure)
    }
}

impl From<store::error::Error> for NotCreated {
    fn from(error: store::error::Error) -> Self {
        Self::Store(error)
    }
}

/// Creates the branch of a task that has none. Idempotent, also at the same time. The caller records it with the task.
pub(crate) async fn create(
    store: &Store,
    repository: &Repository,
    task: &Task,
    base: Base,
) -> Result<TaskBranch, NotCreated> {
    let claim = BranchClaim { task: task.id.clone(), base_commit: base.commit };
    let (name, base_commit) = match &task.execution.branch {
        Some(name) => {
            let default = repository.host.check(None).await?.branch;
            if *name == base.branch || *name == default {
                let message = "the branch of a task must be neither its base nor the default branch; name another branch, \
                               or none";
                return Err(Failure::new(Reason::Invalid, message).into());
            }
            create_named(repository, name.clone(), claim).await?
        }
        None => create_own(store, repository, task, claim).await?,
    };
    Ok(TaskBranch { name, base: base.branch, base_commit, pull_request: None })
}

/// Creates the branch that the request names, unless it exists. Returns its name, and where it starts.
async fn create_named(
    repository: &Repository,
    name: String,
    claim: BranchClaim,
) -> Result<(String, String), NotCreated> {
    let commit = match repository.host.create_branch(&name, &claim.base_commit).await? {
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
    store: &Store,
    repository: &Repository,
    task: &Task,
    claim: BranchClaim,
) -> Result<(String, String), NotCreated> {
    let existing = repository.host.branches().await?;
    // Where file names ignore case, so do branches.
    let existing: BTreeSet<String> = existing.into_iter().map(|branch| branch.name.to_lowercase()).collect();
    for number in 1..=MAX_NAMES {
        let name = branch_name(task, number);
        let known = store.branch_claim(&repository.address, &name).await?;
        let is_free = |claim: &Option<BranchClaim>| claim.is_none() && !is_taken(&existing, &name);
        let held = match known {
            Some(claim) if claim.task == task.id => claim,
            other if is_free(&other) => store.claim_branch(&repository.address, &name, claim.clone()).await?,
            _ => continue,
        };
        if held.task != task.id {
            continue;
        }
        match repository.host.create_branch(&name, &held.base_commit).await? {
            Creation::Created => return Ok((name, held.base_commit)),
            Creation::Exists { commit } if commit == held.base_commit => return Ok((name, commit)),
            Creation::Exists { .. } => {}
        }
    }
    Err(Failure::new(Reason::Invalid, format!("{MAX_NAMES} names of branches are taken")).into())
}

/// Git stores branches as files: `a` and `a/b` exclude each other.
fn is_taken(existing: &BTreeSet<String>, name: &str) -> bool {
    let parents = name.match_indices('/').any(|(end, _)| existing.contains(&name[..end]));
    let directory = format!("{name}/");
    let below = existing.range(directory.clone()..).next().is_some_and(|next| next.starts_with(&directory));
    parents || below || existing.contains(name)
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
