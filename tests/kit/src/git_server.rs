//! A git server on the loopback: `git http-backend` behind a minimal HTTP server with a password.
//!
//! Clones and pushes use real git. Deliberately absent: keep-alive connections and TLS.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Serves the bare repositories of a folder until it is dropped.
#[derive(Debug)]
pub struct Server {
    port: u16,
    counts: Arc<Counts>,
    _task: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counts {
    refused: AtomicUsize,
    broken: AtomicUsize,
    pause_ms: AtomicU64,
    held: watch::Sender<bool>,
    /// The head of each request.
    received: Mutex<Vec<String>>,
}

impl Server {
    /// Requires this `user:password`, or none if it is empty.
    pub async fn start(folder: &Path, password: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let counts = Arc::new(Counts::default());
        let (folder, shared) = (folder.to_owned(), counts.clone());
        let expected = (!password.is_empty()).then(|| format!("Basic {}", STANDARD.encode(password)));
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a listener keeps accepting");
                let (folder, expected, counts) = (folder.clone(), expected.clone(), shared.clone());
                tokio::spawn(async move {
                    // A client may disconnect early.
                    let _ = answer(stream, folder, expected, &counts).await;
                });
            }
        });
        Self { port, counts, _task: task }
    }

    /// The URL of a repository in the folder: `http://127.0.0.1:40000/remote.git`.
    pub fn url(&self, repository: &str) -> String {
        format!("http://127.0.0.1:{}/{repository}", self.port)
    }

    /// The value of `GITHUB_HOST` for this server.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The heads of all requests so far: request line and headers.
    pub fn received(&self) -> Vec<String> {
        self.counts.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of requests without a valid password.
    pub fn refused(&self) -> usize {
        self.counts.refused.load(Ordering::SeqCst)
    }

    /// Closes the next `count` connections without an answer.
    pub fn break_next(&self, count: usize) {
        self.counts.broken.store(count, Ordering::SeqCst);
    }

    /// Delays every answer, so that a test can inspect the client.
    pub fn pause(&self, pause: Duration) {
        let milliseconds = u64::try_from(pause.as_millis()).expect("pauses in tests are short");
        self.counts.pause_ms.store(milliseconds, Ordering::SeqCst);
    }

    /// Answers no request until [`Server::release`].
    pub fn hold(&self) {
        self.counts.held.send_replace(true);
    }

    /// Answers requests again, including those that arrived in the meantime.
    pub fn release(&self) {
        self.counts.held.send_replace(false);
    }
}

async fn answer(
    stream: TcpStream,
    folder: PathBuf,
    expected: Option<String>,
    counts: &Counts,
) -> io::Result<()> {
    let decrement = |count: usize| count.checked_sub(1);
    if counts.broken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement).is_ok() {
        return Ok(());
    }
    tokio::time::sleep(Duration::from_millis(counts.pause_ms.load(Ordering::SeqCst))).await;
    // The sender lives as long as the server.
    drop(counts.held.subscribe().wait_for(|held| !held).await);
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let [method, target, _] = &words[..] else { return Ok(()) };
    let mut received = line.clone();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        received += &line;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    counts.received.lock().unwrap_or_else(PoisonError::into_inner).push(received);
    if expected.is_some() && headers.get("authorization") != expected.as_ref() {
        counts.refused.fetch_add(1, Ordering::SeqCst);
        let refusal = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"test\"\r\n\
                       Content-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(refusal.as_bytes()).await;
    }
    let body = body(&mut stream, &headers).await?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let request = BackendRequest {
        folder: &folder,
        method,
        path,
        query,
        content_type: &header("content-type"),
        content_encoding: &header("content-encoding"),
        git_protocol: &header("git-protocol"),
        body,
    };
    let BackendResponse { status, headers, body } = request.run().await?;
    stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n").as_bytes()).await?;
    for (name, value) in headers {
        stream.write_all(format!("{name}: {value}\r\n").as_bytes()).await?;
    }
    stream.write_all(b"\r\n").await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}

/// A request for `git http-backend`.
#[derive(Debug)]
pub(crate) struct BackendRequest<'a> {
    /// Contains the bare repositories.
    pub folder: &'a Path,
    pub method: &'a str,
    /// Below the folder: `/acme/shop.git/info/refs`.
    pub path: &'a str,
    pub query: &'a str,
    pub content_type: &'a str,
    pub content_encoding: &'a str,
    pub git_protocol: &'a str,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct BackendResponse {
    /// `200 OK`.
    pub status: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl BackendRequest<'_> {
    pub(crate) async fn run(self) -> io::Result<BackendResponse> {
        let mut backend = Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", self.folder)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", self.method)
            .env("PATH_INFO", self.path)
            .env("QUERY_STRING", self.query)
            .env("REMOTE_USER", "test")
            .env("CONTENT_TYPE", self.content_type)
            .env("CONTENT_LENGTH", self.body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", self.content_encoding)
            .env("GIT_PROTOCOL", self.git_protocol)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = backend.stdin.take().expect("it is a pipe");
        let body = self.body;
        let feed = async move {
            let _ = stdin.write_all(&body).await;
        };
        let ((), output) = tokio::join!(feed, backend.wait_with_output());
        BackendResponse::parse(&output?.stdout).ok_or_else(|| io::Error::other("not a CGI response"))
    }
}

impl BackendResponse {
    fn parse(output: &[u8]) -> Option<Self> {
        let separator = b"\r\n\r\n";
        let end = output.windows(separator.len()).position(|window| window == separator)?;
        let head = String::from_utf8_lossy(&output[..end]).into_owned();
        let (status, headers): (Vec<_>, Vec<_>) = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .partition(|(name, _)| name == "Status");
        let status = status.into_iter().next().map_or("200 OK".to_owned(), |(_, status)| status);
        Some(Self { status, headers, body: output[end + separator.len()..].to_vec() })
    }
}

async fn body(stream: &mut BufReader<TcpStream>, headers: &HashMap<String, String>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    body.resize(length, 0);
    stream.read_exact(&mut body).await?;
    Ok(body)
}
