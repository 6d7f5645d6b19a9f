//! Asking the plane until it answers.

use crate::{backoff, http};
use contract::problem::Problem;
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// Why something will never be done as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The plane refuses it, and would again.
    #[error("the plane refused it: {} {}", .0.status, .0.detail)]
    ByPlane(Box<Problem>),
}

/// What came of asking once.
#[derive(Debug)]
pub enum Attempt<T> {
    /// The plane answered.
    Answered(T),
    /// The plane refuses it, and would again.
    Refused(Box<Problem>),
    /// Nothing may be concluded: the same may be asked again.
    Failed(Failed),
}

/// Why there is no answer of the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// In a word: `timeout`, `unreachable`, `rate_limited`, `unavailable`, `server_error` or `strange_answer`.
    pub kind: &'static str,
    /// The status, if something answered.
    pub status: Option<u16>,
    /// For how long the plane asks to be left alone, if it does; a minute at most.
    pub retry_after: Option<Duration>,
}

/// Whoever is asked to wait longer asks again all the same: a wrong answer must not silence a worker for a day.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whoever asks.
#[derive(Clone)]
pub(crate) struct Caller {
    http: Client,
    token: Option<String>,
}

impl fmt::Debug for Caller {
    /// Without the token: what is shown ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("has_token", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { http: http::client(Client::builder), token }
    }

    /// Asks again and again until the plane has answered, each time for as long as `deadline`. Only for requests of
    /// which a repeat does no harm.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        deadline: Duration,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<T, Refused> {
        let mut attempt = 0;
        loop {
            match self.once(deadline, &request).await {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Refused(problem) => return Err(Refused::ByPlane(problem)),
                Attempt::Failed(failed) => {
                    tokio::time::sleep(failed.retry_after.unwrap_or_else(|| backoff::wait(attempt))).await;
                    attempt += 1;
                }
            }
        }
    }

    /// Asks once, for as long as `deadline`.
    pub(crate) async fn once<T: DeserializeOwned>(
        &self,
        deadline: Duration,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Attempt<T> {
        let mut request = request(&self.http).timeout(deadline);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return failed(broken(&error), None, None),
        };
        let status = response.status().as_u16();
        let wait = response.headers().get("retry-after").and_then(|secs| secs.to_str().ok()?.parse().ok());
        let wait = wait.map(|secs| Duration::from_secs(secs).min(LONGEST_WAIT));
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return failed(broken(&error), None, None),
        };
        match status {
            200 | 201 => match serde_json::from_slice(&body) {
                Ok(answer) => Attempt::Answered(answer),
                // Not the plane's answer: something on the way made it up.
                Err(_) => failed("strange_answer", Some(status), None),
            },
            429 => failed("rate_limited", Some(status), wait),
            503 => failed("unavailable", Some(status), wait),
            408 | 500..=599 => failed("server_error", Some(status), None),
            _ => match serde_json::from_slice(&body) {
                Ok(problem) => Attempt::Refused(problem),
                Err(_) => failed("strange_answer", Some(status), None),
            },
        }
    }
}

fn broken(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() { "timeout" } else { "unreachable" }
}

fn failed<T>(kind: &'static str, status: Option<u16>, retry_after: Option<Duration>) -> Attempt<T> {
    Attempt::Failed(Failed { kind, status, retry_after })
}
