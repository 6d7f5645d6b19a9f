//! Requests to GitHub, and the classification of failures.

use super::address::Address;
use super::cache::ResponseCache;
use super::credential::{App, Credential};
use super::tokens::{Purpose, TokenCache};
use crate::{Environment, Failure, Reason, Secret};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Response, Url, redirect};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a message of GitHub that we pass on.
const MAX_MESSAGE_CHARS: usize = 300;

/// Maximum size of a response. Comparisons are the largest.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// Maximum size of a response that is kept for the next request.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Guards against a list that never ends.
const MAX_PAGES: usize = 300;

/// Timeout for establishing a connection, independent of the request timeout.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));
const API_VERSION: &str = "2022-11-28";

/// Path segments keep the slashes of branch names, as in GitHub's own links.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

pub(super) struct Http {
    client: Client,
    credential: Credential,
    pub(super) api_url: String,
    owner: String,
    pub(super) repository: String,
    timeout: Duration,
    clock: Arc<dyn Fn() -> i64 + Send + Sync>,
    pub(super) tokens: TokenCache,
    pub(super) responses: ResponseCache,
}

/// A request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    method: Method,
    /// With the query.
    path: &'a str,
    body: Option<&'a Value>,
    /// For failures: `creating a branch`.
    doing: &'a str,
    /// The tag of a response that is known. If it has not changed, the status is 304.
    known: Option<String>,
    is_graphql: bool,
}

/// The body of a successful response.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// Null if the response has no body.
    pub body: Value,
    /// Path and query of the next page.
    pub next: Option<String>,
    /// Identifies this response, unless it is too large to be kept.
    pub etag: Option<String>,
}

/// A failed request, with the details that tell failures apart.
#[derive(Debug)]
pub(super) struct RequestError {
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    pub failure: Failure,
    /// GitHub's message and those of its `errors`.
    message: String,
    /// `field` of the first of its `errors`.
    field: Option<String>,
}

impl<'a> Call<'a> {
    pub(super) fn new(method: Method, path: &'a str, doing: &'a str) -> Self {
        Self { method, path, body: None, doing, known: None, is_graphql: false }
    }

    /// To the GraphQL API, which has one path.
    pub(super) fn graphql(self) -> Self {
        Self { is_graphql: true, ..self }
    }

    pub(super) fn unless(self, known: Option<String>) -> Self {
        Self { known, ..self }
    }

    pub(super) fn body(self, body: &'a Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

impl RequestError {
    /// Whether GitHub's message contains this, regardless of case.
    pub(super) fn says(&self, phrase: &str) -> bool {
        self.message.to_lowercase().contains(&phrase.to_lowercase())
    }

    pub(super) fn is_about(&self, field: &str) -> bool {
        self.field.as_deref() == Some(field)
    }

    /// The first error of a response of the GraphQL API, whose status is 200.
    pub(super) fn of_graphql(error: &Value, doing: &str, repository: &str) -> Self {
        let message = error["message"].as_str().unwrap_or("no message");
        let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
        let reason = match error["type"].as_str().unwrap_or_default() {
            "NOT_FOUND" => Reason::NotFound,
            "FORBIDDEN" | "INSUFFICIENT_SCOPES" => Reason::PushForbidden,
            "RATE_LIMITED" => Reason::Busy { retry_after_secs: None },
            "UNPROCESSABLE" => Reason::Invalid,
            _ => Reason::Unreachable,
        };
        let text = format!("GitHub refused {doing} of {repository}: {message}");
        Self { status: None, failure: Failure::new(reason, text), message, field: None }
    }

    /// The same failure for another reason.
    pub(super) fn because(self, reason: Reason) -> Failure {
        Failure { reason, ..self.failure }
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self { status: None, failure, message: String::new(), field: None }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        error.failure
    }
}

impl Http {
    pub(super) fn new(address: &Address, credential: Credential, environment: &Environment) -> Self {
        Self {
            client: environment.client(),
            credential,
            api_url: address.api_url.clone(),
            owner: address.owner.clone(),
            repository: address.repository.clone(),
            timeout: environment.timeout,
            clock: environment.now_secs.clone(),
            tokens: environment.tokens.clone(),
            responses: environment.responses.clone(),
        }
    }

    /// Tells apart what different credentials may see.
    pub(super) fn identity(&self) -> Secret {
        match &self.credential {
            Credential::App(app) => app.key_text.clone(),
            Credential::Token(token) => token.clone(),
        }
    }

    pub(super) fn url(&self, call: &Call<'_>) -> String {
        if call.is_graphql { self.graphql_url() } else { format!("{}{}", self.api_url, call.path) }
    }

    /// Of an Enterprise server it is beside the REST API: `/api/graphql` and `/api/v3`.
    fn graphql_url(&self) -> String {
        let beside = self.api_url.strip_suffix("/api/v3").map(|server| format!("{server}/api/graphql"));
        beside.unwrap_or_else(|| format!("{}/graphql", self.api_url))
    }

    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.repository)
    }

    /// The App that is the credential.
    pub(super) fn app(&self) -> Option<&App> {
        match &self.credential {
            Credential::App(app) => Some(app),
            Credential::Token(_) => None,
        }
    }

    pub(super) fn now_secs(&self) -> i64 {
        (self.clock)()
    }

    pub(super) fn app_id(&self) -> Option<&str> {
        self.app().map(|app| app.id.as_str())
    }

    /// A token for this use.
    pub(super) async fn token(&self, purpose: Purpose) -> Result<Secret, Failure> {
        match &self.credential {
            Credential::Token(token) => Ok(token.clone()),
            Credential::App(app) => Ok(self.app_token(app, purpose).await?.secret),
        }
    }

    /// A token for git, and when it expires.
    pub(super) async fn git_token(&self) -> Result<(Secret, Option<i64>), Failure> {
        match &self.credential {
            Credential::Token(token) => Ok((token.clone(), None)),
            Credential::App(app) => {
                let token = self.app_token(app, Purpose::Git).await?;
                Ok((token.secret, Some(token.expires_at_secs)))
            }
        }
    }

    /// Sends a request with the credential of the repository.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Answer, RequestError> {
        let app = match &self.credential {
            Credential::Token(token) => return self.send_with(token, call).await,
            Credential::App(app) => app,
        };
        let token = self.app_token(app, Purpose::Api).await?;
        match self.send_with(&token.secret, call).await {
            // Revoked, such as by a new installation of the App. Nothing was done, so the request is repeated.
            Err(error) if error.status == Some(401) => {
                self.forget_token(app, Purpose::Api);
                let token = self.app_token(app, Purpose::Api).await?;
                self.send_with(&token.secret, call).await
            }
            answer => answer,
        }
    }

    /// The elements of all pages. `list` finds the array in the body of a page.
    pub(super) async fn pages(
        &self,
        path: &str,
        doing: &str,
        list: fn(Value) -> Value,
    ) -> Result<Vec<Value>, RequestError> {
        let (mut found, mut next) = (Vec::new(), Some(path.to_owned()));
        for _ in 0..MAX_PAGES {
            let Some(path) = next.take() else { return Ok(found) };
            let answer = self.read(Call::new(Method::GET, &path, doing)).await?;
            let Value::Array(page) = list(answer.body) else {
                return Err(Failure::new(
                    Reason::Unreachable,
                    format!("GitHub's response, {doing}, has no list"),
                )
                .into());
            };
            found.extend(page);
            next = answer.next;
        }
        Err(Failure::new(Reason::Unreachable, format!("GitHub's list never ends, {doing}")).into())
    }

    /// Sends a request with this token. Returns the response as it is.
    pub(super) async fn response(&self, token: &Secret, call: &Call<'_>) -> reqwest::Result<Response> {
        let request = self.client.request(call.method.clone(), self.url(call));
        let request = request.bearer_auth(token.reveal()).timeout(self.timeout);
        let request = request.header("accept", "application/vnd.github+json");
        let mut request = request.header("x-github-api-version", API_VERSION);
        if let Some(known) = &call.known {
            request = request.header("if-none-match", known);
        }
        if let Some(body) = call.body {
            request = request.json(body);
        }
        request.send().await
    }

    /// Reads from another server, without the credential.
    pub(super) async fn elsewhere(&self, url: Url) -> reqwest::Result<Response> {
        self.client.get(url).timeout(self.timeout).send().await
    }

    /// Sends a request with this token.
    pub(super) async fn send_with(&self, token: &Secret, call: &Call<'_>) -> Result<Answer, RequestError> {
        let unreachable = |error: reqwest::Error| {
            let why = if error.is_timeout() { "timed out" } else { "is unreachable" };
            let text = format!("GitHub {why}, {}: {}", call.doing, error.without_url());
            RequestError::from(Failure::new(Reason::Unreachable, text))
        };
        let response = self.response(token, call).await.map_err(unreachable)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = read(response).await.map_err(unreachable)?;
        if (200..300).contains(&status) {
            return self.answer(&headers, body.as_deref(), call);
        }
        let body: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        Err(self.error(status, &headers, &body, call, token))
    }

    fn answer(
        &self,
        headers: &HeaderMap,
        body: Option<&[u8]>,
        call: &Call<'_>,
    ) -> Result<Answer, RequestError> {
        let unusable = |what: &str| {
            Failure::new(Reason::Unreachable, format!("GitHub's response is {what}, {}", call.doing))
        };
        let body = body.ok_or_else(|| unusable("too large"))?;
        let etag = headers.get("etag").and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let etag = etag.filter(|_| body.len() <= MAX_KEPT_BYTES);
        // A truncated body counts as no response. An empty body is valid.
        let body = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(body) };
        let body = body.map_err(|_| unusable("not JSON"))?;
        let next =
            next_page(headers, &self.api_url).map_err(|()| unusable("a page that continues elsewhere"))?;
        Ok(Answer { body, next, etag })
    }

    fn error(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: &Value,
        call: &Call<'_>,
        token: &Secret,
    ) -> RequestError {
        let message: String = token.redact(&message(body)).chars().take(MAX_MESSAGE_CHARS).collect();
        let limit = rate_limit(status, headers, &message, self.now_secs());
        let reason = limit.unwrap_or_else(|| reason(status, &call.method, &message));
        let hint =
            if (300..400).contains(&status) { "the repository was moved or renamed" } else { &message };
        let of = if self.owner.is_empty() { String::new() } else { format!(" of {}", self.full_name()) };
        let text = format!("GitHub answered {status}, {}{of}: {hint}", call.doing);
        let field = body["errors"][0]["field"].as_str().map(str::to_owned);
        RequestError { status: Some(status), failure: Failure::new(reason, text), message, field }
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Http");
        shown.field("api_url", &self.api_url).field("credential", &self.credential).finish_non_exhaustive()
    }
}

/// As in `providers`: without certificate authorities it starts anyway, and HTTPS requests fail. A redirect is a
/// failure, so that the credential goes to no other server.
pub(crate) fn client() -> Client {
    let builder = || {
        let builder = Client::builder().user_agent(USER_AGENT).connect_timeout(CONNECT_DEADLINE);
        builder.redirect(redirect::Policy::none())
    };
    builder().build().unwrap_or_else(|_| {
        tracing::error!(
            "No certificate authorities found, so code hosts cannot be reached over HTTPS. Install ca-certificates or set SSL_CERT_FILE"
        );
        builder().tls_certs_only([]).build().expect("an empty trust store needs no certificates of the machine")
    })
}

pub(super) fn in_path(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}

/// For a parameter of a query.
pub(super) fn in_query(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The body; `None` if it is too large.
async fn read(mut response: Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY_BYTES {
            return Ok(None);
        }
    }
    Ok(Some(body))
}

/// `message`, and what `errors` adds to it.
fn message(body: &Value) -> String {
    let mut parts = vec![body["message"].as_str().unwrap_or("no message").to_owned()];
    for error in body["errors"].as_array().into_iter().flatten() {
        let text = |name: &str| error[name].as_str();
        let part = match (error.as_str(), text("message"), text("field"), text("code")) {
            (Some(message), ..) | (_, Some(message), ..) => message.to_owned(),
            (_, _, Some(field), Some(code)) => format!("{field} is {code}"),
            _ => continue,
        };
        parts.push(part);
    }
    parts.join("; ")
}

/// The path of the next page, relative to the API. A link to another server is an error: the token is not for it.
fn next_page(headers: &HeaderMap, api_url: &str) -> Result<Option<String>, ()> {
    let links = headers.get_all("link").iter().filter_map(|value| value.to_str().ok());
    let next = links.flat_map(|links| links.split(',')).find_map(|link| {
        let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        parameters.split(';').any(|parameter| parameter.trim() == "rel=\"next\"").then_some(url)
    });
    let Some(url) = next else { return Ok(None) };
    let path = url.strip_prefix(api_url).filter(|path| path.starts_with('/'));
    path.map(|path| Some(path.to_owned())).ok_or(())
}

fn rate_limit(status: u16, headers: &HeaderMap, message: &str, now_secs: i64) -> Option<Reason> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    let (retry_after, is_used_up) = (number("retry-after"), number("x-ratelimit-remaining") == Some(0));
    let is_limit = status == 429
        || status == 403
            && (retry_after.is_some() || is_used_up || message.to_lowercase().contains("rate limit"));
    let until_reset =
        || number("x-ratelimit-reset").filter(|_| is_used_up).map(|reset| (reset - now_secs).max(1));
    let secs = retry_after.or_else(until_reset).and_then(|secs| u64::try_from(secs).ok());
    is_limit.then_some(Reason::Busy { retry_after_secs: secs })
}

/// The reason if nothing more is known about the request.
fn reason(status: u16, method: &Method, message: &str) -> Reason {
    match status {
        401 => Reason::Unauthorized,
        403 if method == Method::GET => Reason::Unauthorized,
        403 | 451 => Reason::PushForbidden,
        300..400 | 404 | 410 => Reason::NotFound,
        409 if message.to_lowercase().contains("repository is empty") => Reason::EmptyRepository,
        400 | 405 | 409 | 413 | 415 | 422 => Reason::Invalid,
        _ => Reason::Unreachable,
    }
}
