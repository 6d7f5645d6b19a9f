//! A scripted Messages API that replaces the model.
//!
//! A test defines the model's replies to prompts; the agent is real. Side requests of an agent (a session title, a quota
//! check) offer no tools and are answered without using a rule. Deliberately absent: prices, limits, and validation of
//! requests beyond their JSON.

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
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Rules for the model's replies. The first rule that matches and is not used up applies.
#[derive(Debug, Clone, Default)]
pub struct Script(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    needle: String,
    reply: Reply,
    /// Remaining uses; `None` for unlimited.
    left: Option<u32>,
}

impl Script {
    /// A script without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replies once, if the prompt (texts and tool results since the last reply) contains `needle`.
    #[must_use]
    pub fn when(self, needle: &str, reply: Reply) -> Self {
        self.times(1, needle, reply)
    }

    /// As [`Script::when`], several times.
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

    fn take(&mut self, prompt: &str) -> Option<Reply> {
        let matches = |rule: &&mut Rule| rule.left != Some(0) && prompt.contains(&rule.needle);
        let rule = self.0.iter_mut().find(matches)?;
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.reply.clone())
    }
}

/// A request to the model.
#[derive(Debug, Clone)]
pub struct Request {
    /// `/v1/messages?beta=true`.
    pub path: String,
    /// The JSON body, or null.
    pub body: Value,
    /// Whether it is outside of the conversation.
    pub is_side_request: bool,
    /// Texts and tool results since the model's last reply.
    pub prompt: String,
    /// The key of the request: `x-api-key`, or `authorization`.
    pub key: Option<String>,
    /// Path, headers and body as they were received, without the headers of the key.
    pub received: String,
}

/// A running model server. It stops when dropped.
#[derive(Debug)]
pub struct Model {
    url: String,
    server: Arc<Server>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Server {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<Request>>,
    tools: Mutex<u32>,
}

impl Model {
    /// Starts a model on a free port of the loopback.
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let server =
            Server { script: Mutex::new(script), requests: watch::Sender::default(), tools: Mutex::new(0) };
        let server = Arc::new(server);
        let router = Router::new()
            .route("/", any(|| async {}))
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .fallback(unknown)
            .with_state(server.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("a listener keeps accepting");
        });
        Self { url, server, task }
    }

    /// The value for `ANTHROPIC_BASE_URL`: `http://127.0.0.1:40000`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.server.requests.borrow().clone()
    }

    /// The prompts of the conversation so far, one per request.
    pub fn prompts(&self) -> Vec<String> {
        let requests = self.server.requests.borrow();
        requests
            .iter()
            .filter(|request| !request.is_side_request)
            .map(|request| request.prompt.clone())
            .collect()
    }

    /// Waits for a prompt that contains `needle`, and returns its request.
    pub async fn until_prompted(&self, needle: &str) -> Request {
        let mut requests = self.server.requests.subscribe();
        let found = |request: &&Request| !request.is_side_request && request.prompt.contains(needle);
        let wait = requests.wait_for(|requests| requests.iter().any(|request| found(&request)));
        let outcome = tokio::time::timeout(TIMEOUT, wait).await;
        let Ok(Ok(requests)) = outcome else {
            panic!("no prompt contained {needle:?}; prompts: {:#?}", self.prompts());
        };
        requests.iter().find(found).cloned().expect("the condition of the wait was met")
    }

    /// Appends rules.
    pub fn extend(&self, script: Script) {
        lock(&self.server.script).0.extend(script.0);
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn messages(State(server): State<Arc<Server>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = read(&uri, &headers, &body);
    let (is_side_request, prompt) = (request.is_side_request, request.prompt.clone());
    let model = request.body["model"].as_str().unwrap_or("claude-sonnet-4-5").to_owned();
    let streamed = request.body["stream"] == true;
    let number = {
        let mut number = 0;
        server.requests.send_modify(|requests| {
            requests.push(request);
            number = requests.len();
        });
        number
    };
    let reply = match is_side_request {
        true => Some(Reply::text("{}")),
        false => lock(&server.script).take(&prompt),
    };
    let Some(mut reply) = reply else {
        // A status that agents do not retry, so that the test fails with the reason.
        return failure(400, None, &format!("no rule of the script matches: {prompt}"));
    };
    if let Some(error) = reply.error {
        return failure(error.status, error.retry_after_secs, "scripted error");
    }
    reply.assign_tool_ids(&mut lock(&server.tools));
    let opening = reply.message(&format!("msg_{number:04}"), &model);
    match streamed {
        true => stream::answer(opening, reply),
        false => json_response(&reply.complete(opening)),
    }
}

async fn count_tokens(
    State(server): State<Arc<Server>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut request = read(&uri, &headers, &body);
    request.is_side_request = true;
    server.requests.send_modify(|requests| requests.push(request));
    json_response(&json!({"input_tokens": body.len() / 4}))
}

async fn unknown(State(server): State<Arc<Server>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let mut request = read(&uri, &headers, &body);
    request.is_side_request = true;
    server.requests.send_modify(|requests| requests.push(request));
    failure(404, None, "route not found")
}

fn read(uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Request {
    let header =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let key = header("x-api-key").or_else(|| header("authorization"));
    let is_key = |name: &str| ["x-api-key", "authorization"].contains(&name);
    let others = headers.iter().filter(|(name, _)| !is_key(name.as_str()));
    let others =
        others.map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    let received = format!("{uri}\n{}\n{}", others.collect::<String>(), String::from_utf8_lossy(body));
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_side_request = body["tools"].as_array().is_none_or(Vec::is_empty);
    Request { path: uri.to_string(), prompt: prompt(&body), is_side_request, body, key, received }
}

/// The texts since the model's last reply. The agent's own context in the first prompt (its environment, its skills) is
/// left out, because it could match any rule.
fn prompt(body: &Value) -> String {
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

fn json_response(body: &Value) -> Response {
    let answer =
        Response::builder().header("content-type", "application/json").body(Body::from(body.to_string()));
    answer.expect("the response is valid")
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
    let mut answer = json_response(&json!({"type": "error", "error": {"type": kind, "message": message}}));
    *answer.status_mut() = StatusCode::from_u16(status).expect("scripts use valid statuses");
    if let Some(secs) = retry_after_secs {
        answer.headers_mut().insert("retry-after", secs.into());
    }
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
