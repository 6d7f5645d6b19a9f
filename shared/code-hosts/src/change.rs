//! What code hosts take and return.

use crate::{MAX_PATCH_BYTES, Secret};
use serde::{Deserialize, Serialize};

/// The branch that work starts from and goes back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub branch: String,
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Without `refs/heads/`.
    pub name: String,
    pub commit: String,
}

/// Result of [`CodeHost::create_branch`](crate::CodeHost::create_branch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    Created,
    /// A branch of this name exists at this commit.
    Exists {
        commit: String,
    },
}

/// With what git fetches and pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitAccess {
    /// URL without a credential, or a directory.
    pub url: String,
    pub username: Option<String>,
    pub token: Option<Secret>,
    /// Unix time at which the token expires; `None` if it does not, or if that is unknown.
    pub expires_at_secs: Option<i64>,
}

/// A pull request to create, or to update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The branch with the changes.
    pub branch: String,
    /// The branch that they go to.
    pub base: String,
    pub title: String,
    /// Markdown.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    /// For people. A URL, or for repositories of this machine the name of its ref.
    pub url: String,
    pub title: String,
    pub state: PullRequestState,
    pub branch: String,
    pub base: String,
    /// The newest commit of the branch.
    pub head_commit: String,
    /// Whether it merges without conflicts. `None` while the host computes it, and for pull requests that are not
    /// open.
    pub mergeable: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequestState {
    Open,
    /// Holds the newest commit that the merge added to the base.
    Merged {
        commit: String,
    },
    /// Without a merge, or because its branch was deleted.
    Closed,
}

/// How to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    pub method: MergeMethod,
    /// Expected newest commit of the branch. If it is another one, nothing is merged.
    pub head: String,
    /// First line of the commit that the method creates; the host's own if it is `None`.
    pub title: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MergeMethod {
    /// A commit with two parents.
    Merge,
    /// One commit with all changes.
    #[default]
    Squash,
    /// The commits of the branch, on top of the base.
    Rebase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The newest commit of the base after the merge.
    pub commit: String,
}

/// A report about a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// A later report with the same name replaces this one.
    pub name: String,
    pub state: CheckState,
    /// One sentence. Hosts may cut it.
    pub summary: String,
    /// Link to details.
    pub url: Option<String>,
}

/// The result of a program that examined a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub state: CheckState,
    pub summary: Option<String>,
    pub url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Queued or running.
    Pending,
    Success,
    Failure,
    /// Skipped, cancelled, or without a judgement.
    Neutral,
}

/// What one side has that the other has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Number of commits of the head that the base does not have.
    pub ahead: u64,
    /// Number of commits of the base that the head does not have.
    pub behind: u64,
    /// Changes since the newest common commit, sorted by path. At most [`MAX_FILES`](crate::MAX_FILES).
    pub files: Vec<FileChange>,
    /// Whether there are more files.
    pub files_cut: bool,
}

/// Where branches contradict their base and each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts {
    /// Whether the files are those that both sides have changed: some of them may merge. Otherwise they were found by
    /// trial merges.
    pub estimated: bool,
    /// Only pairs with files.
    pub pairs: Vec<ConflictingPair>,
}

/// Two sides that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictingPair {
    /// Index of a head.
    pub one: usize,
    /// Index of a later head; `None` for the base.
    pub other: Option<usize>,
    pub files: Vec<ConflictingFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictingFile {
    pub path: String,
    /// The contradicting lines with the marks of git, if they are known. Only for conflicts with the base.
    pub hunks: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// If it was renamed or copied.
    pub previous_path: Option<String>,
    pub status: FileStatus,
    /// Number of lines; 0 for binary files.
    pub additions: u64,
    pub deletions: u64,
    /// The hunks, as a unified diff without file headers. `None` for binary files, and if the host has none.
    pub patch: Option<String>,
    /// Whether [`FileChange::patch`] was cut at [`MAX_PATCH_BYTES`](crate::MAX_PATCH_BYTES), or left out because
    /// it is too large.
    pub patch_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStatus {
    Added,
    Modified,
    Removed,
    Renamed,
    Copied,
}

/// Cuts a patch after its last line within the limit. Returns whether something was cut.
pub(crate) fn cut_patch(mut patch: String) -> (String, bool) {
    if patch.len() <= MAX_PATCH_BYTES {
        return (patch, false);
    }
    let end = patch.floor_char_boundary(MAX_PATCH_BYTES);
    let line_end = patch[..end].rfind('\n').unwrap_or(end);
    patch.truncate(line_end);
    (patch, true)
}
