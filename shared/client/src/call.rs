//! Requests to the plane, with and without retries.

use crate::{backoff, http};
use contract::problem::Problem;
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// A request that the plane refuses for good.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A retry would be refused again.
    #[error("the plane refused the request: {} {}", .0.status, .0.detail)]
    ByPlane(Box<Problem>),
}

/// Outcome of a single attempt.
#[derive(Debug)]
pub enum Attempt<T> {
    Answered(T),
    /// A retry would be refused again.
    Refused(Box<Problem>),
    /// The request may or may not have been applied. Retry it.
    Failed(Failed),
}

/// Why an attempt got no usable response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// `timeout`, `unreachable`, `rate_limited`, `unavailable`, [`CODE_HOST_UNAVAILABLE`], `server_error` or
    /// `invalid_response`.
    pub kind: &'static str,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The `Retry-After` of the response, at most `MAX_RETRY_AFTER`.
    pub retry_after: Option<Duration>,
}

/// [`Failed::kind`] if the plane responds, but not the code host that it asked.
pub const CODE_HOST_UNAVAILABLE: &str = "code_host_unavailable";

/// Upper bound for `Retry-After`, so that a bogus response cannot silence a worker for a day.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// An HTTP client with a bearer token.
#[derive(Clone)]
pub(crate) struct Caller {
    http: Client,
    token: Option<String>,
}

impl fmt::Debug for Caller {
    /// Omits the token: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("has_token", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl Caller {
    pub(crate) fn new(token: Option<String>) -> Self {
        Self { http: http::client(Client::builder), token }
    }

    /// Retries until the plane answers; each attempt times out after `deadline`. Only for idempotent requests.
    pub(crate) async fn request_with_retries<T: DeserializeOwned>(
        &self,
        deadline: Duration,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<T, Refused> {
        let mut attempt = 0;
        loop {
            match self.request(deadline, &request).await {
                Attempt::Answered(response) => return Ok(response),
                Attempt::Refused(problem) => return Err(Refused::ByPlane(problem)),
                Attempt::Failed(failed) => {
                    tokio::time::sleep(failed.retry_after.unwrap_or_else(|| backoff::wait(attempt))).await;
                    attempt += 1;
                }
            }
        }
    }

    /// Makes a single attempt, which times out after `deadline`.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        deadline: Duration,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Attempt<T> {
        self.request_with(deadline, request, |body| serde_json::from_slice(body).ok()).await
    }

    /// As [`Caller::request`], for a response that is not JSON.
    pub(crate) async fn request_bytes(
        &self,
        deadline: Duration,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Attempt<Vec<u8>> {
        self.request_with(deadline, request, |body| Some(body.to_vec())).await
    }

    async fn request_with<T>(
        &self,
        deadline: Duration,
        request: impl Fn(&Client) -> RequestBuilder,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Attempt<T> {
        let mut request = request(&self.http).timeout(deadline);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return failed(transport_failure(&error), None, None),
        };
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get("retry-after").and_then(|secs| secs.to_str().ok()?.parse().ok());
        let retry_after = retry_after.map(|secs| Duration::from_secs(secs).min(MAX_RETRY_AFTER));
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return failed(transport_failure(&error), None, None),
        };
        match status {
            200 | 201 => match read(&body) {
                Some(response) => Attempt::Answered(response),
                // Not the plane's response: a proxy on the way produced it.
                None => failed("invalid_response", Some(status), None),
            },
            429 => failed("rate_limited", Some(status), retry_after),
            503 => failed(unavailable(&body), Some(status), retry_after),
            408 | 500..=599 => failed("server_error", Some(status), None),
            _ => match serde_json::from_slice(&body) {
                Ok(problem) => Attempt::Refused(problem),
                Err(_) => failed("invalid_response", Some(status), None),
            },
        }
    }
}

/// What is unavailable, by the problem of the plane. A proxy on the way sends none.
fn unavailable(body: &[u8]) -> &'static str {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) if problem.code == CODE_HOST_UNAVAILABLE => CODE_HOST_UNAVAILABLE,
        _ => "unavailable",
    }
}

fn transport_failure(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() { "timeout" } else { "unreachable" }
}

fn failed<T>(kind: &'static str, status: Option<u16>, retry_after: Option<Duration>) -> Attempt<T> {
    Attempt::Failed(Failed { kind, status, retry_after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_code_host_is_not_an_unavailable_plane() {
        let problem = |code: &str| {
            format!(
                r#"{{"type":"x","title":"x","status":503,"code":"{code}","detail":"x","request_id":"r"}}"#
            )
        };
        assert_eq!(unavailable(problem(CODE_HOST_UNAVAILABLE).as_bytes()), CODE_HOST_UNAVAILABLE);
        assert_eq!(unavailable(problem("unavailable").as_bytes()), "unavailable");
        assert_eq!(unavailable(b"<html>"), "unavailable");
        assert_eq!(contract::ProblemCode::CodeHostUnavailable.as_str(), CODE_HOST_UNAVAILABLE);
    }
}
