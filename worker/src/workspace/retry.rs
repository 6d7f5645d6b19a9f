//! Repeats operations with the host of a repository.

use super::git::GitError;
use client::{Backoff, Wait};
use std::time::Duration;

/// Maximum number of attempts.
const MAX_ATTEMPTS: u32 = 4;
/// Longest delay before an operation is repeated.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Error messages of git that a repetition would not change.
const PERMANENT_ERRORS: [&str; 16] = [
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "not found",
    "does not exist",
    "does not appear to be a git repository",
    "Permission denied",
    "permission to",
    "dubious ownership",
    "returned error: 401",
    "returned error: 403",
    "returned error: 404",
    "[remote rejected]",
    "not allowed",
    "No space left on device",
];

/// Repeats an operation after transient failures, with exponential backoff and jitter.
pub(crate) async fn with_backoff<T, E>(
    initial_delay: Duration,
    name: &str,
    operation: impl AsyncFn() -> Result<T, E>,
    is_permanent: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let backoff = Backoff::new(initial_delay, MAX_DELAY);
    let mut attempt = 1;
    loop {
        match operation().await {
            Err(error) if attempt < MAX_ATTEMPTS && !is_permanent(&error) => {
                tracing::warn!(attempt, "git {name} failed; retrying");
                tokio::time::sleep(backoff.wait(attempt - 1)).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}

pub(crate) fn is_permanent(error: &GitError) -> bool {
    match error {
        GitError::Failed { stderr, .. } => PERMANENT_ERRORS.iter().any(|reason| stderr.contains(reason)),
        GitError::NotRun { .. } => true,
    }
}
