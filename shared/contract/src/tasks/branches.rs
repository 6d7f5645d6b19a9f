//! Requests and responses about the branch and the pull request of a task.

use crate::bad_input::BadInput;
use crate::fields::Fields;
use domain::feedback::{Remark, Rounds};
use domain::task::MergeMethod;
use domain::{TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET` and `POST /api/v1/tasks/{id}/pull-request`: the state at the code host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PullRequest")]
pub struct PullRequestOut {
    pub task_id: TaskId,
    /// As the request named it.
    pub repository: String,
    /// `github` or `local`.
    pub code_host: String,
    pub branch: String,
    /// The branch that the work goes to.
    pub base: String,
    /// `null` if there is no pull request yet.
    pub number: Option<u64>,
    pub url: Option<String>,
    /// `open`, `merged` or `closed`.
    pub state: Option<String>,
    /// The newest commit of the branch; `null` if the branch was deleted.
    pub commit: Option<String>,
    /// Whether it merges without conflicts; `null` while the code host computes it.
    pub mergeable: Option<bool>,
    /// `success`, `failure` or `pending`; `null` if there are no checks.
    pub ci_status: Option<String>,
    /// Checks of the commit, without that of the plane.
    pub checks: Vec<CheckOut>,
    pub feedback: FeedbackOut,
}

/// Feedback on the pull request of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Feedback")]
pub struct FeedbackOut {
    /// Number of rounds that were started.
    pub rounds: u32,
    /// What an agent works on now, or will when it gets a sandbox.
    pub in_progress: Vec<Remark>,
    /// What came after the last round: a person decides.
    pub left_to_person: Vec<Remark>,
    /// When the plane read it last.
    pub read_at: Option<Timestamp>,
    /// When it reads it again, unless a webhook arrives before; `null` if it does not.
    pub next_read_at: Option<Timestamp>,
}

impl From<&Rounds> for FeedbackOut {
    fn from(rounds: &Rounds) -> Self {
        let round = rounds.round.as_ref();
        Self {
            rounds: rounds.started,
            in_progress: round.map(|round| round.remarks.clone()).unwrap_or_default(),
            left_to_person: rounds.left_to_person.clone(),
            read_at: rounds.read_at,
            next_read_at: rounds.next_read_at,
        }
    }
}

/// A check of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Check")]
pub struct CheckOut {
    pub name: String,
    /// `pending`, `success`, `failure` or `neutral`.
    pub state: String,
    pub summary: Option<String>,
    pub url: Option<String>,
}

/// `POST /api/v1/tasks/{id}/merge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeRequest {
    pub method: MergeMethod,
    /// The newest commit of the branch that the caller has seen. If there is a newer one, nothing is merged.
    pub commit: Option<String>,
    /// Whether to delete the branch afterwards.
    pub delete_branch: bool,
}

/// Maximum length of the name of a commit.
const MAX_COMMIT_CHARS: usize = 64;

impl MergeRequest {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let fields = if body.is_empty() { Fields::decode(b"{}")? } else { Fields::decode(body)? };
        let commit = fields.line("commit", MAX_COMMIT_CHARS)?;
        if commit.as_ref().is_some_and(|commit| !commit.chars().all(|c| c.is_ascii_hexdigit())) {
            return Err(BadInput::invalid("commit", "must be the full name of a commit"));
        }
        Ok(Self {
            method: fields.one_of("method", &MergeMethod::NAMES)?.unwrap_or_default(),
            commit,
            delete_branch: fields.flag("delete_branch")?.unwrap_or(true),
        })
    }
}

/// Response to a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TaskMergeResult")]
pub struct MergedOut {
    pub task_id: TaskId,
    pub number: u64,
    pub url: String,
    pub base: String,
    /// The commit of the base that contains the work.
    pub commit: String,
    pub branch_deleted: bool,
}

/// `GET /api/v1/tasks/{id}/diff`: what the branch has changed since it left its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDiff {
    pub task_id: TaskId,
    pub branch: String,
    pub base: String,
    /// The newest commit of the branch.
    pub commit: String,
    /// Number of commits that the base does not have.
    pub ahead: u64,
    /// Number of commits of the base that the branch does not have.
    pub behind: u64,
    /// Sorted by path.
    pub files: Vec<FileDiff>,
    /// Whether there are more files.
    pub files_truncated: bool,
}

/// The changes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    pub path: String,
    /// If it was renamed or copied.
    pub previous_path: Option<String>,
    /// `created`, `modified`, `deleted`, `renamed` or `copied`.
    pub change_type: String,
    pub additions: u64,
    pub deletions: u64,
    /// The hunks of a unified diff; `null` for binary files.
    pub diff: Option<String>,
    /// Whether the diff was cut because of its size.
    pub diff_truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_request_has_defaults_and_names_invalid_fields() {
        let default = MergeRequest { method: MergeMethod::Squash, commit: None, delete_branch: true };
        assert_eq!(MergeRequest::decode(b"").unwrap(), default);
        assert_eq!(MergeRequest::decode(b"{}").unwrap(), default);
        for (body, field) in [
            (r#"{"method":"force"}"#, "method"),
            (r#"{"commit":"main"}"#, "commit"),
            (r#"{"delete_branch":"yes"}"#, "delete_branch"),
        ] {
            match MergeRequest::decode(body.as_bytes()) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(wrong.field, field, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}
