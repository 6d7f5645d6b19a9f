//! Code hosts: where a repository lives. One trait and its implementations.
//!
//! A value is one repository at a host, with the credential for it. Every call is idempotent and may be
//! interrupted and retried: a branch, a pull request and a merge are found again if the response to their creation
//! was lost.
//!
//! A code host is a folder here, and a line in [`CODE_HOSTS`]. [`local`] is not in the list: it needs the machine
//! of the plane, so only the local host constructs it.
//!
//! Deliberately absent: retries of whole calls, names of branches, texts of pull requests, and what a failure
//! means for a task. The caller decides those.

pub mod catalogue;
mod change;
mod failure;
mod feedback;
pub mod github;
mod kind;
pub mod local;
pub mod names;
mod secret;

pub use catalogue::Catalogue;
pub use change::{
    Base, Branch, Check, CheckState, Comparison, ConflictingFile, ConflictingPair, Conflicts, Creation,
    FileChange, FileStatus, GitAccess, Merge, MergeMethod, Merged, NewPullRequest, PullRequest,
    PullRequestState, Status,
};
pub use failure::{Failure, Reason};
pub use feedback::{
    Author, Comment, FailedCheck, Feedback, MAX_LOG_LINES, MAX_LOGS, Reply, Review, Standing, Thread,
};
use futures_util::future::BoxFuture;
pub use kind::{Catalogued, CodeHostKind, Environment, Opened, Values, Variable};
pub use secret::Secret;
use std::fmt;

/// The code hosts that every host of the plane can use.
pub const CODE_HOSTS: &[&CodeHostKind] = &[&github::GITHUB];

/// Maximum number of files in a [`Comparison`].
pub const MAX_FILES: usize = 300;

/// Maximum size of a file's patch in a [`Comparison`].
pub const MAX_PATCH_BYTES: usize = 64 * 1024;

/// Result of a call to a code host. It resolves within the host's own deadline.
pub type HostFuture<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// One repository at a code host. Every call has a deadline and is idempotent.
pub trait CodeHost: Send + Sync + fmt::Debug {
    /// Name in settings, records and logs: `github`, `local`.
    fn name(&self) -> &'static str;

    /// Checks what a task needs, before a sandbox is paid for: the repository can be reached, the credential may
    /// push, and the base exists. `None` is the default branch.
    fn check<'a>(&'a self, base: Option<&'a str>) -> HostFuture<'a, Base>;

    /// All branches, sorted by name. An incomplete list is a failure.
    fn branches(&self) -> HostFuture<'_, Vec<Branch>>;

    /// The commit of a branch; `None` if there is no such branch.
    fn branch<'a>(&'a self, name: &'a str) -> HostFuture<'a, Option<String>>;

    /// Creates a branch. An existing one is left as it is, so at most one of several concurrent calls gets
    /// [`Creation::Created`].
    ///
    /// If a response is lost, a retry gets [`Creation::Exists`] with the requested commit.
    fn create_branch<'a>(&'a self, name: &'a str, commit: &'a str) -> HostFuture<'a, Creation>;

    /// Deletes a branch, if it exists.
    fn delete_branch<'a>(&'a self, name: &'a str) -> HostFuture<'a, ()>;

    /// An address and a credential with which git can fetch and push.
    fn git_access(&self) -> HostFuture<'_, GitAccess>;

    /// Creates the pull request of a branch. If an open one exists, its title, body and base are updated.
    fn propose<'a>(&'a self, request: &'a NewPullRequest) -> HostFuture<'a, PullRequest>;

    /// A pull request; `None` if there is none with this number.
    fn pull_request(&self, number: u64) -> HostFuture<'_, Option<PullRequest>>;

    /// Merges a pull request whose head is [`Merge::head`]. If that was merged before, returns the commit of that
    /// merge.
    fn merge<'a>(&'a self, number: u64, merge: &'a Merge) -> HostFuture<'a, Merged>;

    /// What reviewers and checks say about a pull request; `None` if there is none with this number.
    fn feedback(&self, number: u64) -> HostFuture<'_, Option<Feedback>>;

    /// Posts replies to a pull request, and resolves threads. A reply that was posted before is left out, and one to a
    /// thread that no longer exists.
    fn reply<'a>(&'a self, number: u64, replies: &'a [Reply]) -> HostFuture<'a, ()>;

    /// Shows progress or the result of a task on a commit. Replaces an earlier report with the same name.
    fn report_status<'a>(&'a self, commit: &'a str, status: &'a Status) -> HostFuture<'a, ()>;

    /// All checks of a commit, including those of [`CodeHost::report_status`]; the latest of each name.
    fn checks<'a>(&'a self, commit: &'a str) -> HostFuture<'a, Vec<Check>>;

    /// Which files contradict each other: those of each head and the base, and those of any two heads. Nothing is
    /// changed.
    fn conflicts<'a>(&'a self, base: &'a str, heads: &'a [String]) -> HostFuture<'a, Conflicts>;

    /// What `head` has changed since it left `base`. Both are branches or commits.
    fn compare<'a>(&'a self, base: &'a str, head: &'a str) -> HostFuture<'a, Comparison>;
}
