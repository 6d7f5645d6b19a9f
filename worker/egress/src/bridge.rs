//! Connects a network namespace, which has a loopback and nothing else, with Unix sockets of the worker.
//!
//! Inside, the bridge listens on ports of the loopback, and forwards each connection to a Unix socket: of the proxy, or
//! of the endpoints. In the other direction it listens on a Unix socket: the worker writes a port, and is connected to
//! that port of the namespace's loopback ([`connect`]). Previews need that.
//!
//! The directory of the sockets must not be writable for the agent, which could replace one with a link to another
//! socket of the machine.

use crate::listen::{self, Listen};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long the request for a port, and the response, may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections of one listener at the same time. Further ones wait.
const MAX_CONNECTIONS: usize = 256;

/// Longest request or response.
const MAX_LINE_BYTES: u64 = 512;

/// Sent when a port is connected.
const CONNECTED: &str = "connected\n";

/// What a bridge connects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Ports of the loopback, and the socket to which each is forwarded.
    pub ports: Vec<(u16, PathBuf)>,
    /// The socket for connections to ports of the loopback.
    pub inbound: Option<PathBuf>,
}

/// Argument of [`Bridge::inbound`], in place of a port.
const INBOUND: &str = "inbound";

impl Bridge {
    /// Arguments of a command that runs the bridge: `8118=/run/proxy inbound=/run/inbound`.
    pub fn arguments(&self) -> Vec<String> {
        let ports = self.ports.iter().map(|(port, socket)| format!("{port}={}", socket.display()));
        ports.chain(self.inbound.iter().map(|socket| format!("{INBOUND}={}", socket.display()))).collect()
    }

    /// Parses the arguments. `None` if one is invalid.
    pub fn parse(arguments: &[String]) -> Option<Self> {
        let mut bridge = Self::default();
        for argument in arguments {
            let (port, socket) = argument.split_once('=')?;
            match port {
                INBOUND => bridge.inbound = Some(socket.into()),
                port => bridge.ports.push((port.parse().ok()?, socket.into())),
            }
        }
        Some(bridge)
    }
}

/// Runs a bridge. Calls `ready` when all listeners accept connections, and returns only if one cannot be opened. All
/// connections end when the future is dropped.
///
/// # Errors
/// When a port or socket cannot be listened on.
pub async fn run(bridge: Bridge, ready: impl FnOnce()) -> io::Result<Infallible> {
    let mut servers = JoinSet::new();
    let own: Arc<[u16]> = bridge.ports.iter().map(|(port, _)| *port).collect();
    for (port, socket) in bridge.ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        servers.spawn(serve(listener, move |client| forward(client, socket.clone())));
    }
    if let Some(socket) = bridge.inbound {
        let listener = UnixListener::bind(socket)?;
        servers.spawn(serve(listener, move |client| accept_port(client, own.clone())));
    }
    ready();
    while servers.join_next().await.is_some() {}
    std::future::pending().await
}

/// Connects to a port of the namespace's loopback, through the socket [`Bridge::inbound`].
///
/// # Errors
/// When the bridge does not run, or the port does not accept the connection.
pub async fn connect(inbound: &Path, port: u16) -> io::Result<UnixStream> {
    let request = async {
        let mut stream = UnixStream::connect(inbound).await?;
        stream.write_all(format!("{port}\n").as_bytes()).await?;
        // Byte by byte: what follows the line belongs to the connection.
        let mut response = Vec::new();
        while !response.ends_with(b"\n") && response.len() < CONNECTED.len() {
            response.push(stream.read_u8().await?);
        }
        Ok::<_, io::Error>((stream, response))
    };
    let (stream, response) = timeout(REQUEST_TIMEOUT, request).await??;
    if response == CONNECTED.as_bytes() {
        return Ok(stream);
    }
    Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("port {port} accepts no connections")))
}

/// Forwards the connections of a listener to a port of a host. Never returns.
pub async fn forward_to(listener: impl Listen + Sync, host: String, port: u16) {
    serve(listener, move |client| forward_to_host(client, host.clone(), port)).await;
}

/// Forwards the connections of a listener to a port of the namespace's loopback. Never returns.
pub async fn forward_into(listener: impl Listen + Sync, inbound: PathBuf, port: u16) {
    serve(listener, move |client| forward_to_port(client, inbound.clone(), port)).await;
}

async fn serve<L, Served>(listener: L, serve: impl Fn(L::Stream) -> Served + Send + 'static)
where
    L: Listen + Sync,
    Served: Future<Output = io::Result<()>> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = permits.clone().acquire_owned().await.expect("the semaphore is not closed");
        let connection = serve(listen::next(&listener).await);
        connections.spawn(async move {
            // Either end may disconnect at any time.
            let _ended = connection.await;
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(mut client: TcpStream, socket: PathBuf) -> io::Result<()> {
    let mut server = UnixStream::connect(socket).await?;
    relay(&mut client, &mut server).await
}

async fn forward_to_host(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    host: String,
    port: u16,
) -> io::Result<()> {
    let mut server = timeout(REQUEST_TIMEOUT, TcpStream::connect((host.as_str(), port))).await??;
    relay(&mut client, &mut server).await
}

async fn forward_to_port(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    inbound: PathBuf,
    port: u16,
) -> io::Result<()> {
    let mut server = connect(&inbound, port).await?;
    relay(&mut client, &mut server).await
}

/// `own` are the ports of the bridge: through them, a client outside would use the servers of the worker.
async fn accept_port(client: UnixStream, own: Arc<[u16]>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    timeout(REQUEST_TIMEOUT, (&mut client).take(MAX_LINE_BYTES).read_line(&mut line)).await??;
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not a port");
    let port: u16 = line.trim_end().parse().map_err(|_| invalid())?;
    if own.contains(&port) {
        return Err(invalid());
    }
    let connected = match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(server) => Ok(server),
        // Some servers listen on IPv6 only.
        Err(_) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await,
    };
    let mut server = connected?;
    client.write_all(CONNECTED.as_bytes()).await?;
    relay(&mut client, &mut server).await
}

async fn relay<A, B>(a: &mut A, b: &mut B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional(a, b).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;
    use tokio::sync::oneshot;

    /// A bridge that runs until it is dropped.
    async fn start(bridge: Bridge) -> JoinSet<io::Result<Infallible>> {
        let (ready, is_ready) = oneshot::channel();
        let mut running = JoinSet::new();
        running.spawn(run(bridge, || ready.send(()).unwrap()));
        is_ready.await.expect("the bridge is ready");
        running
    }

    async fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
    }

    /// Sends a text and reads until the other end closes.
    async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> String {
        let (mut reader, mut writer) = tokio::io::split(stream);
        writer.write_all(text.as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
        let mut answer = String::new();
        reader.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Answers each connection with what it received, in upper case.
    async fn echo_uppercase(listener: impl Listen + Sync) {
        serve(listener, |mut stream| async move {
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            stream.write_all(text.to_uppercase().as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
    }

    #[tokio::test]
    async fn ports_are_forwarded_to_their_sockets() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("proxy");
        let _server = tokio::spawn(echo_uppercase(UnixListener::bind(&socket).unwrap()));
        let port = free_port().await;
        let _bridge = start(Bridge { ports: vec![(port, socket)], inbound: None }).await;
        for text in ["first", "second"] {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            assert_eq!(exchange(stream, text).await, text.to_uppercase());
        }
    }

    #[tokio::test]
    async fn worker_connects_to_ports_of_the_namespace() {
        let folder = TempDir::new().unwrap();
        let inbound = folder.path().join("inbound");
        let _bridge = start(Bridge { ports: Vec::new(), inbound: Some(inbound.clone()) }).await;
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = tokio::spawn(echo_uppercase(listener));
            let stream = connect(&inbound, port).await.unwrap();
            assert_eq!(exchange(stream, "page").await, "PAGE");
            server.abort();
        }
        let closed = free_port().await;
        assert!(connect(&inbound, closed).await.is_err(), "nothing listens there");
    }

    #[tokio::test]
    async fn invalid_request_for_a_port_is_rejected() {
        let folder = TempDir::new().unwrap();
        let inbound = folder.path().join("inbound");
        let own = free_port().await;
        let ports = vec![(own, folder.path().join("proxy"))];
        let _bridge = start(Bridge { ports, inbound: Some(inbound.clone()) }).await;
        let long = "1".repeat(100_000);
        let own = format!("{own}\n");
        for request in ["host:80\n", "70000\n", "-1\n", "\n", "", &long, &own] {
            let mut stream = UnixStream::connect(&inbound).await.unwrap();
            // The bridge may close while it is being written to.
            let _ = stream.write_all(request.as_bytes()).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert_eq!(answer, b"", "{request:.20}");
        }
    }

    #[tokio::test]
    async fn occupied_port_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let bridge = Bridge { ports: vec![(port, "/nowhere".into())], inbound: None };
        let started = run(bridge, || panic!("the bridge is not ready")).await;
        assert_eq!(started.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn arguments_are_parsed_back() {
        let bridge = Bridge {
            ports: vec![(8118, "/run/a=b".into()), (8119, "/c".into())],
            inbound: Some("/d".into()),
        };
        assert_eq!(Bridge::parse(&bridge.arguments()), Some(bridge));
        for invalid in ["8118", "port=/a", "70000=/a"] {
            assert_eq!(Bridge::parse(&[invalid.to_owned()]), None, "{invalid}");
        }
    }
}
