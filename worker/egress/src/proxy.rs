//! The proxy through which an agent reaches the network: HTTP (`CONNECT` and absolute URLs) and SOCKS5 on one listener.
//!
//! The proxy resolves names itself, checks all addresses, and connects to a checked address. So a name whose addresses
//! change between check and connection (DNS rebinding) reaches nothing else. Every request of a client that follows
//! redirects is a new request here, and is checked.
//!
//! Deliberately absent: authentication (who can connect to the listener may use it), caches, and interception of TLS.

mod denials;
mod http;
mod socks;
mod stream;

pub use denials::Denied;
pub(crate) use http::strip_hop_by_hop;

use crate::listen::{self, Listen};
use crate::policy::{Denial, NetworkPolicy, Target};
use denials::Denials;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use stream::{Idle, Prefixed};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Resolves a name to its addresses.
pub type Resolver = Arc<dyn Fn(String) -> Resolving + Send + Sync>;
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Limits of a proxy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of clients at the same time. Further ones wait.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head: Duration,
    /// How long a connection may be without traffic.
    pub idle: Duration,
    /// How long the connection to one address may take.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            head: Duration::from_secs(30),
            idle: Duration::from_secs(15 * 60),
            connect: Duration::from_secs(15),
        }
    }
}

/// A proxy with one policy. Clones share their limits.
#[derive(Clone)]
pub struct Proxy {
    policy: Arc<NetworkPolicy>,
    resolver: Resolver,
    limits: Limits,
    /// Addresses of the worker that every policy allows.
    own: Arc<[SocketAddr]>,
    denials: Arc<Denials>,
    connections: Arc<Semaphore>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Returns the proxy, and the denied connections: for each host at most one report a minute.
    pub fn new(policy: NetworkPolicy, limits: Limits) -> (Self, mpsc::Receiver<Denied>) {
        let (denials, reports) = Denials::new();
        let proxy = Self {
            policy: Arc::new(policy),
            resolver: Arc::new(|name| Box::pin(resolve(name))),
            limits,
            own: Arc::new([]),
            denials: Arc::new(denials),
            connections: Arc::new(Semaphore::new(limits.connections)),
        };
        (proxy, reports)
    }

    /// Allows addresses of the worker's own servers, such as the endpoints: clients that ignore `NO_PROXY` request them
    /// from the proxy.
    #[must_use]
    pub fn with_own(mut self, own: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.own = own.into_iter().collect();
        self
    }

    /// Replaces the system's resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// Serves a listener. Never returns; all connections end when the future is dropped.
    pub async fn serve(self, listener: impl Listen) {
        let mut clients = JoinSet::new();
        loop {
            let permit = self.connections.clone().acquire_owned().await.expect("the semaphore is not closed");
            let stream = listen::next(&listener).await;
            let proxy = self.clone();
            clients.spawn(async move {
                // A client may disconnect at any time.
                if let Err(error) = proxy.serve_client(stream).await {
                    tracing::debug!(%error, "A proxied connection ended: {error}");
                }
                drop(permit);
            });
            while clients.try_join_next().is_some() {}
        }
    }

    /// SOCKS5 requests begin with its version, HTTP requests with a letter.
    async fn serve_client<S>(&self, stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut stream = Idle::new(stream, self.limits.idle);
        let mut first = [0];
        timeout(self.limits.head, stream.read_exact(&mut first)).await??;
        match first[0] {
            socks::VERSION => socks::serve(self, stream).await,
            other => http::serve(self, Prefixed::new(other, stream)).await,
        }
    }

    /// Connects to a target, if the policy allows it.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Failure> {
        let addresses = match self.addresses(target).await {
            Err(Failure::Denied(denial)) => {
                self.denials.report(target, denial);
                return Err(Failure::Denied(denial));
            }
            other => other?,
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match timeout(self.limits.connect, TcpStream::connect((address, target.port()))).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(elapsed) => last = elapsed.into(),
            }
        }
        Err(Failure::Unreachable(last))
    }

    /// **Invariant:** all returned addresses are checked, and no name is resolved again.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, Failure> {
        if let Some(address) = target.address()
            && self.own.contains(&SocketAddr::new(address, target.port()))
        {
            return Ok(vec![address]);
        }
        let allowed = self.policy.check(target).map_err(Failure::Denied)?;
        let addresses = match (target.address(), target.name()) {
            (Some(address), _) => vec![address],
            (None, name) => {
                let name = name.unwrap_or_default().to_owned();
                (self.resolver)(name).await.map_err(Failure::NotResolved)?
            }
        };
        allowed.check(addresses.iter().copied()).map_err(Failure::Denied)?;
        Ok(addresses)
    }
}

/// Why a proxied connection failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Denied(Denial),
    #[error("its name cannot be resolved: {0}")]
    NotResolved(#[source] io::Error),
    #[error("it cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
}

async fn resolve(name: String) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((name, 0)).await?;
    Ok(found.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests;
