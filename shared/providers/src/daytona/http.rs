//! HTTP requests to Daytona, and the classification of failures.

use super::Options;
use crate::{Failure, FailureClass};
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use std::time::Duration;

/// Maximum length of a Daytona error message that we pass on.
const MAX_MESSAGE_CHARS: usize = 300;

/// Timeout factor for uploading or downloading an executable.
const TRANSFER_FACTOR: u32 = 5;

/// Timeout for establishing a connection, independent of the request timeout.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));

/// Recipient of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Daytona's API.
    Api,
    /// The toolbox inside a sandbox.
    Toolbox,
}

#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    key: Key,
    organization: Option<String>,
    timeout: Duration,
}

struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A failed request, with the details that distinguish refusals.
#[derive(Debug)]
pub(super) struct RequestError {
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    pub failure: Failure,
    message: String,
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self { status: None, failure, message: String::new() }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        error.failure
    }
}

impl RequestError {
    /// Whether the snapshot does not exist or cannot be used, so that an image may work. Messages about other mistakes in a
    /// spec also mention snapshots, and an image would not help there.
    pub(super) fn is_snapshot_unavailable(&self, name: &str) -> bool {
        let (message, name) = (self.message.to_lowercase(), name.to_lowercase());
        let phrases = [format!("snapshot {name} not found"), format!("snapshot {name} is ")];
        self.failure.class == FailureClass::Refused && phrases.iter().any(|phrase| message.contains(phrase))
    }

    pub(super) fn is_state_change_in_progress(&self) -> bool {
        self.message.to_lowercase().contains("progress")
    }
}

impl Http {
    pub(super) fn new(options: &Options) -> Self {
        let (key, organization) = (Key(options.api_key.clone()), options.organization.clone());
        Self { client: client(), key, organization, timeout: options.timeout }
    }

    /// Sends a request and returns the JSON body; null if the body is empty.
    pub(super) async fn json(
        &self,
        target: Target,
        method: Method,
        url: &str,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<Value, RequestError> {
        let mut request = self.request(method, url).timeout(self.timeout);
        if let Some(body) = body {
            request = request.json(body);
        }
        let bytes = self.send(target, request, doing).await?;
        // A truncated body counts as no response. An empty body is valid.
        let parsed = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        parsed.map_err(|_| Failure::unreachable(format!("Daytona's response to {doing} is not JSON")).into())
    }

    /// Uploads a file into a sandbox.
    pub(super) async fn upload(&self, url: &str, content: Bytes, doing: &str) -> Result<(), RequestError> {
        let request = self.request(Method::POST, url).timeout(self.timeout * TRANSFER_FACTOR);
        let request = request.header("content-type", "application/octet-stream").body(content);
        self.send(Target::Toolbox, request, doing).await.map(drop)
    }

    /// Downloads an executable, without sending the API key. Lambda functions have little memory and run several downloads at
    /// once, so the body is not copied.
    pub(super) async fn fetch(&self, url: &str) -> Result<Bytes, Failure> {
        let request = self.client.get(url).timeout(self.timeout * TRANSFER_FACTOR);
        let response = request.send().await.and_then(Response::error_for_status);
        let bytes = match response {
            Ok(response) => response.bytes().await,
            Err(error) => Err(error),
        };
        // The URL may contain a signature.
        bytes.map_err(|error| {
            Failure::unreachable(format!(
                "the worker executable could not be downloaded: {}",
                error.without_url()
            ))
        })
    }

    fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let request = self.client.request(method, url).bearer_auth(&self.key.0);
        match &self.organization {
            Some(organization) => request.header("X-Daytona-Organization-ID", organization),
            None => request,
        }
    }

    async fn send(
        &self,
        target: Target,
        request: RequestBuilder,
        doing: &str,
    ) -> Result<Bytes, RequestError> {
        let unreachable = |error: reqwest::Error| {
            let why = if error.is_timeout() { "timed out" } else { "is unreachable" };
            RequestError::from(Failure::unreachable(format!(
                "Daytona {why}, {doing}: {}",
                error.without_url()
            )))
        };
        let response = request.send().await.map_err(unreachable)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.map_err(unreachable)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let message = self.error_message(&body);
        let class = class(target, status, &message, &headers);
        let text = format!("Daytona answered {status}, {doing}: {message}{}", hint(status, class));
        Err(RequestError { status: Some(status), failure: Failure { class, message: text }, message })
    }

    /// The error message of a response, truncated, and with our API key redacted.
    fn error_message(&self, body: &[u8]) -> String {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = match &json["message"] {
            Value::String(text) => text.clone(),
            Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
            _ => String::from_utf8_lossy(body).into_owned(),
        };
        let message = if self.key.0.is_empty() { message } else { message.replace(&self.key.0, "…") };
        message.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

/// As in the `client` crate: without certificate authorities it starts anyway, and HTTPS requests fail.
fn client() -> Client {
    let builder = || Client::builder().user_agent(USER_AGENT).connect_timeout(CONNECT_DEADLINE);
    builder().build().unwrap_or_else(|_| {
        tracing::error!(
            "No certificate authorities found, so Daytona cannot be reached over HTTPS. Install ca-certificates or set SSL_CERT_FILE"
        );
        builder().tls_certs_only([]).build().expect("an empty trust store needs no certificates of the machine")
    })
}

/// Classifies an error response.
///
/// An exhausted quota becomes free again, whatever its status. An expired key or an unpaid account is not the task's fault:
/// the operator fixes it and the task continues. A failure inside one sandbox may not happen in another.
fn class(target: Target, status: u16, message: &str, headers: &HeaderMap) -> FailureClass {
    let message = message.to_lowercase();
    let quota_exhausted = status < 500
        && ["quota", "limit exceeded", "limit reached"].iter().any(|phrase| message.contains(phrase));
    match status {
        429 => FailureClass::Busy { retry_after_secs: retry_after(headers) },
        400 | 402 | 403 | 409 if quota_exhausted => FailureClass::Busy { retry_after_secs: None },
        400 | 413 | 422 if target == Target::Api => FailureClass::Refused,
        _ => FailureClass::Unreachable,
    }
}

/// A hint for the operator.
fn hint(status: u16, class: FailureClass) -> &'static str {
    match status {
        401 => ". Check the Daytona API key: it may have expired",
        402 | 403 if class == FailureClass::Unreachable => {
            ". Check the Daytona account: its billing, and the permissions of the API key"
        }
        _ => "",
    }
}

/// `Retry-After` or `Retry-After-<throttler>`; the longest if there are several.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let relevant = headers.iter().filter(|(name, _)| {
        let name = name.as_str();
        name == "retry-after" || name.starts_with("retry-after-")
    });
    let seconds = |value: &HeaderValue| value.to_str().ok()?.trim().parse().ok();
    relevant.filter_map(|(_, value)| seconds(value)).max()
}

pub(super) fn with_query(url: &str, query: &[(&str, String)]) -> Result<String, Failure> {
    let url = Url::parse_with_params(url, query);
    url.map(String::from).map_err(|error| Failure::refused(format!("the Daytona URL is invalid: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: FailureClass = FailureClass::Busy { retry_after_secs: Some(9) };
    const QUOTA_EXHAUSTED: FailureClass = FailureClass::Busy { retry_after_secs: None };
    use FailureClass::{Refused, Unreachable};

    #[test]
    fn only_invalid_specs_are_refused_for_good() {
        let headers = HeaderMap::from_iter([("retry-after".parse().unwrap(), HeaderValue::from_static("9"))]);
        for (status, message, api, toolbox) in [
            (400, "name is too long", Refused, Unreachable),
            (400, "Total CPU limit exceeded", QUOTA_EXHAUSTED, QUOTA_EXHAUSTED),
            (401, "Invalid credentials", Unreachable, Unreachable),
            (402, "Payment required", Unreachable, Unreachable),
            (402, "Quota of the month", QUOTA_EXHAUSTED, QUOTA_EXHAUSTED),
            (403, "Organization is suspended: Depleted credits", Unreachable, Unreachable),
            (403, "Disk quota", QUOTA_EXHAUSTED, QUOTA_EXHAUSTED),
            (404, "Cannot POST /sandbox", Unreachable, Unreachable),
            (408, "too slow", Unreachable, Unreachable),
            (409, "state change in progress", Unreachable, Unreachable),
            (410, "shell has exited", Unreachable, Unreachable),
            (413, "labels are too long", Refused, Unreachable),
            (422, "cpu must be a number", Refused, Unreachable),
            (425, "too early", Unreachable, Unreachable),
            (429, "slow down", WAIT, WAIT),
            (500, "quota service is down", Unreachable, Unreachable),
            (502, "bad gateway", Unreachable, Unreachable),
            (504, "no answer", Unreachable, Unreachable),
        ] {
            for (target, expected) in [(Target::Api, api), (Target::Toolbox, toolbox)] {
                let found = class(target, status, message, &headers);
                assert_eq!(found, expected, "{status} {message:?} of {target:?}");
            }
        }
    }

    #[test]
    fn authentication_and_billing_errors_carry_a_hint() {
        assert!(hint(401, Unreachable).contains("key"));
        assert!(hint(402, Unreachable).contains("billing") && hint(403, Unreachable).contains("billing"));
        for (status, class) in [(403, QUOTA_EXHAUSTED), (400, Refused), (500, Unreachable)] {
            assert_eq!(hint(status, class), "", "{status}");
        }
    }

    #[test]
    fn only_an_unavailable_snapshot_falls_back_to_the_image() {
        for (message, expected) in [
            ("Snapshot light not found. Did you add it through the Daytona Dashboard?", true),
            ("Snapshot light is building", true),
            ("Snapshot light is not available in region eu", true),
            ("Snapshot lighter not found", false),
            ("Cannot specify Sandbox resources when using a snapshot", false),
            ("Cannot specify a snapshot when using a build info entry", false),
            ("name is too long", false),
        ] {
            let failure = Failure::refused("refused");
            let error = RequestError { status: Some(400), failure, message: message.to_owned() };
            assert_eq!(error.is_snapshot_unavailable("light"), expected, "{message}");
        }
    }
}
