//! A fake GitHub: the part of its REST API that the plane uses, and git over HTTP, over real bare repositories.
//!
//! It responds with GitHub's statuses and messages, computes merges with git, and injects [`Faults`]. Its clock
//! can be advanced, so that tokens expire. Deliberately absent: all fields that the plane does not read, parsing of
//! GraphQL (the three requests of the plane are recognized), and sending webhooks: a test sends [`Webhook`].

mod access;
mod branches;
mod compare;
mod faults;
mod git;
mod pulls;
mod reports;
mod rest;
mod reviews;
pub mod webhooks;

pub use access::{App, Token};
pub use faults::{Fault, Faults, Operation};
pub use rest::Settings;
pub use reviews::{Author, NewReview};
pub use webhooks::Webhook;

use crate::git_server::BackendRequest;
use access::{Access, Caller};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use faults::Injector;
use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;
use rest::{Call, Reply, Repositories};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Below the URL of the server, as with GitHub Enterprise.
const API: &str = "/api/v3/";
const GRAPHQL: &str = "/api/graphql";
/// Where logs of jobs are: the API redirects there.
const LOGS: &str = "/logs/";

#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of entries per page.
    pub page: usize,
    /// How often `mergeable` is null after a change of a pull request.
    pub pending_mergeable: u32,
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self { page: 100, pending_mergeable: 1, faults: Faults::default() }
    }
}

/// A running fake. It stops when it is dropped.
#[derive(Debug)]
pub struct GitHub {
    server: Arc<Server>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Server {
    options: Options,
    /// `http://127.0.0.1:40000`.
    url: String,
    folder: TempDir,
    repositories: Mutex<Repositories>,
    access: Mutex<Access>,
    injector: Mutex<Injector>,
    requests: Mutex<Vec<Recorded>>,
    /// Seconds by which the clock is ahead.
    advanced_secs: AtomicI64,
}

/// A request that the fake received.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub operation: Operation,
    pub method: String,
    /// With the query.
    pub path: String,
    /// The token or JWT of the request.
    pub credential: Option<String>,
    /// Null for git.
    pub body: Value,
    /// Whether the response was that nothing has changed.
    pub unchanged: bool,
}

impl GitHub {
    /// Starts a fake without repositories and tokens on a free port of the loopback.
    pub async fn start(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let server = Arc::new(Server {
            injector: Mutex::new(Injector::new(options.faults.clone())),
            options,
            url: format!("http://{address}"),
            folder: tempfile::tempdir().expect("a temporary folder"),
            repositories: Mutex::default(),
            access: Mutex::default(),
            requests: Mutex::default(),
            advanced_secs: AtomicI64::new(0),
        });
        let router = Router::new().fallback(answer).with_state(server.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("a listener keeps accepting");
        });
        Self { server, task }
    }

    /// `http://127.0.0.1:40000`.
    pub fn url(&self) -> &str {
        &self.server.url
    }

    /// The value of `GITHUB_HOST` for this server. Its API is at the default place of that host.
    pub fn host(&self) -> String {
        self.url().trim_start_matches("http://").to_owned()
    }

    /// The address of a repository: `http://127.0.0.1:40000/acme/shop.git`.
    pub fn repository_url(&self, name: &str) -> String {
        format!("{}/{name}.git", self.url())
    }

    /// Creates an empty repository, `acme/shop`, and returns its directory.
    pub fn create_repository(&self, name: &str) -> PathBuf {
        let directory = self.server.folder.path().join(format!("{name}.git"));
        git::create(&directory);
        lock(&self.server.repositories).add(name, directory.clone());
        directory
    }

    /// Changes the settings of a repository.
    pub fn configure(&self, name: &str, change: impl FnOnce(&mut Settings)) {
        change(&mut lock(&self.server.repositories).get_mut(name).expect("an existing repository").settings);
    }

    /// Accepts a token.
    pub fn allow(&self, token: Token) {
        lock(&self.server.access).tokens.push(token);
    }

    /// Rejects a token from now on; all tokens of Apps if it is empty.
    pub fn revoke(&self, token: &str) {
        lock(&self.server.access).revoke(token);
    }

    pub fn install(&self, app: App) {
        lock(&self.server.access).apps.push(app);
    }

    /// A clock for clients of this server.
    pub fn clock(&self) -> Arc<dyn Fn() -> i64 + Send + Sync> {
        let server = self.server.clone();
        Arc::new(move || server.now_secs())
    }

    pub fn advance_secs(&self, secs: i64) {
        self.server.advanced_secs.fetch_add(secs, Ordering::SeqCst);
    }

    /// All requests so far, in their order.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.server.requests).clone()
    }

    /// Number of requests for an operation, successful or not.
    pub fn calls(&self, operation: Operation) -> usize {
        self.requests().iter().filter(|request| request.operation == operation).count()
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.server.injector) = Injector::new(faults);
    }

    /// All pull requests of a repository, as the API returns them.
    pub fn pull_requests(&self, name: &str) -> Vec<Value> {
        lock(&self.server.repositories).get_mut(name).expect("an existing repository").all_pulls(self.url())
    }

    /// Adds a check run of another App, such as a CI system. `state` is a conclusion, or `in_progress`.
    pub fn add_check_run(&self, name: &str, commit: &str, check: &str, state: &str) {
        let mut repositories = lock(&self.server.repositories);
        repositories.get_mut(name).expect("an existing repository").add_check_run(commit, check, state);
    }

    /// Adds a failed job of GitHub Actions.
    pub fn add_failed_job(&self, name: &str, commit: &str, check: &str, log: &str) {
        let mut repositories = lock(&self.server.repositories);
        repositories.get_mut(name).expect("an existing repository").add_failed_job(commit, check, log);
    }

    /// Adds a review to a pull request. Returns the ids of its threads.
    pub fn review(&self, name: &str, number: u64, review: &NewReview<'_>) -> Vec<String> {
        lock(&self.server.repositories).review(name, number, review)
    }

    /// Adds a comment to a pull request.
    pub fn comment(&self, name: &str, number: u64, author: &Author, text: &str) {
        lock(&self.server.repositories).comment(name, number, author, text);
    }

    /// Adds a comment to a thread.
    pub fn comment_in_thread(&self, thread: &str, author: &Author, text: &str) {
        assert!(
            lock(&self.server.repositories).comment_in_thread(thread, author, text),
            "no thread {thread}"
        );
    }

    /// Reviews, threads and comments of a pull request, as the GraphQL API returns them.
    pub fn discussion(&self, name: &str, number: u64) -> Value {
        lock(&self.server.repositories).shown_discussion(name, number)
    }
}

impl Drop for GitHub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the clock of this server")]
    fn now_secs(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX) + self.advanced_secs.load(Ordering::SeqCst)
    }
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else { return cut() };
    let (raw_path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let method = parts.method.as_str();
    if let Some(job) = raw_path.strip_prefix(LOGS) {
        return log_file(&server, job, &parts.headers);
    }
    let (operation, path) = match raw_path.strip_prefix(API) {
        _ if raw_path == GRAPHQL => (Operation::of_graphql(&body), Vec::new()),
        Some(path) => {
            let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
            let path: Vec<String> = path.split('/').map(decode).collect();
            (Operation::of(method, &path), path)
        }
        None => (Operation::of_git(raw_path, query), Vec::new()),
    };
    let Some(operation) = operation else { return response(Reply::refusal(404, "Not Found")) };
    let is_git = operation.is_git();
    let credential = if is_git { password(&parts.headers) } else { bearer(&parts.headers) };
    let json = if is_git { Value::Null } else { serde_json::from_slice(&body).unwrap_or_default() };
    let shown = if query.is_empty() { raw_path.to_owned() } else { format!("{raw_path}?{query}") };
    lock(&server.requests).push(Recorded {
        operation,
        method: method.to_owned(),
        path: shown,
        credential: credential.clone(),
        body: json.clone(),
        unchanged: false,
    });
    let index = lock(&server.requests).len() - 1;
    let fault = lock(&server.injector).next(operation);
    if fault == Some(Fault::NoResponse) {
        return std::future::pending().await;
    }
    let is_executed = fault.as_ref().is_none_or(Fault::is_executed);
    let done = match is_executed {
        false => None,
        true if is_git => {
            let request = BackendRequest {
                folder: server.folder.path(),
                method,
                path: raw_path,
                query,
                content_type: header(&parts.headers, "content-type"),
                content_encoding: header(&parts.headers, "content-encoding"),
                git_protocol: header(&parts.headers, "git-protocol"),
                body: body.to_vec(),
            };
            Some(serve_git(&server, operation, credential.as_deref(), request).await)
        }
        true => {
            let query = pairs(query);
            let call = Call { operation, path, query, body: json, now_secs: server.now_secs() };
            let reply = perform(server.clone(), call, credential.clone()).await;
            let reply =
                if method == "GET" { reply.unless(header(&parts.headers, "if-none-match")) } else { reply };
            if reply.status == 304 {
                lock(&server.requests)[index].unchanged = true;
            }
            Some(response(reply))
        }
    };
    match fault {
        None => done.unwrap_or_else(cut),
        Some(fault) => {
            fault.reply(&credential.unwrap_or_default(), server.now_secs()).map_or_else(cut, response)
        }
    }
}

/// The log of a job, which needs no credential and is given none.
fn log_file(server: &Server, job: &str, headers: &HeaderMap) -> Response {
    if headers.contains_key("authorization") {
        return response(Reply::refusal(400, "Only one auth mechanism allowed"));
    }
    match lock(&server.repositories).log_of_job(job) {
        Some(log) => Response::new(Body::from(log)),
        None => response(Reply::refusal(404, "Not Found")),
    }
}

/// Git blocks, so requests are performed on a thread for blocking work.
async fn perform(server: Arc<Server>, call: Call, credential: Option<String>) -> Reply {
    let work = move || {
        let now_secs = call.now_secs;
        let caller = match lock(&server.access).caller(credential.as_deref(), now_secs) {
            Ok(caller) => caller,
            Err(refusal) => return refusal,
        };
        match (call.operation, caller) {
            (
                Operation::Installations | Operation::Installation | Operation::CreateToken,
                Caller::App(app),
            ) => lock(&server.access).perform(&app, &call),
            (
                Operation::Installations | Operation::Installation | Operation::CreateToken,
                Caller::Token(_),
            ) => Reply::refusal(401, "A JSON web token could not be decoded"),
            (_, Caller::App(_)) => Reply::refusal(401, "Bad credentials"),
            (_, Caller::Token(token)) => {
                lock(&server.repositories).perform(&token, &call, &server.options, &server.url)
            }
        }
    };
    tokio::task::spawn_blocking(work).await.expect("a request is performed without a panic")
}

/// Clones, fetches and pushes. A token is the password of any user.
async fn serve_git(
    server: &Server,
    operation: Operation,
    credential: Option<&str>,
    request: BackendRequest<'_>,
) -> Response {
    let name = request.path.trim_start_matches('/').split_once(".git").map_or("", |(name, _)| name);
    let allowed = lock(&server.access).permits_git(credential, name, operation, server.now_secs());
    let plain = |status: StatusCode, text: &'static str| {
        Response::builder().status(status).body(Body::from(text)).expect("its parts are right")
    };
    match allowed {
        None => {
            let mut refusal = plain(StatusCode::UNAUTHORIZED, "Authentication failed");
            let realm = "Basic realm=\"GitHub\"".parse().expect("a real header");
            refusal.headers_mut().insert("www-authenticate", realm);
            return refusal;
        }
        Some(false) => return plain(StatusCode::FORBIDDEN, "Write access to repository not granted."),
        Some(true) => {}
    }
    if lock(&server.repositories).get_mut(name).is_none() {
        return plain(StatusCode::NOT_FOUND, "Repository not found.");
    }
    let Ok(found) = request.run().await else { return cut() };
    let status = found.status.split(' ').next().and_then(|status| status.parse().ok()).unwrap_or(500);
    let mut builder = Response::builder().status(StatusCode::from_u16(status).expect("a real status"));
    for (name, value) in found.headers {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(found.body)).expect("its parts are right")
}

fn response(reply: Reply) -> Response {
    let mut builder = Response::builder().status(StatusCode::from_u16(reply.status).expect("a real status"));
    for (name, value) in reply.headers {
        builder = builder.header(name, value);
    }
    let body = if reply.body.is_null() { String::new() } else { reply.body.to_string() };
    builder.body(Body::from(body)).expect("its parts are right")
}

/// A connection that breaks before the response.
fn cut() -> Response {
    let cut = futures_util::stream::once(async { Err::<String, _>(io::Error::other("cut")) });
    Response::new(Body::from_stream(cut))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    header(headers, "authorization").strip_prefix("Bearer ").map(str::to_owned)
}

fn password(headers: &HeaderMap) -> Option<String> {
    let encoded = header(headers, "authorization").strip_prefix("Basic ")?;
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://query/?{query}")).expect("a query that came over HTTP");
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
