//! Servers on the agent's loopback that stand for a service and hold its key, such as a model API.
//!
//! A client presents a key that is worthless elsewhere. The endpoint replaces it with the real one and forwards the
//! request to the service. Bodies are streamed in both directions. A [`Handler`] responds itself instead.
//!
//! **Invariant:** the real key goes to the configured service only, below its base path, and is in no response: neither
//! in those of the endpoint, nor in those of a service that repeats it.
//!
//! Deliberately absent: TLS to the client, which is on the same machine, and which addresses are allowed: the operator
//! configures the service, so it may be on a private network.

mod body;
mod forward;
mod handler;
mod key;
mod paths;
mod usage;

pub use handler::{Body, BodyError, Handler, Responding, full, next_chunk, streamed};
pub use key::{Form, Key};
pub use usage::{Meter, Refusal, Tokens};

use crate::listen::{self, Listen};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use url::Url;

/// Connections at the same time. Further ones wait.
const MAX_CONNECTIONS: usize = 256;

/// How long a client may take to send the head of a request, and how long a connection may wait for the next.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the connection to a service may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a service may send nothing. A model can think for minutes before it answers.
const READ_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// One service and its keys.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// First segments of the path: `/anthropic`.
    pub prefix: String,
    /// Requests below the prefix are forwarded to paths below this URL.
    pub upstream: Url,
    /// Without any, requests are forwarded as they are.
    pub keys: Vec<Key>,
    pub meter: Meter,
}

/// Responds to the requests below a path, instead of a service.
#[derive(Debug, Clone)]
pub struct Handled {
    /// First segments of the path: `/git`.
    pub prefix: String,
    /// What clients must present. The handler gets no header with a key.
    pub key: Key,
    pub handler: Arc<dyn Handler>,
}

/// A server of several endpoints.
#[derive(Debug, Clone)]
pub struct Endpoints {
    endpoints: Arc<[Endpoint]>,
    handled: Arc<[Handled]>,
    http: reqwest::Client,
}

impl Endpoints {
    /// # Errors
    /// When the root certificates of this machine cannot be read.
    pub fn new(endpoints: Vec<Endpoint>) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build()?;
        Ok(Self { endpoints: endpoints.into(), handled: Arc::new([]), http })
    }

    /// With paths that belong to no service.
    #[must_use]
    pub fn with_handled(mut self, handled: impl IntoIterator<Item = Handled>) -> Self {
        self.handled = handled.into_iter().collect();
        self
    }

    /// Serves a listener. Never returns; all connections end when the future is dropped.
    pub async fn serve(self, listener: impl Listen) {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut clients = JoinSet::new();
        loop {
            let permit = connections.clone().acquire_owned().await.expect("the semaphore is not closed");
            let stream = listen::next(&listener).await;
            let server = self.clone();
            clients.spawn(async move {
                let respond =
                    |request| async { Ok::<_, Infallible>(forward::respond(&server, request).await) };
                let served = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service_fn(respond))
                    .await;
                // A client may disconnect at any time.
                if let Err(error) = served {
                    tracing::debug!(%error, "A connection to an endpoint ended: {error}");
                }
                drop(permit);
            });
            while clients.try_join_next().is_some() {}
        }
    }
}

#[cfg(test)]
mod tests;
