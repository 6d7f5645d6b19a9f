//! Failures by what can be done about them.

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub reason: Reason,
    /// A sentence for people, without a full stop and without secrets.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is no such repository, branch, commit or pull request, or the credential may not see it.
    NotFound,
    /// The credential is missing, invalid or expired.
    Unauthorized,
    /// The credential may read but not write.
    PushForbidden,
    /// The repository has commits, but not this base branch.
    BaseMissing,
    /// The repository has no commit yet.
    EmptyRepository,
    /// The branch has no commit that its base does not have.
    NothingToPropose,
    /// Changes on both sides contradict each other, or local changes would be overwritten.
    Conflict,
    /// A rule of the host forbids the merge, such as a missing review or a failed check, or the pull request is
    /// closed.
    NotMergeable,
    /// The branch has another newest commit than the caller expects.
    HeadMoved,
    /// The host does not accept the request.
    Invalid,
    /// Rate limit reached, or the repository is locked.
    Busy { retry_after_secs: Option<u64> },
    /// No response, a timeout, or an error of the host. The call may have taken effect.
    Unreachable,
}

impl Reason {
    /// Whether the same call may succeed later without a change by a person.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unreachable)
    }

    /// Stable name in events and responses.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "repository_not_found",
            Self::Unauthorized => "credential_rejected",
            Self::PushForbidden => "push_forbidden",
            Self::BaseMissing => "base_missing",
            Self::EmptyRepository => "repository_empty",
            Self::NothingToPropose => "nothing_to_propose",
            Self::Conflict => "merge_conflict",
            Self::NotMergeable => "not_mergeable",
            Self::HeadMoved => "head_moved",
            Self::Invalid => "request_invalid",
            Self::Busy { .. } => "code_host_busy",
            Self::Unreachable => "code_host_unreachable",
        }
    }

    /// What a person can do about it: complete sentences.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::NotFound => {
                "Check the address of the repository, and that the token or the App may see it."
            }
            Self::Unauthorized => "Renew the token or the key of the App, and check that it is complete.",
            Self::PushForbidden => {
                "Give the token or the App permission to write contents and pull requests of the repository."
            }
            Self::BaseMissing => "Choose a base branch that exists in the repository.",
            Self::EmptyRepository => "Push a first commit to the repository.",
            Self::NothingToPropose => "Nothing needs to be done: the branch has no changes.",
            Self::Conflict => "Merge the base into the branch and resolve the conflicts, then try again.",
            Self::NotMergeable => {
                "Check on the pull request what the host still requires, such as a review or a check."
            }
            Self::HeadMoved => "Look at the new commits of the branch, then merge again.",
            Self::Invalid => "Correct the request: the message names what is not accepted.",
            Self::Busy { .. } => "Try again later.",
            Self::Unreachable => "Check that the code host is reachable, then try again.",
        }
    }
}

impl Failure {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
