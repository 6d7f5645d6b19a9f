//! Asking the plane once.

use crate::call::{Attempt, Caller};
use crate::inbox::Pull;
use crate::sender::EventIn;
use contract::ingest::{BatchReceived, EventReceived};
use contract::messages::{Acknowledged, Pulled};
use contract::sandboxes::SandboxOut;
use contract::sessions::EntriesStored;
use domain::SandboxId;
use reqwest::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::time::Duration;

/// What a worker asks its plane, each thing once: whoever asks decides when to ask again. Clones share connections.
#[derive(Debug, Clone)]
pub struct Once {
    caller: Caller,
    sandbox: String,
    deadline: Duration,
}

impl Once {
    /// Of a sandbox at a plane (`http://127.0.0.1:18000`). Whatever has no answer after `deadline` has failed.
    pub fn new(plane: &str, sandbox: &SandboxId, token: Option<String>, deadline: Duration) -> Self {
        let sandbox = format!("{}/api/v1/sandboxes/{sandbox}", plane.trim_end_matches('/'));
        Self { caller: Caller::new(token), sandbox, deadline }
    }

    /// The sandbox, as the plane knows it.
    pub async fn sandbox(&self) -> Attempt<SandboxOut> {
        self.caller.once(self.deadline, |http| http.get(&self.sandbox)).await
    }

    /// A batch of events: `{"epoch":…,"batch":…,"events":[…]}`. Text, because a repeat must say the same.
    pub async fn batch(&self, body: &str) -> Attempt<BatchReceived> {
        self.post("events", body).await
    }

    /// One event without a number, which may be stored twice if it is sent twice.
    pub async fn event(&self, event: &EventIn, deadline: Duration) -> Attempt<EventReceived> {
        let url = format!("{}/events", self.sandbox);
        self.caller.once(deadline, |http| http.post(&url).json(event)).await
    }

    /// Receipts: `{"receipts":[…]}`.
    pub async fn receipts(&self, body: &str) -> Attempt<Acknowledged> {
        self.post("messages/ack", body).await
    }

    /// Entries of a session's transcript: `{"first":…,"entries":[…]}`.
    pub async fn entries(&self, session: &str, body: &str) -> Attempt<EntriesStored> {
        self.post(&format!("sessions/{}/entries", in_path(session)), body).await
    }

    /// The next messages, to be confirmed with receipts.
    pub async fn pull(&self, pull: Pull) -> Attempt<Pulled> {
        let Pull { wait_secs, most, hidden_secs } = pull;
        let wishes = format!("ack=manual&wait={wait_secs}&max={most}&visibility={hidden_secs}");
        let url = format!("{}/messages?{wishes}", self.sandbox);
        let deadline = self.deadline + Duration::from_secs(wait_secs);
        self.caller.once(deadline, |http| http.get(&url)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &str) -> Attempt<T> {
        let url = format!("{}/{path}", self.sandbox);
        let json = |http: &reqwest::Client| {
            http.post(&url).header(CONTENT_TYPE, "application/json").body(body.to_owned())
        };
        self.caller.once(self.deadline, json).await
    }
}

/// An agent names its sessions as it likes; a path takes only so much.
fn in_path(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b".-_~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            write!(path, "%{byte:02X}").expect("a string takes everything");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_a_session_is_one_part_of_a_path() {
        assert_eq!(in_path("0d9c-1.a_b"), "0d9c-1.a_b");
        assert_eq!(in_path("a/b ?ü"), "a%2Fb%20%3F%C3%BC");
    }

    #[test]
    fn a_token_is_not_shown() {
        let sandbox = SandboxId::parse("s-1").unwrap();
        let once = Once::new("http://plane", &sandbox, Some("planted-token".into()), Duration::ZERO);
        assert!(!format!("{once:?}").contains("planted-token"));
    }
}
