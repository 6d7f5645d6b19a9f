//! Test steps for functions under `cargo lambda watch`: at least one of each group, a long poll, and rejected tokens.
//!
//! Deliberately absent: sockets, streams, jobs and schedules, which `cargo lambda watch` cannot trigger. The local plane on
//! the same table runs them.

use crate::report::Report;
use crate::tickets::Agent;
use crate::watch::OPERATOR;
use anyhow::{Context, ensure};
use edge::registry::{self, FUNCTIONS, Trigger};
use kit::socket::Socket;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The first request waits for the build.
const TIMEOUT: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait of a pull.
const WAIT_SECS: u64 = 20;
/// Longer than a function needs to find its mailbox empty and to begin to wait.
const PAUSE: Duration = Duration::from_secs(1);

/// `url` is the address of `cargo lambda watch`, `plane` that of the local plane.
pub async fn run(report: &mut Report, url: &str, plane: &str) -> anyhow::Result<()> {
    let functions = Functions { url, http: reqwest::Client::new(), called: Mutex::default() };
    let registered = register(&functions);
    let worker = report.step("watched functions are built, and register a sandbox", registered).await?;
    report.step("event is stored, pushed and listed", store_event(&functions, plane, &worker)).await?;
    let latency = report.step("waiting pull is answered by a message", pull(&functions, &worker)).await?;
    report.note(&format!("answered {} ms after the message was sent", latency.as_millis()));
    report.step("session entry is stored and read", store_entry(&functions, &worker)).await?;
    report.step("ticket is created, and its task completed", complete_ticket(&functions)).await?;
    report.step("API document is served", get_document(&functions)).await?;
    report.step("code hosts are asked, and send webhooks", ask_code_hosts(&functions)).await?;
    report.step("invalid tokens are rejected with a problem", reject_tokens(&functions, &worker)).await?;
    report.step("one function of each group was called", async { functions.check_groups() }).await
}

/// Client of the watched functions.
struct Functions<'a> {
    url: &'a str,
    http: reqwest::Client,
    /// Groups of the functions that have answered as expected.
    called: Mutex<BTreeSet<&'static str>>,
}

impl Functions<'_> {
    /// Sends a request; fails unless it succeeds.
    async fn call(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let (status, _, answer) = self.send(&method, path, Some(token), body).await?;
        ensure!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        self.record(&method, path)?;
        Ok(answer)
    }

    /// Sends a request; fails unless its function answers it with this problem.
    async fn call_refused(
        &self,
        (method, path): (Method, &str),
        body: Option<Value>,
        expected: (u16, &str),
    ) -> anyhow::Result<()> {
        let (status, _, problem) = self.send(&method, path, Some(OPERATOR), body).await?;
        ensure!((status, problem["code"].as_str()) == (expected.0, Some(expected.1)), "{status} {problem}");
        self.record(&method, path)
    }

    /// The function of this route was called.
    fn record(&self, method: &Method, path: &str) -> anyhow::Result<()> {
        let route = path.split('?').next().unwrap_or(path);
        let called = registry::resolve(method, route);
        let called = called.map_err(|error| anyhow::anyhow!("{method} {path} has no function: {error:?}"))?;
        self.called.lock().expect("no step panics").insert(called.function.group());
        Ok(())
    }

    /// Returns the status, the content type and the body.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        token: Option<&str>,
        body: Option<Value>,
    ) -> anyhow::Result<(u16, String, Value)> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.url)).timeout(TIMEOUT);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await?;
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let (status, text) = (answer.status().as_u16(), answer.text().await?);
        Ok((status, content_type, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// A new group of functions needs a call here.
    fn check_groups(&self) -> anyhow::Result<()> {
        let routes = FUNCTIONS.iter().filter(|function| matches!(function.trigger, Trigger::Http(_)));
        let groups: BTreeSet<&str> = routes.map(registry::Function::group).collect();
        let called = self.called.lock().expect("no step panics");
        let missing: Vec<&&str> = groups.difference(&called).collect();
        ensure!(missing.is_empty(), "no function of {missing:?} was called");
        Ok(())
    }
}

/// Returns the worker's token.
async fn register(functions: &Functions<'_>) -> anyhow::Result<String> {
    let body = json!({"sandbox_id": "s-1", "org": "acme"});
    let registered = functions.call(Method::POST, "/api/v1/sandboxes", OPERATOR, Some(body)).await?;
    Ok(registered["worker_token"].as_str().context("no worker token")?.to_owned())
}

async fn get_document(functions: &Functions<'_>) -> anyhow::Result<()> {
    let document = functions.call(Method::GET, "/api/v1/openapi.json", OPERATOR, None).await?;
    ensure!(
        document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")),
        "not OpenAPI 3.1"
    );
    Ok(())
}

/// The local plane pushes the event that a watched function has stored.
async fn store_event(functions: &Functions<'_>, plane: &str, worker: &str) -> anyhow::Result<()> {
    let address = format!("{}/api/v1/ws/events?token={OPERATOR}", plane.replacen("http", "ws", 1));
    let opened = Socket::open(&address).await;
    let mut socket = opened.map_err(|status| anyhow::anyhow!("the socket was rejected: {status}"))?;
    let event = json!({"event_type": "agent.message", "event_data": {"text": "while you edit"}});
    let path = "/api/v1/sandboxes/s-1/events";
    let stored = functions.call(Method::POST, path, worker, Some(event)).await?;
    let frame = timeout(Duration::from_secs(60), socket.next()).await.context("no event arrived")?;
    ensure!(frame.is_some_and(|frame| frame["id"] == stored["event_id"]), "another event arrived");
    // The path that OmoiOS uses.
    let page = functions.call(Method::GET, "/api/v1/sandbox/s-1/events", OPERATOR, None).await?;
    ensure!(page["events"][0]["event_data"]["text"] == "while you edit", "{page}");
    Ok(())
}

/// Sends a message while a pull waits, both through watched functions. Returns the time from the message to the answer.
async fn pull(functions: &Functions<'_>, worker: &str) -> anyhow::Result<Duration> {
    let path = "/api/v1/sandboxes/s-1/messages";
    let pulling = async {
        let query = format!("{path}?ack=manual&wait={WAIT_SECS}");
        let pulled = functions.call(Method::GET, &query, worker, None).await?;
        anyhow::Ok((pulled, Instant::now()))
    };
    let sending = async {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let message = json!({"message_id": "m-1", "content": "and add tests"});
        functions.call(Method::POST, path, OPERATOR, Some(message)).await?;
        anyhow::Ok(begun)
    };
    let ((pulled, answered), begun) = tokio::try_join!(pulling, sending)?;
    ensure!(pulled["messages"][0]["id"] == "m-1", "{pulled}");
    let latency = answered.checked_duration_since(begun).context("the pull did not wait")?;
    ensure!(latency < Duration::from_secs(WAIT_SECS) - PAUSE, "the pull was answered after {latency:?}");
    Ok(latency)
}

async fn store_entry(functions: &Functions<'_>, worker: &str) -> anyhow::Result<()> {
    let path = "/api/v1/sandboxes/s-1/sessions/c0ffee/entries";
    let entries = json!({"first": 1, "entries": [{"n": 1}]});
    functions.call(Method::POST, path, worker, Some(entries)).await?;
    let read = functions.call(Method::GET, path, worker, None).await?;
    ensure!(read["entries"][0]["n"] == 1, "{read}");
    Ok(())
}

/// The local plane runs the agent of a task that a watched function has created.
async fn complete_ticket(functions: &Functions<'_>) -> anyhow::Result<()> {
    let body = json!({"title": "Say hello", "org": "acme", "agent": Agent::Hello.name()});
    let ticket = functions.call(Method::POST, "/api/v1/tickets", OPERATOR, Some(body)).await?;
    let id = ticket["id"].as_str().with_context(|| format!("no id in {ticket}"))?;
    let path = format!("/api/v1/tasks?ticket_id={id}");
    let mut list = Value::Null;
    let completed = async {
        while list["tasks"][0]["status"] != "completed" {
            tokio::time::sleep(POLL_INTERVAL).await;
            list = functions.call(Method::GET, &path, OPERATOR, None).await?;
        }
        anyhow::Ok(())
    };
    let completed = timeout(Duration::from_secs(60), completed).await;
    completed.with_context(|| format!("the task is not completed: {list}"))??;
    let status = functions.call(Method::GET, "/api/v1/monitoring/status", OPERATOR, None).await?;
    ensure!(status["active_count"].is_u64(), "{status}");
    Ok(())
}

/// These functions have no credential of a code host and no secret of webhooks.
async fn ask_code_hosts(functions: &Functions<'_>) -> anyhow::Result<()> {
    let list = functions.call(Method::GET, "/api/v1/repositories", OPERATOR, None).await?;
    ensure!(list["repositories"].as_array().is_some_and(Vec::is_empty), "{list}");
    let status = (Method::GET, "/api/v1/branch-workflow/status?ticket_id=missing");
    functions.call_refused(status, None, (404, "not_found")).await?;
    let webhook = (Method::POST, "/api/v1/webhooks/github");
    functions.call_refused(webhook, Some(json!({"zen": "hello"})), (401, "unauthorized")).await
}

async fn reject_tokens(functions: &Functions<'_>, worker: &str) -> anyhow::Result<()> {
    // A worker may not list sandboxes.
    let cases = [
        (None, 401, "unauthorized"),
        (Some("nonsense"), 401, "unauthorized"),
        (Some(worker), 403, "forbidden"),
    ];
    for (token, expected, code) in cases {
        let (status, content_type, problem) =
            functions.send(&Method::GET, "/api/v1/sandboxes", token, None).await?;
        ensure!(status == expected && problem["code"] == code, "{token:?}: {status} {problem}");
        ensure!(content_type == "application/problem+json", "{content_type}");
    }
    Ok(())
}
