//! Requests of command-line tools.

use crate::call::{Attempt, Caller, Refused};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// A plane and a token for it. Responses are returned as plain JSON; the commands pick what they print.
#[derive(Debug, Clone)]
pub struct Plane {
    caller: Caller,
    url: String,
    deadline: Duration,
}

impl Plane {
    /// A plane (`http://127.0.0.1:18000`). Requests time out after `deadline`.
    pub fn new(url: &str, token: Option<String>, deadline: Duration) -> Self {
        Self { caller: Caller::new(token), url: url.trim_end_matches('/').to_owned(), deadline }
    }

    /// A single attempt.
    pub async fn get(&self, path: &str) -> Attempt<Value> {
        self.caller.request(self.deadline, |http| http.get(format!("{}{path}", self.url))).await
    }

    /// A single attempt, for a response that is not JSON.
    pub async fn get_bytes(&self, path: &str) -> Attempt<Vec<u8>> {
        self.caller.request_bytes(self.deadline, |http| http.get(format!("{}{path}", self.url))).await
    }

    /// Retries until the plane answers.
    pub async fn get_with_retries(&self, path: &str) -> Result<Value, Refused> {
        self.caller.request_with_retries(self.deadline, |http| http.get(format!("{}{path}", self.url))).await
    }

    /// A single attempt, because a retry may apply it twice.
    pub async fn post<T: Serialize + ?Sized>(&self, path: &str, body: &T) -> Attempt<Value> {
        self.caller.request(self.deadline, |http| http.post(format!("{}{path}", self.url)).json(body)).await
    }
}
