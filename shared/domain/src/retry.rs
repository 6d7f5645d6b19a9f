//! Whether it is worth trying again what failed, and when.
//!
//! A failure reaches the plane as text: from a provider, from git, from an agent. It is read word by word, so that
//! `read-only`, `read_only` and `ReadOnly` are the same and `notfoundry` is not `not found`. Whatever is not known to be
//! permanent is worth another try, because a retry costs a little and giving up costs somebody's work.

use serde::{Deserialize, Serialize};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It may go away by itself.
    Transient,
    /// It would fail in the same way again.
    Permanent,
}

/// The kind of failure that this text tells of.
///
/// Limits come first: OmoiOS took them as permanent although they go away by waiting, and services wrap them in words
/// that are permanent elsewhere (`403 Forbidden: rate limit exceeded`).
pub fn classify(error: &str) -> Class {
    let words = words(error);
    let says = |phrase: &&[&str]| (0..words.len()).any(|at| starts_with(&words[at..], phrase));
    if LIMITS.iter().any(says) {
        return Class::Transient;
    }
    let missing = MISSING.iter().any(|phrase| {
        let mut places = (0..words.len()).filter(|&at| starts_with(&words[at..], phrase));
        places.any(|at| !is_about_the_attempt(&words[..at]))
    });
    if missing || PERMANENT.iter().any(says) { Class::Permanent } else { Class::Transient }
}

/// How long to wait before the next try after `retry_count` retries: doubling from a second to a minute, give or take
/// a quarter so that what failed together does not come back together. `jitter` is from 0 to 1, and the caller's
/// because nothing here is random.
pub fn backoff_secs(retry_count: u32, jitter: f64) -> f64 {
    let doublings = i32::try_from(retry_count).unwrap_or(i32::MAX);
    (2f64.powi(doublings) * (0.75 + jitter.clamp(0.0, 1.0) / 2.0)).min(MAX_BACKOFF_SECS)
}

/// Longest wait between two tries.
pub const MAX_BACKOFF_SECS: f64 = 60.0;

/// Somebody wants us to come back later.
const LIMITS: [&[&str]; 17] = [
    &["rate", "limit"],
    &["rate", "limits"],
    &["rate", "limited"],
    &["rate", "limiting"],
    &["ratelimit"],
    &["ratelimited"],
    &["usage", "limit"],
    &["too", "many", "requests"],
    // Not the number alone: it may be a line's.
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

/// Nothing that a new sandbox would change.
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

/// Permanent, unless it is about something that the next attempt does not share with this one.
const MISSING: [&[&str]; 3] = [&["not", "found"], &["does", "not", "exist"], &["already", "exists"]];

/// What each attempt has of its own, or what a network loses and finds again. A sandbox that the provider no longer has
/// is the very reason to make another.
const OF_THE_ATTEMPT: [&str; 7] = ["sandbox", "container", "workspace", "session", "host", "hostname", "dns"];

/// How many words before `not found` may name what was not: `sandbox <an id of several words> was not found`.
const NAMED_WITHIN_WORDS: usize = 10;

fn is_about_the_attempt(before: &[String]) -> bool {
    let near = &before[before.len().saturating_sub(NAMED_WITHIN_WORDS)..];
    near.iter().any(|word| OF_THE_ATTEMPT.contains(&word.as_str()))
}

/// The words of a text in lower case. A word ends at whatever is no letter or digit, and where `camelCase` has a hump.
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
    words.len() >= phrase.len() && words.iter().zip(phrase).all(|(word, wanted)| word == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_fail_again_is_permanent() {
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
    fn what_may_go_away_is_transient() {
        for error in [
            "",
            "something odd",
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
    fn the_wait_doubles_up_to_a_minute() {
        for (retry_count, jitter, expected) in [
            (0, 0.0, 0.75),
            (0, 0.5, 1.0),
            (0, 1.0, 1.25),
            (1, 0.5, 2.0),
            (5, 0.5, 32.0),
            (5, 1.0, 40.0),
            (6, 0.0, 48.0),
            (6, 0.5, 60.0),
            (7, 0.0, 60.0),
            (u32::MAX, 0.0, 60.0),
        ] {
            assert_eq!(backoff_secs(retry_count, jitter), expected, "{retry_count} {jitter}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_class_and_a_limit_in_it_makes_it_transient(before in ".{0,80}", after in ".{0,80}") {
            let _ = classify(&before);
            prop_assert_eq!(classify(&format!("{before} rate limit exceeded {after}")), Class::Transient);
            prop_assert_eq!(classify(&format!("{before} permission denied rate_limit {after}")), Class::Transient);
        }

        #[test]
        fn the_wait_is_between_its_bounds_and_never_shrinks(retry_count in 0u32..100, jitter in 0.0..=1.0f64) {
            let wait = backoff_secs(retry_count, jitter);
            prop_assert!((0.75..=60.0).contains(&wait));
            prop_assert!(backoff_secs(retry_count + 1, jitter) >= wait);
        }
    }
}
