//! A scripted Messages API: what an agent talks to instead of a model.
//!
//! A test writes down what the model answers to what it is told; the rest of the agent is real. Requests that an agent
//! makes on its own account (a title for the session, a look at the quota) offer no tools, and are answered without
//! touching the script. Deliberately absent: prices, limits, and any check of what the agent sends beyond its JSON.

mod reply;
mod stream;
#[cfg(test)]
mod tests;

pub use reply::{Block, Reply, Usage};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, post};
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Whatever a test waits for comes within this time, or not at all.
const SOON: Duration = Duration::from_secs(60);

/// What the model answers, rule by rule: the first that fits and is not used up.
#[derive(Debug, Clone, Default)]
pub struct Script(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    needle: String,
    reply: Reply,
    /// How often it may still be used; `None` for as often as it fits.
    left: Option<u32>,
}

impl Script {
    /// One that has no answer to anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Once, when what the model was told last (a text, or the result of a tool) contains this.
    #[must_use]
    pub fn when(self, needle: &str, reply: Reply) -> Self {
        self.times(1, needle, reply)
    }

    /// As [`Script::when`], so many times.
    #[must_use]
    pub fn times(mut self, times: u32, needle: &str, reply: Reply) -> Self {
        self.0.push(Rule { needle: needle.to_owned(), reply, left: Some(times) });
        self
    }

    /// As [`Script::when`], every time.
    #[must_use]
    pub fn always(mut self, needle: &str, reply: Reply) -> Self {
        self.0.push(Rule { needle: needle.to_owned(), reply, left: None });
        self
    }

    fn take(&mut self, told: &str) -> Option<Reply> {
        let fits = |rule: &&mut Rule| rule.left != Some(0) && told.contains(&rule.needle);
        let rule = self.0.iter_mut().find(fits)?;
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.reply.clone())
    }
}

/// What an agent asked the model.
#[derive(Debug, Clone)]
pub struct Request {
    /// `/v1/messages?beta=true`.
    pub path: String,
    /// The JSON that it sent, or null.
    pub body: Value,
    /// Whether it was on the agent's own account, beside the conversation.
    pub aside: bool,
    /// What the model was told since it last spoke: texts and results of tools.
    pub told: String,
}

/// A model that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Model {
    url: String,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Desk {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<Request>>,
    tools: Mutex<u32>,
}

impl Model {
    /// Starts one on a free port of the loopback.
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let desk =
            Desk { script: Mutex::new(script), requests: watch::Sender::default(), tools: Mutex::new(0) };
        let desk = Arc::new(desk);
        let router = Router::new()
            .route("/", any(|| async {}))
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .fallback(unknown)
            .with_state(desk.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("a listener goes on accepting");
        });
        Self { url, desk, task }
    }

    /// Where it is: `http://127.0.0.1:40000`. This is what `ANTHROPIC_BASE_URL` wants.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything that it was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.desk.requests.borrow().clone()
    }

    /// What it was told so far in conversations, one text per request.
    pub fn told(&self) -> Vec<String> {
        let requests = self.desk.requests.borrow();
        requests.iter().filter(|request| !request.aside).map(|request| request.told.clone()).collect()
    }

    /// Waits until it was told something that contains this, and returns that request.
    pub async fn until_told(&self, needle: &str) -> Request {
        let mut requests = self.desk.requests.subscribe();
        let found = |request: &&Request| !request.aside && request.told.contains(needle);
        let wait = requests.wait_for(|requests| requests.iter().any(|request| found(&request)));
        let heard = tokio::time::timeout(SOON, wait).await;
        let Ok(Ok(requests)) = heard else {
            panic!("nobody told the model {needle:?}; it was told {:#?}", self.told());
        };
        requests.iter().find(found).cloned().expect("it was waited for")
    }

    /// Adds rules behind those that are there.
    pub fn extend(&self, script: Script) {
        lock(&self.desk.script).0.extend(script.0);
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn messages(State(desk): State<Arc<Desk>>, uri: Uri, body: Bytes) -> Response {
    let request = read(&uri, &body);
    let (aside, told) = (request.aside, request.told.clone());
    let model = request.body["model"].as_str().unwrap_or("claude-sonnet-4-5").to_owned();
    let streamed = request.body["stream"] == true;
    let number = {
        let mut number = 0;
        desk.requests.send_modify(|requests| {
            requests.push(request);
            number = requests.len();
        });
        number
    };
    let reply = match aside {
        true => Some(Reply::text("{}")),
        false => lock(&desk.script).take(&told),
    };
    let Some(mut reply) = reply else {
        // Not one of the errors that are tried again: the test ends, and says why.
        return failure(400, None, &format!("no rule of the script fits: {told}"));
    };
    if let Some(error) = reply.error {
        return failure(error.status, error.retry_after_secs, "as the script says");
    }
    reply.name_tools(&mut lock(&desk.tools));
    let opening = reply.message(&format!("msg_{number:04}"), &model);
    match streamed {
        true => stream::answer(opening, reply),
        false => whole(&reply.whole(opening)),
    }
}

async fn count_tokens(State(desk): State<Arc<Desk>>, uri: Uri, body: Bytes) -> Response {
    let mut request = read(&uri, &body);
    request.aside = true;
    desk.requests.send_modify(|requests| requests.push(request));
    whole(&json!({"input_tokens": body.len() / 4}))
}

async fn unknown(State(desk): State<Arc<Desk>>, uri: Uri, body: Bytes) -> Response {
    let mut request = read(&uri, &body);
    request.aside = true;
    desk.requests.send_modify(|requests| requests.push(request));
    failure(404, None, "there is no such route")
}

fn read(uri: &Uri, body: &[u8]) -> Request {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let aside = body["tools"].as_array().is_none_or(Vec::is_empty);
    Request { path: uri.to_string(), told: told(&body), aside, body }
}

/// The texts since the model's last words. What an agent says about itself before the first of them (its environment,
/// its skills) would fit any rule, and is left out.
fn told(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let last = messages.iter().rposition(|message| message["role"] == "assistant");
    let mut texts = Vec::new();
    for message in &messages[last.map_or(0, |last| last + 1)..] {
        collect(&message["content"], &mut texts);
    }
    if last.is_none() {
        texts.retain(|text| !text.trim_start().starts_with("<system-reminder>"));
    }
    texts.join("\n")
}

fn collect<'a>(content: &'a Value, texts: &mut Vec<&'a str>) {
    match content {
        Value::String(text) => texts.push(text),
        Value::Array(blocks) => blocks.iter().for_each(|block| collect(block, texts)),
        Value::Object(block) => {
            texts.extend(block.get("text").and_then(Value::as_str));
            block.get("content").into_iter().for_each(|content| collect(content, texts));
        }
        _ => {}
    }
}

fn whole(body: &Value) -> Response {
    let answer =
        Response::builder().header("content-type", "application/json").body(Body::from(body.to_string()));
    answer.expect("its parts are right")
}

fn failure(status: u16, retry_after_secs: Option<u64>, message: &str) -> Response {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let mut answer = whole(&json!({"type": "error", "error": {"type": kind, "message": message}}));
    *answer.status_mut() = StatusCode::from_u16(status).expect("a script names real statuses");
    if let Some(secs) = retry_after_secs {
        answer.headers_mut().insert("retry-after", secs.into());
    }
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
