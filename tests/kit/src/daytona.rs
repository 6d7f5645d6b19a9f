//! A fake Daytona: the part of its REST API that the plane uses, with sandboxes that are folders on this machine and that
//! really run commands.
//!
//! It has the delays of Daytona (a sandbox exists before it has started, and for a while after its deletion was
//! requested), rejects what Daytona rejects, and injects [`Faults`]. A sandbox's home is a folder on this machine, so an
//! absolute path that a command prints is valid for uploads. Deliberately absent: images, resources, networks, and all
//! properties of a sandbox that the plane does not read.

mod faults;
mod machine;
mod sandboxes;
mod toolbox;

pub use faults::{Fault, Faults, Operation};
pub use sandboxes::SandboxView;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use faults::Injector;
use http::{Method, StatusCode};
use sandboxes::Sandboxes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub struct Options {
    /// The accepted API key.
    pub key: String,
    /// Time from the creation of a sandbox until it has started.
    pub start_delay: Duration,
    /// Time for which a sandbox is still listed after its deletion was requested.
    pub delete_delay: Duration,
    /// Maximum number of sandboxes per page.
    pub page: usize,
    /// Existing snapshots.
    pub snapshots: Vec<String>,
    /// Images whose build fails.
    pub unpullable_images: Vec<String>,
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key: "dtn_key".to_owned(),
            start_delay: Duration::ZERO,
            delete_delay: Duration::ZERO,
            page: 100,
            snapshots: vec!["ai-agent-dev-light".to_owned()],
            unpullable_images: Vec::new(),
            faults: Faults::default(),
        }
    }
}

/// A running fake. When dropped, it stops and kills all processes of its sandboxes.
#[derive(Debug)]
pub struct Daytona {
    url: String,
    server: Arc<Server>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Server {
    options: Options,
    toolbox_url: String,
    injector: Mutex<Injector>,
    calls: Mutex<BTreeMap<Operation, usize>>,
    sandboxes: Sandboxes,
}

impl Daytona {
    /// Starts a fake on a free port of the loopback.
    pub async fn start(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let server = Server::new(&listener, options);
        let task = tokio::spawn(run(listener, server.clone()));
        Self { url: format!("{url}/api"), server, task }
    }

    /// `http://127.0.0.1:40000/api`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The accepted API key.
    pub fn key(&self) -> &str {
        &self.server.options.key
    }

    /// All sandboxes, including deleted ones, in the order of their creation.
    pub fn sandboxes(&self) -> Vec<SandboxView> {
        self.server.sandboxes.views()
    }

    /// Sandboxes that are not deleted.
    pub fn live_sandboxes(&self) -> Vec<SandboxView> {
        self.sandboxes().into_iter().filter(|sandbox| sandbox.state != "destroyed").collect()
    }

    /// Processes that run in a sandbox, even if it is deleted.
    pub fn processes(&self, name: &str) -> Vec<i32> {
        self.server.sandboxes.processes(name)
    }

    /// Completes the deletion of a sandbox, regardless of the delay.
    pub fn end(&self, name: &str) {
        self.server.sandboxes.end(name);
    }

    /// Number of requests by operation, successful or not.
    pub fn calls(&self) -> BTreeMap<Operation, usize> {
        lock(&self.server.calls).clone()
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.server.injector) = Injector::new(faults);
    }
}

impl Drop for Daytona {
    fn drop(&mut self) {
        self.task.abort();
        self.server.sandboxes.end_all();
    }
}

/// Serves a fake until the future is dropped.
pub async fn serve(listener: TcpListener, options: Options) {
    let server = Server::new(&listener, options);
    run(listener, server).await;
}

async fn run(listener: TcpListener, server: Arc<Server>) {
    let router = Router::new().fallback(answer).with_state(server);
    axum::serve(listener, router).await.expect("a listener keeps accepting");
}

impl Server {
    fn new(listener: &TcpListener, options: Options) -> Arc<Self> {
        let address = listener.local_addr().expect("a bound listener has an address");
        let injector = Mutex::new(Injector::new(options.faults.clone()));
        let toolbox_url = format!("http://{address}/toolbox");
        let (calls, sandboxes) = Default::default();
        Arc::new(Self { options, toolbox_url, injector, calls, sandboxes })
    }
}

/// A parsed request.
#[derive(Debug)]
struct ApiRequest {
    method: Method,
    /// Path segments after `api` or `toolbox`.
    path: Vec<String>,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl ApiRequest {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Status and JSON body.
type ApiResponse = (u16, Value);

/// An error in Daytona's format.
fn refusal(status: u16, message: &str) -> ApiResponse {
    (status, json!({"statusCode": status, "error": "Error", "message": message}))
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let sent = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    if sent != Some(&format!("Bearer {}", server.options.key)) {
        return response(refusal(401, "Invalid credentials"));
    }
    let Ok(body) = to_bytes(body, usize::MAX).await else { return cut() };
    let mut path: Vec<String> = parts.uri.path().split('/').skip(1).map(str::to_owned).collect();
    let side = path.remove(0);
    let query = query(parts.uri.query().unwrap_or_default());
    let request = ApiRequest { method: parts.method, path, query, body: body.to_vec() };
    let Some(operation) = Operation::of(&side, &request.method, &request.path) else {
        return response(refusal(404, "Cannot do that here"));
    };
    *lock(&server.calls).entry(operation).or_default() += 1;
    let fault = lock(&server.injector).next(operation);
    match fault {
        None => response(perform(&server, operation, request).await),
        Some(Fault::RateLimited { header, secs }) => {
            let mut answer = response(refusal(429, "Rate limit exceeded"));
            let name = http::HeaderName::from_bytes(header.as_bytes()).expect("a test names a real header");
            answer.headers_mut().insert(name, secs.into());
            answer
        }
        Some(Fault::Rejected { status, message }) => response(refusal(status, &message)),
        Some(Fault::Error) => response(refusal(500, "Internal server error")),
        Some(Fault::ErrorAfterExecution) => {
            perform(&server, operation, request).await;
            response(refusal(500, "Internal server error"))
        }
        Some(Fault::RequestLost) => cut(),
        Some(Fault::ResponseLost) => {
            perform(&server, operation, request).await;
            cut()
        }
        Some(Fault::Delayed(delay)) => {
            // The operation is executed even if the client disconnects.
            let work = tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                perform(&server, operation, request).await
            });
            work.await.map_or_else(|_| cut(), response)
        }
    }
}

async fn perform(server: &Server, operation: Operation, request: ApiRequest) -> ApiResponse {
    let id = request.path.get(1).map(String::as_str).unwrap_or_default();
    match operation {
        Operation::Create => server.sandboxes.create(&server.options, &server.toolbox_url, request.json()),
        Operation::List => server.sandboxes.list(&server.options, &server.toolbox_url, &request.query),
        Operation::Find => server.sandboxes.find(&server.toolbox_url, id),
        Operation::Delete => server.sandboxes.delete(&server.options, &server.toolbox_url, id).await,
        Operation::Resize => server.sandboxes.resize(&server.toolbox_url, id, &request.json()),
        Operation::Preview => server.sandboxes.preview(id, &request.path[3]),
        Operation::Execute
        | Operation::Upload
        | Operation::OpenSession
        | Operation::GetSession
        | Operation::RunInSession
        | Operation::CloseSession => match server.sandboxes.started(&request.path[0]) {
            Ok(machine) => toolbox::perform(&machine, operation, &request).await,
            Err(response) => response,
        },
    }
}

fn response((status, body): ApiResponse) -> Response {
    // Without a content type, because Daytona does not always send one.
    let answer = Response::builder().status(StatusCode::from_u16(status).expect("a real status"));
    answer.body(Body::from(body.to_string())).expect("its parts are right")
}

/// A connection that breaks before the response.
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
