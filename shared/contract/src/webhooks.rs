//! Webhooks of GitHub: <https://docs.github.com/en/webhooks/webhook-events-and-payloads>.
//!
//! A webhook is a hint that a pull request has changed. Nothing else is read from it: what was said comes from the API.

use crate::bad_input::BadInput;
use crate::repository;
use serde::Deserialize;

/// Maximum size. GitHub sends at most 25 MB; the events that count here have some ten kilobytes.
pub const MAX_WEBHOOK_BYTES: usize = 1024 * 1024;

/// Maximum number of pull requests of one webhook.
const MAX_PULL_REQUESTS: usize = 20;

/// Maximum length of the id of a delivery. GitHub's are UUIDs.
pub const MAX_DELIVERY_CHARS: usize = 100;

/// Events that say something about a pull request. GitHub sends further ones if the webhook is configured for them.
const EVENTS: [&str; 8] = [
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "issue_comment",
    "check_run",
    "check_suite",
    "workflow_run",
];

/// Pull requests of a repository that have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// As [`repository::key`] returns it.
    pub repository: String,
    /// Empty if the webhook is about something else.
    pub numbers: Vec<u64>,
}

#[derive(Deserialize)]
struct Payload {
    repository: Option<Repository>,
    pull_request: Option<Numbered>,
    issue: Option<Issue>,
    check_run: Option<Checked>,
    check_suite: Option<Checked>,
    workflow_run: Option<Checked>,
}

#[derive(Deserialize)]
struct Repository {
    clone_url: String,
}

#[derive(Deserialize)]
struct Numbered {
    number: u64,
}

#[derive(Deserialize)]
struct Issue {
    number: u64,
    /// Present if the issue is a pull request.
    pull_request: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Checked {
    #[serde(default)]
    pull_requests: Vec<Numbered>,
}

/// Reads the body of a webhook. An unknown event, or one in another form, changes nothing.
///
/// # Errors
/// If the body is not JSON: the webhook is configured for another content type.
pub fn decode(event: &str, body: &[u8]) -> Result<Changed, BadInput> {
    let value: serde_json::Value = serde_json::from_slice(body).map_err(|_| {
        BadInput::Malformed(
            "The body must be JSON. Set the content type of the webhook to application/json.".into(),
        )
    })?;
    if !EVENTS.contains(&event) {
        return Ok(Changed::default());
    }
    let Ok(payload) = serde_json::from_value::<Payload>(value) else { return Ok(Changed::default()) };
    let Some(repository) = payload.repository.and_then(|found| repository::key(&found.clone_url)) else {
        return Ok(Changed::default());
    };
    let of_issue = payload.issue.filter(|issue| issue.pull_request.is_some()).map(|issue| issue.number);
    let of_checks = [payload.check_run, payload.check_suite, payload.workflow_run].into_iter().flatten();
    let of_checks = of_checks.flat_map(|checked| checked.pull_requests).map(|found| found.number);
    let of_pull_request = payload.pull_request.map(|found| found.number);
    let mut numbers: Vec<u64> = of_pull_request.into_iter().chain(of_issue).chain(of_checks).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.truncate(MAX_PULL_REQUESTS);
    Ok(Changed { repository, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn numbers(event: &str, mut payload: serde_json::Value) -> Vec<u64> {
        payload["repository"] = json!({"clone_url": "https://GitHub.com/Acme/shop.git"});
        let changed = decode(event, payload.to_string().as_bytes()).unwrap();
        assert!(changed.numbers.is_empty() || changed.repository == "github.com/acme/shop", "{changed:?}");
        changed.numbers
    }

    #[test]
    fn pull_requests_of_all_events_are_found() {
        let of_checks =
            |name: &str| json!({name: {"pull_requests": [{"number": 9}, {"number": 3}, {"number": 9}]}});
        for (event, payload, expected) in [
            ("pull_request", json!({"pull_request": {"number": 7}}), &[7][..]),
            ("pull_request_review", json!({"pull_request": {"number": 7}}), &[7]),
            ("issue_comment", json!({"issue": {"number": 7, "pull_request": {}}}), &[7]),
            ("issue_comment", json!({"issue": {"number": 7}}), &[]),
            ("check_run", of_checks("check_run"), &[3, 9]),
            ("check_suite", of_checks("check_suite"), &[3, 9]),
            ("workflow_run", of_checks("workflow_run"), &[3, 9]),
            ("push", json!({"pull_request": {"number": 7}}), &[]),
            ("ping", json!({"zen": "x"}), &[]),
            ("pull_request", json!({"pull_request": {"number": "7"}}), &[]),
        ] {
            assert_eq!(numbers(event, payload), expected, "{event}");
        }
        let everything: Vec<_> = (0..900).map(|number| json!({"number": number})).collect();
        assert_eq!(
            numbers("check_run", json!({"check_run": {"pull_requests": everything}})).len(),
            MAX_PULL_REQUESTS
        );
    }

    #[test]
    fn form_is_refused_and_other_json_is_ignored() {
        assert!(matches!(decode("ping", b"payload=%7B%7D"), Err(BadInput::Malformed(_))));
        for body in
            [&b"[]"[..], b"7", b"{}", br#"{"repository": {"clone_url": "x"}, "pull_request": {"number": 1}}"#]
        {
            assert_eq!(decode("pull_request", body).unwrap(), Changed::default());
        }
    }
}
