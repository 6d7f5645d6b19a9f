//! What reviewers and checks say about a pull request, and replies to it.

use crate::PullRequest;

/// Number of lines at the end of a failed check's log.
pub const MAX_LOG_LINES: usize = 200;

/// Maximum number of failed checks whose log is read.
pub const MAX_LOGS: usize = 5;

/// What was said about a pull request. Of a pull request that is not open, only the pull request itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    pub pull_request: PullRequest,
    /// Reviews with a text, or that request changes. Approvals are left out.
    pub reviews: Vec<Review>,
    /// Threads about lines, also resolved ones.
    pub threads: Vec<Thread>,
    /// Comments on the pull request as a whole.
    pub comments: Vec<Comment>,
    /// Checks of the newest commit that failed.
    pub failed_checks: Vec<FailedCheck>,
    /// Whether a check of the newest commit is still running.
    pub checks_pending: bool,
}

impl Feedback {
    /// Nothing was said.
    pub(crate) fn none(pull_request: PullRequest) -> Self {
        Self {
            pull_request,
            reviews: Vec::new(),
            threads: Vec::new(),
            comments: Vec::new(),
            failed_checks: Vec::new(),
            checks_pending: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    pub requests_changes: bool,
    /// Its text may be empty if it requests changes.
    pub comment: Comment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// For [`Reply::thread`].
    pub id: String,
    pub path: String,
    /// `None` for a thread about a whole file, or about a line that no longer exists.
    pub line: Option<u64>,
    pub is_resolved: bool,
    /// Oldest first.
    pub comments: Vec<Comment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Identifies it among all comments and reviews of the repository.
    pub id: String,
    pub author: Author,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub standing: Standing,
}

/// What an author is to the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// This plane wrote it.
    Own,
    Owner,
    Member,
    Collaborator,
    /// A program that the operator lists.
    ListedBot,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    pub name: String,
    pub summary: Option<String>,
    pub url: Option<String>,
    /// The last [`MAX_LOG_LINES`] lines, where the host has them and the credential may read them.
    pub log: Option<String>,
}

/// A reply of this plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// `None` for a comment on the pull request as a whole.
    pub thread: Option<String>,
    /// Identifies the reply among ours in its thread: it is posted once, however often it is sent.
    pub key: String,
    /// Markdown.
    pub text: String,
    /// Whether the thread is resolved with it.
    pub resolves: bool,
}

/// The end of a log.
pub(crate) fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(MAX_LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_of_a_log_are_kept() {
        let log: String = (1..=500).map(|line| format!("line {line}\n")).collect();
        let kept = last_lines(&log);
        assert_eq!(kept.lines().count(), MAX_LOG_LINES);
        assert!(kept.starts_with("line 301\n") && kept.ends_with("line 500"), "{kept}");
        assert_eq!(last_lines("one\ntwo"), "one\ntwo");
        assert_eq!(last_lines(""), "");
    }
}
