//! Requests of a worker to its plane, one attempt each.

use crate::call::{Attempt, Caller};
use crate::event_sender::EventIn;
use crate::inbox::Pull;
use contract::ingest::{BatchReceived, EventReceived};
use contract::messages::{Acknowledged, Pulled};
use contract::sandboxes::GitAccess;
use contract::sandboxes::SandboxOut;
use contract::sessions::EntriesStored;
use contract::workspaces::{PieceStored, TaskWorkspace};
use domain::SandboxId;
use domain::url::percent_encoded;
use reqwest::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The plane's API for one sandbox. Every call is a single attempt; the caller decides when to retry. Clones share
/// connections.
#[derive(Debug, Clone)]
pub struct SandboxApi {
    caller: Caller,
    sandbox_url: String,
    deadline: Duration,
}

impl SandboxApi {
    /// The API of one sandbox at a plane (`http://127.0.0.1:18000`). Requests time out after `deadline`.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let sandbox_url = format!("{}/api/v1/sandboxes/{sandbox}", plane.trim_end_matches('/'));
        Self { caller: Caller::new(token), sandbox_url, deadline }
    }

    pub async fn sandbox(&self) -> Attempt<SandboxOut> {
        self.caller.request(self.deadline, |http| http.get(&self.sandbox_url)).await
    }

    /// Sends a batch of events: `{"epoch":…,"batch":…,"events":[…]}`. The body is text because a retry must be identical.
    pub async fn batch(&self, body: &str) -> Attempt<BatchReceived> {
        self.post("events", body).await
    }

    /// Sends one event without a batch number. A retry may store it twice.
    pub async fn event(&self, event: &EventIn, deadline: Duration) -> Attempt<EventReceived> {
        let url = format!("{}/events", self.sandbox_url);
        self.caller.request(deadline, |http| http.post(&url).json(event)).await
    }

    /// Sends receipts: `{"receipts":[…]}`.
    pub async fn receipts(&self, body: &str) -> Attempt<Acknowledged> {
        self.post("messages/ack", body).await
    }

    /// Appends entries to a session's transcript: `{"first":…,"entries":[…]}`.
    pub async fn entries(&self, session: &str, body: &str) -> Attempt<EntriesStored> {
        // Agents choose session ids freely.
        self.post(&format!("sessions/{}/entries", percent_encoded(session)), body).await
    }

    /// Access to the repository of the sandbox. Each call may create a new token.
    pub async fn git_access(&self) -> Attempt<GitAccess> {
        self.post("git-access", "{}").await
    }

    /// Stores a piece of a file of the workspace: `{"sha256":…,"piece":…,"data":…}`.
    pub async fn keep_piece(&self, body: &str) -> Attempt<PieceStored> {
        self.post("workspace/pieces", body).await
    }

    /// Keeps the files whose pieces are stored: `{"files":[…],"left_out":[…]}`.
    pub async fn keep_work(&self, body: &str) -> Attempt<TaskWorkspace> {
        self.post("workspace", body).await
    }

    /// Pulls the next messages. The caller acknowledges them with receipts.
    pub async fn pull(&self, pull: Pull) -> Attempt<Pulled> {
        let url = format!("{}/messages?{}", self.sandbox_url, pull.query());
        let deadline = self.deadline + Duration::from_secs(pull.wait_secs);
        self.caller.request(deadline, |http| http.get(&url)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &str) -> Attempt<T> {
        let url = format!("{}/{path}", self.sandbox_url);
        let json = |http: &reqwest::Client| {
            http.post(&url).header(CONTENT_TYPE, "application/json").body(body.to_owned())
        };
        self.caller.request(self.deadline, json).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_access_without_credential_is_read_and_tokens_are_not_shown() {
        let read = |text: &str| serde_json::from_str::<GitAccess>(text).unwrap();
        let plain = read(r#"{"url": "/srv/shop.git", "username": null, "token": null, "expires_at": null}"#);
        assert_eq!((plain.url.as_str(), plain.token), ("/srv/shop.git", None));
        let text = r#"{"url": "https://git.example/a", "username": "x", "token": "planted-token",
                       "expires_at": "2026-11-19T12:00:00.000000Z"}"#;
        let access = read(text);
        assert!(access.expires_at.is_some());
        assert!(!format!("{access:?}").contains("planted-token"));
    }

    #[test]
    fn debug_output_omits_the_token() {
        let sandbox = SandboxId::parse("s-1").unwrap();
        let api = SandboxApi::new("http://plane", &sandbox, Some("planted-token".into()), Duration::ZERO);
        assert!(!format!("{api:?}").contains("planted-token"));
    }
}
