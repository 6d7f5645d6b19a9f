//! Asking a plane what a person asks at a terminal.

use crate::call::{Attempt, Caller, Refused};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// A plane, and somebody who asks it. Answers are as they came: what is shown to a person is picked from them.
#[derive(Debug, Clone)]
pub struct Plane {
    caller: Caller,
    url: String,
    deadline: Duration,
}

impl Plane {
    /// A plane (`http://127.0.0.1:18000`). Whatever has no answer after `deadline` has failed.
    pub fn new(url: &str, token: Option<String>, deadline: Duration) -> Self {
        Self { caller: Caller::new(token), url: url.trim_end_matches('/').to_owned(), deadline }
    }

    /// Reads something, once.
    pub async fn get(&self, path: &str) -> Attempt<Value> {
        self.caller.once(self.deadline, |http| http.get(format!("{}{path}", self.url))).await
    }

    /// Reads something, again and again until the plane answers.
    pub async fn get_in_time(&self, path: &str) -> Result<Value, Refused> {
        self.caller.ask(self.deadline, |http| http.get(format!("{}{path}", self.url))).await
    }

    /// Asks for something, once: a repeat may ask for it twice.
    pub async fn post<T: Serialize + ?Sized>(&self, path: &str, body: &T) -> Attempt<Value> {
        self.caller.once(self.deadline, |http| http.post(format!("{}{path}", self.url)).json(body)).await
    }
}
