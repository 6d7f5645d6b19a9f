//! A network that drops, delays, doubles and reorders requests and responses.

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

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// Nothing.
    None,
    /// It does not arrive.
    DropRequest,
    /// It arrives; its answer does not.
    DropResponse,
    /// It arrives late.
    DelayRequest,
    /// Its answer arrives late, most often too late.
    DelayResponse,
    /// It arrives twice.
    Double,
    /// It arrives, and again later: behind requests that were sent after it.
    ReplayLater,
}

/// A network in front of a plane. Dropping it ends it.
#[derive(Debug)]
pub struct Chaos {
    /// Where it starts: `http://127.0.0.1:40000`.
    pub url: String,
    happened: Arc<Mutex<BTreeMap<Mishap, usize>>>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Network {
    upstream: String,
    http: reqwest::Client,
    random: Arc<Mutex<StdRng>>,
    happened: Arc<Mutex<BTreeMap<Mishap, usize>>>,
}

impl Chaos {
    /// A network to `upstream`. The same seed makes the same choices.
    pub async fn start(upstream: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
        let happened: Arc<Mutex<BTreeMap<Mishap, usize>>> = Arc::default();
        let network = Network {
            upstream: format!("http://{upstream}"),
            http: reqwest::Client::builder().timeout(Duration::from_secs(5)).build().expect("a client"),
            random: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            happened: happened.clone(),
        };
        let router = Router::new().fallback(pass).with_state(network);
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("the network serves until it is dropped");
        });
        Self { url, happened, task }
    }

    /// How often each mishap happened.
    pub fn happened(&self) -> BTreeMap<Mishap, usize> {
        self.happened.lock().expect("no code panics while it holds the counts").clone()
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Network {
    fn choose(&self) -> (Mishap, Duration) {
        let mut random = self.random.lock().expect("no code panics while it holds the dice");
        let mishap = match random.random_range(0..100) {
            0..8 => Mishap::DropRequest,
            8..16 => Mishap::DropResponse,
            16..24 => Mishap::DelayRequest,
            24..30 => Mishap::DelayResponse,
            30..40 => Mishap::Double,
            40..52 => Mishap::ReplayLater,
            _ => Mishap::None,
        };
        *self
            .happened
            .lock()
            .expect("no code panics while it holds the counts")
            .entry(mishap)
            .or_default() += 1;
        (mishap, Duration::from_millis(random.random_range(1..250)))
    }

    async fn forward(&self, request: &Letter) -> Option<Response> {
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
struct Letter {
    method: http::Method,
    target: String,
    headers: http::HeaderMap,
    body: Bytes,
}

async fn pass(State(network): State<Network>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let mut headers = head.headers;
    headers.remove(http::header::HOST);
    headers.remove(http::header::CONTENT_LENGTH);
    let Ok(body) = to_bytes(body, usize::MAX).await else { return broken() };
    let letter = Letter { method: head.method, target, headers, body };
    let (mishap, delay) = network.choose();
    let answer = match mishap {
        Mishap::DropRequest => None,
        Mishap::None => network.forward(&letter).await,
        Mishap::DropResponse => {
            network.forward(&letter).await;
            None
        }
        Mishap::DelayRequest => {
            tokio::time::sleep(delay).await;
            network.forward(&letter).await
        }
        Mishap::DelayResponse => {
            let answer = network.forward(&letter).await;
            tokio::time::sleep(delay * 4).await;
            answer
        }
        Mishap::Double => {
            let (first, second) = tokio::join!(network.forward(&letter), network.forward(&letter));
            second.or(first)
        }
        Mishap::ReplayLater => {
            let answer = network.forward(&letter).await;
            tokio::spawn(async move {
                tokio::time::sleep(delay * 2).await;
                network.forward(&letter).await;
            });
            answer
        }
    };
    answer.unwrap_or_else(broken)
}

/// An answer that ends before it is complete: to the client the connection broke.
fn broken() -> Response {
    let cut = futures_util::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
    Response::new(Body::from_stream(cut))
}
