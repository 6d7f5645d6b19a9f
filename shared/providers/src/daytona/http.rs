//! Requests to Daytona, and what their answers mean.

use super::Options;
use crate::{Failure, FailureClass};
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use std::time::Duration;

/// Longest text of theirs that is passed on in a sentence of ours.
const MOST_CHARS: usize = 300;

/// Sending or fetching a program may take so many times as long as another request.
const PROGRAM: u32 = 5;

/// Connecting takes no longer than this, whatever the whole request may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));

/// Whom a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// Daytona itself.
    Api,
    /// What runs inside one sandbox.
    Toolbox,
}

/// Somebody who asks Daytona.
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

/// A request that came to nothing, with what tells one refusal from another.
#[derive(Debug)]
pub(super) struct Wrong {
    /// What they answered, if they did.
    pub status: Option<u16>,
    pub failure: Failure,
    said: String,
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self { status: None, failure, said: String::new() }
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        wrong.failure
    }
}

impl Wrong {
    /// The snapshot of this name is not there, or not to be used: an image may be. They also speak of snapshots where
    /// something else is wrong with a wish, and that would be no better with an image.
    pub(super) fn is_about_the_snapshot(&self, name: &str) -> bool {
        let (said, name) = (self.said.to_lowercase(), name.to_lowercase());
        let sentences = [format!("snapshot {name} not found"), format!("snapshot {name} is ")];
        self.failure.class == FailureClass::Refused && sentences.iter().any(|it| said.contains(it))
    }

    /// The sandbox is just changing its state.
    pub(super) fn is_about_a_change(&self) -> bool {
        self.said.to_lowercase().contains("progress")
    }
}

impl Http {
    pub(super) fn new(options: &Options) -> Self {
        let (key, organization) = (Key(options.api_key.clone()), options.organization.clone());
        Self { client: client(), key, organization, timeout: options.timeout }
    }

    /// Asks, and returns the JSON of the answer; null if there is none.
    pub(super) async fn json(
        &self,
        whom: Whom,
        method: Method,
        url: &str,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<Value, Wrong> {
        let mut request = self.request(method, url).timeout(self.timeout);
        if let Some(body) = body {
            request = request.json(body);
        }
        let bytes = self.send(whom, request, doing).await?;
        // A cut-off answer is one that was not given. An empty one says all that there is to say.
        let parsed = if bytes.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&bytes) };
        parsed.map_err(|_| Failure::unreachable(format!("Daytona's answer to {doing} is not JSON")).into())
    }

    /// Sends a file into a sandbox.
    pub(super) async fn upload(&self, url: &str, content: Bytes, doing: &str) -> Result<(), Wrong> {
        let request = self.request(Method::POST, url).timeout(self.timeout * PROGRAM);
        let request = request.header("content-type", "application/octet-stream").body(content);
        self.send(Whom::Toolbox, request, doing).await.map(drop)
    }

    /// Fetches a program from somewhere else. The key stays here. Some functions have little memory and do this several
    /// times at once, so what comes is sent on as it is, without a copy.
    pub(super) async fn fetch(&self, url: &str) -> Result<Bytes, Failure> {
        let request = self.client.get(url).timeout(self.timeout * PROGRAM);
        let answer = request.send().await.and_then(Response::error_for_status);
        let bytes = match answer {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        // The address may have a signature in it.
        bytes.map_err(|error| {
            Failure::unreachable(format!(
                "the worker's program could not be fetched: {}",
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

    async fn send(&self, whom: Whom, request: RequestBuilder, doing: &str) -> Result<Bytes, Wrong> {
        let unreachable = |error: reqwest::Error| {
            let why = if error.is_timeout() { "took too long" } else { "could not be reached" };
            Wrong::from(Failure::unreachable(format!("Daytona {why}, {doing}: {}", error.without_url())))
        };
        let answer = request.send().await.map_err(unreachable)?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await.map_err(unreachable)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let said = self.said(&body);
        let class = class(whom, status, &said, &headers);
        let mut message = format!("Daytona answered {status}, {doing}: {said}");
        message.push_str(hint(status, class));
        Err(Wrong { status: Some(status), failure: Failure { class, message }, said })
    }

    /// What they say is wrong, short, and without our key should they repeat it.
    fn said(&self, body: &[u8]) -> String {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let said = match &json["message"] {
            Value::String(text) => text.clone(),
            Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
            _ => String::from_utf8_lossy(body).into_owned(),
        };
        let said = if self.key.0.is_empty() { said } else { said.replace(&self.key.0, "…") };
        said.chars().take(MOST_CHARS).collect()
    }
}

/// As in `client`: a small image may have no list of authorities, and then trusts nobody, instead of not starting.
fn client() -> Client {
    let wishes = || Client::builder().user_agent(USER_AGENT).connect_timeout(CONNECT_DEADLINE);
    wishes().build().unwrap_or_else(|_| {
        tracing::error!(
            "This machine has no list of certificate authorities: Daytona cannot be reached over https"
        );
        wishes().tls_certs_only([]).build().expect("whoever trusts nobody needs nothing of the machine")
    })
}

/// What can be done about an answer.
///
/// What an organisation has used up will be free again, whatever they call it. A key that has expired and an account that
/// is not paid for are nothing that a task could be blamed for: somebody mends them, and it goes on. And what one sandbox
/// refuses another may do.
fn class(whom: Whom, status: u16, said: &str, headers: &HeaderMap) -> FailureClass {
    let said = said.to_lowercase();
    let used_up =
        status < 500 && ["quota", "limit exceeded", "limit reached"].iter().any(|it| said.contains(it));
    match status {
        429 => FailureClass::Busy { retry_after_secs: retry_after(headers) },
        400 | 402 | 403 | 409 if used_up => FailureClass::Busy { retry_after_secs: None },
        400 | 413 | 422 if whom == Whom::Api => FailureClass::Refused,
        _ => FailureClass::Unreachable,
    }
}

/// Where somebody should look who can do something about it.
fn hint(status: u16, class: FailureClass) -> &'static str {
    match status {
        401 => ". Look at the key of Daytona: it may have expired",
        402 | 403 if class == FailureClass::Unreachable => {
            ". Look at the account at Daytona: whether it is paid for, and what its key may do"
        }
        _ => "",
    }
}

/// `Retry-After`, or `Retry-After-<throttler>`; the longest, if there are several.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let ours = headers.iter().filter(|(name, _)| {
        let name = name.as_str();
        name == "retry-after" || name.starts_with("retry-after-")
    });
    let seconds = |value: &HeaderValue| value.to_str().ok()?.trim().parse().ok();
    ours.filter_map(|(_, value)| seconds(value)).max()
}

/// An address with a query, each value spelled as it must be.
pub(super) fn with_query(url: &str, query: &[(&str, String)]) -> Result<String, Failure> {
    let url = Url::parse_with_params(url, query);
    url.map(String::from).map_err(|error| Failure::refused(format!("Daytona's address is not one: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: FailureClass = FailureClass::Busy { retry_after_secs: Some(9) };
    const USED_UP: FailureClass = FailureClass::Busy { retry_after_secs: None };
    use FailureClass::{Refused, Unreachable};

    #[test]
    fn only_what_is_wrong_with_the_wish_itself_is_given_up() {
        let headers = HeaderMap::from_iter([("retry-after".parse().unwrap(), HeaderValue::from_static("9"))]);
        for (status, said, api, toolbox) in [
            (400, "name is too long", Refused, Unreachable),
            (400, "Total CPU limit exceeded", USED_UP, USED_UP),
            (401, "Invalid credentials", Unreachable, Unreachable),
            (402, "Payment required", Unreachable, Unreachable),
            (402, "Quota of the month", USED_UP, USED_UP),
            (403, "Organization is suspended: Depleted credits", Unreachable, Unreachable),
            (403, "Disk quota", USED_UP, USED_UP),
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
            for (whom, expected) in [(Whom::Api, api), (Whom::Toolbox, toolbox)] {
                let found = class(whom, status, said, &headers);
                assert_eq!(found, expected, "{status} {said:?} of {whom:?}");
            }
        }
    }

    #[test]
    fn whoever_can_mend_it_is_told_where_to_look() {
        assert!(hint(401, Unreachable).contains("key"));
        assert!(hint(402, Unreachable).contains("paid") && hint(403, Unreachable).contains("paid"));
        for (status, class) in [(403, USED_UP), (400, Refused), (500, Unreachable)] {
            assert_eq!(hint(status, class), "", "{status}");
        }
    }

    #[test]
    fn an_image_is_tried_only_where_the_snapshot_itself_cannot_be_had() {
        for (said, expected) in [
            ("Snapshot light not found. Did you add it through the Daytona Dashboard?", true),
            ("Snapshot light is building", true),
            ("Snapshot light is not available in region eu", true),
            ("Snapshot lighter not found", false),
            ("Cannot specify Sandbox resources when using a snapshot", false),
            ("Cannot specify a snapshot when using a build info entry", false),
            ("name is too long", false),
        ] {
            let wrong =
                Wrong { status: Some(400), failure: Failure::refused("refused"), said: said.to_owned() };
            assert_eq!(wrong.is_about_the_snapshot("light"), expected, "{said}");
        }
    }
}
