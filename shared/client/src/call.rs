//! Asking the plane until it answers.

use crate::backoff;
use contract::problem::Problem;
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Why something will never be done as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The plane refuses it, and would again.
    #[error("the plane refused it: {} {}", .0.status, .0.detail)]
    ByPlane(Box<Problem>),
}

/// Whoever asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    http: Client,
    token: Option<String>,
}

impl Caller {
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { http: Client::new(), token }
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
            match self.attempt(request(&self.http).timeout(deadline)).await {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Refused(problem) => return Err(Refused::ByPlane(problem)),
                Attempt::Again(wait) => {
                    tokio::time::sleep(wait.unwrap_or_else(|| backoff::wait(attempt))).await;
                    attempt += 1;
                }
            }
        }
    }

    async fn attempt<T: DeserializeOwned>(&self, mut request: RequestBuilder) -> Attempt<T> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let Ok(response) = request.send().await else { return Attempt::Again(None) };
        let status = response.status().as_u16();
        let wait = response.headers().get("retry-after").and_then(|secs| secs.to_str().ok()?.parse().ok());
        let Ok(body) = response.bytes().await else { return Attempt::Again(None) };
        match status {
            200 => match serde_json::from_slice(&body) {
                Ok(answer) => Attempt::Answered(answer),
                // Not the plane's answer: something on the way made it up.
                Err(_) => Attempt::Again(None),
            },
            429 | 503 => Attempt::Again(wait.map(Duration::from_secs)),
            408 | 500..=599 => Attempt::Again(None),
            _ => match serde_json::from_slice(&body) {
                Ok(problem) => Attempt::Refused(problem),
                Err(_) => Attempt::Again(None),
            },
        }
    }
}

enum Attempt<T> {
    Answered(T),
    Refused(Box<Problem>),
    /// After so long, if the plane said how long.
    Again(Option<Duration>),
}
