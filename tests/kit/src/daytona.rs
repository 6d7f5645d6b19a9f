//! A Daytona that is ours: its REST API as far as the plane uses it, with sandboxes that are folders, and that really run
//! what is put into them.
//!
//! It is slow where Daytona is slow (a sandbox is there before it has started, and for a while after it was told to end),
//! refuses what Daytona refuses, and has whatever [`Trouble`] a test wishes. A sandbox's home is a folder on this machine,
//! so an absolute path that a command prints there is one that a file can be sent to. Deliberately absent: images,
//! resources, networks, and everything about a sandbox that the plane does not ask.

mod machine;
mod sandboxes;
mod toolbox;
mod trouble;

pub use sandboxes::Seen;
pub use trouble::{Mishap, Operation, Trouble};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, StatusCode};
use sandboxes::Sandboxes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use trouble::Dice;

/// What a Daytona is like.
#[derive(Debug, Clone)]
pub struct Options {
    /// The key that it wants.
    pub key: String,
    /// How long a sandbox takes until it has started.
    pub starts_after: Duration,
    /// How long one that was told to end is still there.
    pub ends_after: Duration,
    /// Most sandboxes on one page of a list.
    pub page: usize,
    /// The snapshots that it has.
    pub snapshots: Vec<String>,
    /// Images that cannot be built from.
    pub bad_images: Vec<String>,
    /// What goes wrong.
    pub trouble: Trouble,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key: "dtn_key".to_owned(),
            starts_after: Duration::ZERO,
            ends_after: Duration::ZERO,
            page: 100,
            snapshots: vec!["ai-agent-dev-light".to_owned()],
            bad_images: Vec::new(),
            trouble: Trouble::default(),
        }
    }
}

/// A Daytona that runs. Dropping it ends it, and all that runs in its sandboxes.
#[derive(Debug)]
pub struct Daytona {
    url: String,
    desk: Arc<Desk>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Desk {
    options: Options,
    toolbox_url: String,
    dice: Mutex<Dice>,
    calls: Mutex<BTreeMap<Operation, usize>>,
    sandboxes: Sandboxes,
}

impl Daytona {
    /// Starts one on a free port of the loopback.
    pub async fn start(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let desk = Desk::new(&listener, options);
        let task = tokio::spawn(run(listener, desk.clone()));
        Self { url: format!("{url}/api"), desk, task }
    }

    /// Where its API is: `http://127.0.0.1:40000/api`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The key that it wants.
    pub fn key(&self) -> &str {
        &self.desk.options.key
    }

    /// Every sandbox that was ever made, in the order in which they were.
    pub fn sandboxes(&self) -> Vec<Seen> {
        self.desk.sandboxes.seen()
    }

    /// Those that are not gone.
    pub fn living(&self) -> Vec<Seen> {
        self.sandboxes().into_iter().filter(|seen| seen.state != "destroyed").collect()
    }

    /// The processes that run in a sandbox, whether it is gone or not.
    pub fn processes(&self, name: &str) -> Vec<i32> {
        self.desk.sandboxes.processes(name)
    }

    /// Removes a sandbox that is being deleted, however long it would still be listed.
    pub fn end(&self, name: &str) {
        self.desk.sandboxes.end(name);
    }

    /// How often it was asked for what, whatever came of it.
    pub fn calls(&self) -> BTreeMap<Operation, usize> {
        lock(&self.desk.calls).clone()
    }

    /// Has other things go wrong from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        *lock(&self.desk.dice) = Dice::new(trouble);
    }
}

impl Drop for Daytona {
    fn drop(&mut self) {
        self.task.abort();
        self.desk.sandboxes.end_all();
    }
}

/// Serves a Daytona of its own until it is no longer waited for: what a program that is only that needs.
pub async fn serve(listener: TcpListener, options: Options) {
    let desk = Desk::new(&listener, options);
    run(listener, desk).await;
}

async fn run(listener: TcpListener, desk: Arc<Desk>) {
    let router = Router::new().fallback(answer).with_state(desk);
    axum::serve(listener, router).await.expect("a listener goes on accepting");
}

impl Desk {
    fn new(listener: &TcpListener, options: Options) -> Arc<Self> {
        let address = listener.local_addr().expect("a bound listener has an address");
        let dice = Mutex::new(Dice::new(options.trouble.clone()));
        let toolbox_url = format!("http://{address}/toolbox");
        let (calls, sandboxes) = Default::default();
        Arc::new(Self { options, toolbox_url, dice, calls, sandboxes })
    }
}

/// What is asked for, taken apart.
#[derive(Debug)]
struct Asked {
    method: Method,
    /// The parts of the path, behind `api` or `toolbox`.
    path: Vec<String>,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Asked {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What is answered: a status and its JSON.
type Said = (u16, Value);

/// A refusal as Daytona words it.
fn refusal(status: u16, message: &str) -> Said {
    (status, json!({"statusCode": status, "error": "Error", "message": message}))
}

async fn answer(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let sent = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    if sent != Some(&format!("Bearer {}", desk.options.key)) {
        return response(refusal(401, "Invalid credentials"));
    }
    let Ok(body) = to_bytes(body, usize::MAX).await else { return cut() };
    let mut path: Vec<String> = parts.uri.path().split('/').skip(1).map(str::to_owned).collect();
    let side = path.remove(0);
    let query = query(parts.uri.query().unwrap_or_default());
    let asked = Asked { method: parts.method, path, query, body: body.to_vec() };
    let Some(operation) = Operation::of(&side, &asked.method, &asked.path) else {
        return response(refusal(404, "Cannot do that here"));
    };
    *lock(&desk.calls).entry(operation).or_default() += 1;
    let mishap = lock(&desk.dice).throw(operation);
    match mishap {
        None => response(perform(&desk, operation, asked).await),
        Some(Mishap::Busy { header, secs }) => {
            let mut answer = response(refusal(429, "Rate limit exceeded"));
            let name = http::HeaderName::from_bytes(header.as_bytes()).expect("a test names a real header");
            answer.headers_mut().insert(name, secs.into());
            answer
        }
        Some(Mishap::Refused { status, message }) => response(refusal(status, &message)),
        Some(Mishap::Broken) => response(refusal(500, "Internal server error")),
        Some(Mishap::BrokenAfterwards) => {
            perform(&desk, operation, asked).await;
            response(refusal(500, "Internal server error"))
        }
        Some(Mishap::Unheard) => cut(),
        Some(Mishap::Lost) => {
            perform(&desk, operation, asked).await;
            cut()
        }
        Some(Mishap::Slow(delay)) => {
            // Whoever asks may hang up meanwhile, and it happens all the same.
            let work = tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                perform(&desk, operation, asked).await
            });
            work.await.map_or_else(|_| cut(), response)
        }
    }
}

async fn perform(desk: &Desk, operation: Operation, asked: Asked) -> Said {
    let id = asked.path.get(1).map(String::as_str).unwrap_or_default();
    match operation {
        Operation::Create => desk.sandboxes.create(&desk.options, &desk.toolbox_url, asked.json()),
        Operation::List => desk.sandboxes.list(&desk.options, &desk.toolbox_url, &asked.query),
        Operation::Find => desk.sandboxes.find(&desk.toolbox_url, id),
        Operation::Delete => desk.sandboxes.delete(&desk.options, &desk.toolbox_url, id).await,
        Operation::Resize => desk.sandboxes.resize(&desk.toolbox_url, id, &asked.json()),
        Operation::Preview => desk.sandboxes.preview(id, &asked.path[3]),
        Operation::Execute
        | Operation::Upload
        | Operation::OpenSession
        | Operation::LookAtSession
        | Operation::RunInSession
        | Operation::CloseSession => match desk.sandboxes.started(&asked.path[0]) {
            Ok(machine) => toolbox::perform(&machine, operation, &asked).await,
            Err(said) => said,
        },
    }
}

fn response((status, body): Said) -> Response {
    // Not always labelled as JSON, as with theirs.
    let answer = Response::builder().status(StatusCode::from_u16(status).expect("a real status"));
    answer.body(Body::from(body.to_string())).expect("its parts are right")
}

/// An answer that breaks off before anything is said.
fn cut() -> Response {
    let cut = futures_util::stream::once(async { Err::<String, _>(io::Error::other("cut")) });
    Response::new(Body::from_stream(cut))
}

fn query(text: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://query/?{text}")).expect("a query that came over HTTP");
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
