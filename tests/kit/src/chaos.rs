//! An HTTP proxy that drops, delays, duplicates and reorders requests and responses.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the proxy does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    None,
    DropRequest,
    /// Forwards the request and drops the response.
    DropResponse,
    DelayRequest,
    /// Delays the response, usually beyond the client's timeout.
    DelayResponse,
    /// Forwards the request twice.
    Duplicate,
    /// Forwards the request, and again later, after requests that were sent after it.
    ReplayLater,
}

/// A proxy in front of a plane. It stops when dropped.
#[derive(Debug)]
pub struct ChaosProxy {
    /// `http://127.0.0.1:40000`.
    pub url: String,
    fault_counts: Arc<Mutex<BTreeMap<Fault, usize>>>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Proxy {
    upstream: String,
    http: reqwest::Client,
    random: Arc<Mutex<StdRng>>,
    fault_counts: Arc<Mutex<BTreeMap<Fault, usize>>>,
}

impl ChaosProxy {
    /// Starts a proxy to `upstream`. The same seed chooses the same faults.
    pub async fn start(upstream: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let fault_counts: Arc<Mutex<BTreeMap<Fault, usize>>> = Arc::default();
        let proxy = Proxy {
            upstream: format!("http://{upstream}"),
            http: reqwest::Client::builder().timeout(Duration::from_secs(5)).build().expect("a client"),
            random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            fault_counts: fault_counts.clone(),
        };
        let router = Router::new().fallback(pass).with_state(proxy);
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("a listener keeps accepting");
        });
        Self { url, fault_counts, task }
    }

    /// How often each fault was injected.
    pub fn fault_counts(&self) -> BTreeMap<Fault, usize> {
        self.fault_counts.lock().expect("no code panics while holding the lock").clone()
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    fn choose(&self) -> (Fault, Duration) {
        let mut random = self.random.lock().expect("no code panics while holding the lock");
        let fault = match random.random_range(0..100) {
            0..8 => Fault::DropRequest,
            8..16 => Fault::DropResponse,
            16..24 => Fault::DelayRequest,
            24..30 => Fault::DelayResponse,
            30..40 => Fault::Duplicate,
            40..52 => Fault::ReplayLater,
            _ => Fault::None,
        };
        *self
            .fault_counts
            .lock()
            .expect("no code panics while holding the lock")
            .entry(fault)
            .or_default() += 1;
        (fault, Duration::from_millis(random.random_range(1..250)))
    }

    async fn forward(&self, request: &BufferedRequest) -> Option<Response> {
        let url = format!("{}{}", self.upstream, request.target);
        let forwarded = self.http.request(request.method.clone(), url).headers(request.headers.clone());
        let answer = forwarded.body(request.body.clone()).send().await.ok()?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        *response.body_mut() = Body::from(answer.bytes().await.ok()?);
        Some(response)
    }
}

#[derive(Clone)]
struct BufferedRequest {
    method: http::Method,
    target: String,
    headers: http::HeaderMap,
    body: Bytes,
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut headers = parts.headers;
    headers.remove(http::header::HOST);
    headers.remove(http::header::CONTENT_LENGTH);
    let Ok(body) = to_bytes(body, usize::MAX).await else { return broken() };
    let request = BufferedRequest { method: parts.method, target, headers, body };
    let (fault, delay) = proxy.choose();
    let answer = match fault {
        Fault::DropRequest => None,
        Fault::None => proxy.forward(&request).await,
        Fault::DropResponse => {
            proxy.forward(&request).await;
            None
        }
        Fault::DelayRequest => {
            tokio::time::sleep(delay).await;
            proxy.forward(&request).await
        }
        Fault::DelayResponse => {
            let answer = proxy.forward(&request).await;
            tokio::time::sleep(delay * 4).await;
            answer
        }
        Fault::Duplicate => {
            let (first, second) = tokio::join!(proxy.forward(&request), proxy.forward(&request));
            second.or(first)
        }
        Fault::ReplayLater => {
            let answer = proxy.forward(&request).await;
            tokio::spawn(async move {
                tokio::time::sleep(delay * 2).await;
                proxy.forward(&request).await;
            });
            answer
        }
    };
    answer.unwrap_or_else(broken)
}

/// An incomplete response: the client sees a broken connection.
pub fn broken() -> Response {
    let cut = futures_util::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
    Response::new(Body::from_stream(cut))
}
