//! Repositories on the plane's own machine: a bare one, or one with a working tree.
//!
//! Everything is kept in the repository itself, as refs below `refs/sunaba`, which `git clone` and `git fetch`
//! leave alone:
//!
//! | ref | content |
//! |---|---|
//! | `refs/sunaba/pull/<n>/head` | the newest commit of the pull request when it was last updated |
//! | `refs/sunaba/pull/<n>/record` | a blob with its title, body, branches and merge |
//! | `refs/sunaba/checks/<commit>` | a blob with the reports about a commit |
//!
//! **Invariant:** nothing is forced. A branch is created where none exists, and changed only from the value that
//! was read. A working tree is only fast-forwarded, and only if no local change is in the way.
//!
//! **Invariant:** no program runs that the repository names in its configuration, hooks or attributes (module `git`).
//!
//! Deliberately absent: remotes. Nothing is fetched or pushed here.

mod branches;
mod catalogue;
mod compare;
mod conflicts;
mod git;
mod kind;
mod leftovers;
mod lock;
mod merge;
mod patches;
mod pulls;
mod records;
mod reports;
mod repository;
mod working_tree;

use crate::{
    Base, Branch, Check, CodeHost, Comparison, Conflicts, Creation, Environment, Feedback, GitAccess,
    HostFuture, Merge, Merged, NewPullRequest, PullRequest, Reply, Status, names,
};
pub use kind::LOCAL;
use std::path::PathBuf;
use std::time::Duration;

/// Name in settings, records and logs.
pub const NAME: &str = "local";

/// One repository on this machine.
#[derive(Debug, Clone)]
pub struct Local {
    /// A bare repository, or a directory in a working tree.
    directory: PathBuf,
    timeout: Duration,
}

impl Local {
    /// Does not access the directory yet.
    pub fn new(directory: impl Into<PathBuf>, environment: &Environment) -> Self {
        Self { directory: directory.into(), timeout: environment.timeout }
    }
}

impl CodeHost for Local {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check<'a>(&'a self, base: Option<&'a str>) -> HostFuture<'a, Base> {
        Box::pin(async move {
            base.map_or(Ok(()), names::check_branch)?;
            self.open().await?.check_base(base).await
        })
    }

    fn branches(&self) -> HostFuture<'_, Vec<Branch>> {
        Box::pin(async move { self.open().await?.branches().await })
    }

    fn branch<'a>(&'a self, name: &'a str) -> HostFuture<'a, Option<String>> {
        Box::pin(async move {
            names::check_branch(name)?;
            self.open().await?.branch(name).await
        })
    }

    fn create_branch<'a>(&'a self, name: &'a str, commit: &'a str) -> HostFuture<'a, Creation> {
        Box::pin(async move {
            names::check_branch(name)?;
            names::check_commit(commit)?;
            self.open().await?.create_branch(name, commit).await
        })
    }

    fn delete_branch<'a>(&'a self, name: &'a str) -> HostFuture<'a, ()> {
        Box::pin(async move {
            names::check_branch(name)?;
            self.open().await?.delete_branch(name).await
        })
    }

    fn git_access(&self) -> HostFuture<'_, GitAccess> {
        Box::pin(async move {
            let repository = self.open().await?;
            let url = repository.directory.to_string_lossy().into_owned();
            Ok(GitAccess { url, username: None, token: None, expires_at_secs: None })
        })
    }

    fn propose<'a>(&'a self, request: &'a NewPullRequest) -> HostFuture<'a, PullRequest> {
        Box::pin(async move {
            names::check_branch(&request.branch)?;
            names::check_branch(&request.base)?;
            self.open().await?.propose(request).await
        })
    }

    fn pull_request(&self, number: u64) -> HostFuture<'_, Option<PullRequest>> {
        Box::pin(async move { self.open().await?.pull_request(number).await })
    }

    fn merge<'a>(&'a self, number: u64, merge: &'a Merge) -> HostFuture<'a, Merged> {
        Box::pin(async move {
            names::check_commit(&merge.head)?;
            self.open().await?.merge(number, merge).await
        })
    }

    /// Repositories of this machine have no reviewers, and only the plane reports on commits.
    fn feedback(&self, number: u64) -> HostFuture<'_, Option<Feedback>> {
        Box::pin(async move {
            let found = self.open().await?.pull_request(number).await?;
            Ok(found.map(Feedback::none))
        })
    }

    /// There are no comments either: what the agent answers is in the events of its task.
    fn reply<'a>(&'a self, _number: u64, _replies: &'a [Reply]) -> HostFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn report_status<'a>(&'a self, commit: &'a str, status: &'a Status) -> HostFuture<'a, ()> {
        Box::pin(async move {
            names::check_commit(commit)?;
            self.open().await?.report_status(commit, status).await
        })
    }

    fn checks<'a>(&'a self, commit: &'a str) -> HostFuture<'a, Vec<Check>> {
        Box::pin(async move {
            names::check_commit(commit)?;
            self.open().await?.checks(commit).await
        })
    }

    fn conflicts<'a>(&'a self, base: &'a str, heads: &'a [String]) -> HostFuture<'a, Conflicts> {
        Box::pin(async move {
            names::check_revision(base)?;
            heads.iter().try_for_each(|head| names::check_revision(head))?;
            self.open().await?.conflicts(base, heads).await
        })
    }

    fn compare<'a>(&'a self, base: &'a str, head: &'a str) -> HostFuture<'a, Comparison> {
        Box::pin(async move {
            names::check_revision(base)?;
            names::check_revision(head)?;
            self.open().await?.compare(base, head).await
        })
    }
}
