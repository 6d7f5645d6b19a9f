//! Webhooks as GitHub sends them: <https://docs.github.com/en/webhooks/webhook-events-and-payloads>.

use aws_lc_rs::hmac;
use serde_json::{Value, json};
use std::fmt::Write;

/// A request of GitHub to the receiver of webhooks.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// `X-GitHub-Event`.
    pub event: String,
    /// `X-GitHub-Delivery`.
    pub delivery: String,
    /// `X-Hub-Signature-256`.
    pub signature: String,
    pub body: String,
}

impl Webhook {
    /// Signs a payload.
    pub fn new(event: &str, delivery: &str, payload: &Value, secret: &str) -> Self {
        let body = payload.to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = hmac::sign(&key, body.as_bytes());
        let mut signature = "sha256=".to_owned();
        for byte in tag.as_ref() {
            let _ = write!(signature, "{byte:02x}");
        }
        Self { event: event.to_owned(), delivery: delivery.to_owned(), signature, body }
    }

    /// The headers, as pairs.
    pub fn headers(&self) -> [(&'static str, &str); 4] {
        [
            ("x-github-event", &self.event),
            ("x-github-delivery", &self.delivery),
            ("x-hub-signature-256", &self.signature),
            ("content-type", "application/json"),
        ]
    }
}

/// The payload of `pull_request_review`. `url` is that of the repository, for git.
pub fn review_submitted(url: &str, number: u64) -> Value {
    json!({
        "action": "submitted",
        "review": {"id": 1, "state": "changes_requested", "body": "not what the API returns"},
        "pull_request": {"number": number, "state": "open"},
        "repository": repository(url),
    })
}

/// The payload of `issue_comment`, for a comment on a pull request.
pub fn comment_created(url: &str, number: u64) -> Value {
    json!({
        "action": "created",
        "issue": {"number": number, "pull_request": {"url": format!("{url}/pulls/{number}")}},
        "comment": {"id": 1, "body": "not what the API returns"},
        "repository": repository(url),
    })
}

/// The payload of `check_run`.
pub fn check_completed(url: &str, number: u64) -> Value {
    json!({
        "action": "completed",
        "check_run": {"id": 1, "conclusion": "failure", "pull_requests": [{"number": number}]},
        "repository": repository(url),
    })
}

fn repository(url: &str) -> Value {
    let page = url.trim_end_matches(".git");
    let name = page.rsplit('/').take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/");
    json!({"full_name": name, "html_url": page, "clone_url": url})
}
