//! Whether to retry after a failure, and when.
//!
//! A failure reaches the plane as text: from a provider, from git, from an agent. The text is compared word by word, so
//! that `read-only`, `read_only` and `ReadOnly` are equal and `notfoundry` is not `not found`. An unknown failure counts as
//! transient, because a retry costs little and giving up loses work.

use crate::backoff::Backoff;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A retry may succeed.
    Transient,
    /// A retry would fail in the same way.
    Permanent,
}

/// Classifies a failure by its text.
///
/// Rate limits are checked first: OmoiOS treated them as permanent although they pass, and services report them with words
/// that are permanent elsewhere (`403 Forbidden: rate limit exceeded`).
pub fn classify(error: &str) -> Class {
    let words = words(error);
    let contains = |phrase: &&[&str]| (0..words.len()).any(|at| starts_with(&words[at..], phrase));
    if LIMITS.iter().any(contains) {
        return Class::Transient;
    }
    let missing = MISSING.iter().any(|phrase| {
        let mut matches = (0..words.len()).filter(|&at| starts_with(&words[at..], phrase));
        matches.any(|at| !is_about_the_attempt(&words[..at]))
    });
    if missing || PERMANENT.iter().any(contains) { Class::Permanent } else { Class::Transient }
}

/// Delays before retries of attempts and of provisioning.
const RETRIES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Delay before the next retry. `jitter` is from 0 to 1.
pub fn backoff_secs(retry_count: u32, jitter: f64) -> f64 {
    RETRIES.delay(retry_count, jitter).as_secs_f64()
}

/// Phrases of rate limits and quotas.
const LIMITS: [&[&str]; 17] = [
    &["rate", "limit"],
    &["rate", "limits"],
    &["rate", "limited"],
    &["rate", "limiting"],
    &["ratelimit"],
    &["ratelimited"],
    &["usage", "limit"],
    &["too", "many", "requests"],
    // Not the number alone: it may be a line number.
    &["http", "429"],
    &["status", "429"],
    &["status", "code", "429"],
    &["quota"],
    &["throttled"],
    &["throttling"],
    &["overloaded"],
    &["retry", "after"],
    &["try", "again", "later"],
];

/// Phrases of failures that a new sandbox would not fix.
const PERMANENT: [&[&str]; 15] = [
    &["permission", "denied"],
    &["permission", "error"],
    &["access", "denied"],
    &["authentication", "failed"],
    &["authentication", "error"],
    &["authorization", "failed"],
    &["unauthorized"],
    &["forbidden"],
    &["invalid", "api", "key"],
    &["syntax", "error"],
    &["invalid", "argument"],
    &["duplicate", "key"],
    &["constraint", "violation"],
    &["immutable"],
    &["read", "only"],
];

/// Permanent, unless it refers to a resource that the next attempt does not share with this one.
const MISSING: [&[&str]; 3] = [&["not", "found"], &["does", "not", "exist"], &["already", "exists"]];

/// Resources that each attempt has of its own, and names that depend on the network. A sandbox that the provider no longer
/// has is a reason to create another.
const OF_THE_ATTEMPT: [&str; 7] = ["sandbox", "container", "workspace", "session", "host", "hostname", "dns"];

/// Maximum distance in words from the resource to `not found`: `sandbox <an id of several words> was not found`.
const NAMED_WITHIN_WORDS: usize = 10;

fn is_about_the_attempt(before: &[String]) -> bool {
    let near = &before[before.len().saturating_sub(NAMED_WITHIN_WORDS)..];
    near.iter().any(|word| OF_THE_ATTEMPT.contains(&word.as_str()))
}

/// The words of a text in lower case. A word ends at any character that is not a letter or digit, and before an upper
/// case letter in `camelCase`.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c.is_alphanumeric() {
            words.last_mut().expect("there is always a last word").extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn starts_with(words: &[String], phrase: &[&str]) -> bool {
    words.len() >= phrase.len() && words.iter().zip(phrase).all(|(word, expected)| word == expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn permanent_failures_are_recognized() {
        for error in [
            "Permission denied (publickey).",
            "bash: ./run.sh: Permission denied",
            "PermissionDenied: cannot write",
            "Access Denied",
            "remote: Authentication failed for 'https://example.org/a.git/'",
            "authentication_error: invalid x-api-key",
            "Invalid API key · Please run /login",
            "401 Unauthorized",
            "authorization failed",
            "SyntaxError: unexpected token",
            "line 429: syntax error",
            "invalid argument: --colour",
            "remote: Repository not found.",
            "worker: command not found",
            "not_found_error: model: nonesuch",
            "FileNotFoundError: setup.py",
            "fatal: branch main does not exist",
            "fatal: a branch named 'x' already exists",
            "duplicate key value violates unique constraint",
            "constraint violation",
            "the field is immutable",
            "Read-only file system",
            "The sandbox is well. But in the end, after we had looked everywhere, snapshot x was not found",
        ] {
            assert_eq!(classify(error), Class::Permanent, "{error}");
        }
    }

    #[test]
    fn other_failures_and_rate_limits_are_transient() {
        for error in [
            "",
            "something unknown",
            "connection refused",
            "Connection reset by peer",
            "operation timed out",
            "503 Service Unavailable",
            "Temporary failure in name resolution",
            "worker died with signal 9",
            "the notfoundry closed",
            "rate limit exceeded",
            "Rate-limited by the provider",
            "RateLimitError: slow down",
            "quota exceeded",
            "429 Too Many Requests",
            "HTTP 429",
            "overloaded_error",
            "403 Forbidden: API rate limit exceeded",
            "access denied: quota exceeded for this minute",
            "not found (too many requests)",
            "Sandbox 0198c2f4-1c5e-7000-8000-0123456789ab not found",
            "sandbox with name omoios-1 already exists",
            "container does not exist",
            "lookup example.org: host not found",
        ] {
            assert_eq!(classify(error), Class::Transient, "{error}");
        }
    }

    #[test]
    fn retries_wait_for_a_minute_at_most() {
        assert_eq!(backoff_secs(0, 1.0), 1.0);
        assert_eq!(backoff_secs(0, 0.0), 0.5);
        assert_eq!(backoff_secs(u32::MAX, 1.0), 60.0);
    }

    proptest! {
        #[test]
        fn a_rate_limit_in_any_text_is_transient(before in ".{0,80}", after in ".{0,80}") {
            let _ = classify(&before);
            prop_assert_eq!(classify(&format!("{before} rate limit exceeded {after}")), Class::Transient);
            prop_assert_eq!(classify(&format!("{before} permission denied rate_limit {after}")), Class::Transient);
        }
    }
}
