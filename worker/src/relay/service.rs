//! Serves the relay over git's smart HTTP protocol (<https://git-scm.com/docs/http-protocol>), with the programs of git.
//!
//! The configuration of each process decides what the client may do: it sees and changes nothing below `refs/sunaba`, and a
//! push changes the branch of the task only. Neither depends on files that a client can write.

use super::commands::{self, Commands, Parsed};
use super::git::RelayGit;
use super::{Relay, commands::refusal};
use crate::event::Event;
use crate::workspace::process;
use bytes::Bytes;
use contract::payloads::WorkspacePushRejected;
use egress::endpoint::{Body, BodyError, Handler, Responding, full, next_chunk, streamed};
use flate2::write::GzDecoder;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Requests that are executed at the same time. Further ones wait.
const MAX_REQUESTS: usize = 8;
/// How long a request waits for its turn.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Maximum size of a request to fetch: the commits that the client has.
const MAX_FETCH_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of a push.
const MAX_PUSH_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Maximum size of the list of references.
const MAX_ADVERTISEMENT_BYTES: usize = 64 * 1024 * 1024;
const MAX_STDERR_BYTES: usize = 8 * 1024;
/// A compressed piece of a request can become a thousand times as large.
const DECODED_AT_ONCE: usize = 4 * 1024;

/// Problems of old commits that a push may contain: git itself has written them.
const TOLERATED: [&str; 3] = ["zeroPaddedFilemode", "missingSpaceBeforeDate", "badTimezone"];

/// The HTTP server of a relay.
#[derive(Debug)]
pub struct Service {
    relay: Relay,
    prefix: &'static str,
    permits: Arc<Semaphore>,
    running: Mutex<JoinSet<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    UploadPack,
    ReceivePack,
}

impl Program {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "upload-pack",
            Self::ReceivePack => "receive-pack",
        }
    }
}

impl Handler for Service {
    fn respond(&self, request: Request<Body>) -> Responding<'_> {
        Box::pin(async { self.try_respond(request).await.unwrap_or_else(|refused| refused) })
    }
}

impl Service {
    /// Serves paths below `prefix`.
    pub fn new(relay: Relay, prefix: &'static str) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_REQUESTS));
        Self { relay, prefix, permits, running: Mutex::default() }
    }

    async fn try_respond(&self, request: Request<Body>) -> Result<Response<Body>, Response<Body>> {
        let path = request.uri().path().strip_prefix(self.prefix).unwrap_or_default();
        let query = request.uri().query().unwrap_or_default();
        let service = match (request.method(), path) {
            (&Method::GET, "/info/refs") => query.strip_prefix("service=").and_then(Program::parse),
            (&Method::POST, path) => path.strip_prefix('/').and_then(Program::parse),
            _ => None,
        };
        let Some(service) = service else {
            return Err(text(StatusCode::NOT_FOUND, "This is the repository of the task, for git.\n"));
        };
        let permit = timeout(QUEUE_TIMEOUT, self.permits.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(text(StatusCode::SERVICE_UNAVAILABLE, "Too many requests at the same time.\n"));
        };
        if request.method() == Method::GET {
            let _permit = permit;
            return self.advertise(service, &request).await;
        }
        self.execute(service, request, permit).await
    }

    /// The first request of a client: the list of references, or what the server supports.
    async fn advertise(
        &self,
        service: Program,
        request: &Request<Body>,
    ) -> Result<Response<Body>, Response<Body>> {
        if service == Program::UploadPack {
            self.relay.refresh().await;
        }
        let protocol = protocol(request.headers());
        let git = self.git(protocol.as_deref());
        let mut command = git.command(&[service.name(), "--stateless-rpc", "--advertise-refs", "."]);
        command.stdin(Stdio::null());
        let read = |output| process::read_all(output, MAX_ADVERTISEMENT_BYTES);
        let run = process::run(command, Vec::new(), REQUEST_TIMEOUT, read).await;
        let output = match run {
            Ok(finished) if finished.code == Some(0) => finished.output,
            Ok(finished) => return Err(failed(service, &finished.stderr)),
            Err(error) => return Err(failed(service, &error.to_string())),
        };
        let is_v2 = service == Program::UploadPack && protocol.as_deref().is_some_and(asks_for_v2);
        let mut body = Vec::new();
        if !is_v2 {
            let line = format!("# service=git-{}\n", service.name());
            body.extend_from_slice(format!("{:04x}{line}0000", line.len() + 4).as_bytes());
        }
        body.extend_from_slice(&output);
        Ok(response(service, "advertisement", full(body)))
    }

    /// Executes a fetch or a push. Both directions are streamed.
    async fn execute(
        &self,
        service: Program,
        request: Request<Body>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, Response<Body>> {
        let (head, body) = request.into_parts();
        let limit = if service == Program::UploadPack { MAX_FETCH_BYTES } else { MAX_PUSH_BYTES };
        let mut input = Input::new(body, &head.headers, limit);
        let (sender, chunks) = mpsc::channel(16);
        let mut git = self.git(protocol(&head.headers).as_deref());
        if service == Program::ReceivePack {
            let commands =
                input.commands().await.map_err(|why| text(StatusCode::BAD_REQUEST, &format!("{why}\n")))?;
            let messages = self.refused(&commands).map_err(|why| text(StatusCode::FORBIDDEN, &why))?;
            if !messages.is_empty() && commands.has_side_band {
                // The channel is empty.
                let _ = sender.try_send(Ok(messages.into()));
            }
            git = self.receiving(git);
        }
        let mut command = git.command(&[service.name(), "--stateless-rpc", "."]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn().map_err(|error| failed(service, &error.to_string()))?;
        let relay = self.relay.clone();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        // Its own task, so that a push is completed when the client does not wait for the result.
        running.spawn(async move {
            let _permit = permit;
            let ended = timeout(REQUEST_TIMEOUT, exchange(child, input, &sender)).await;
            let ended = ended.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            if let Err(error) = ended {
                tracing::warn!("git {} of the relay failed: {error}", service.name());
                // Git must not take what it has received for complete.
                let _ = sender.send(Err(error.into())).await;
            }
            if service == Program::ReceivePack {
                relay.branch_moved();
            }
        });
        Ok(response(service, "result", streamed(chunks)))
    }

    /// Reports what a client must not push, and returns messages for it. An error refuses the whole push.
    fn refused(&self, commands: &Commands) -> Result<Vec<u8>, String> {
        let branch = self.relay.branch();
        let mut messages = Vec::new();
        for command in &commands.commands {
            let Some(reason) = refusal(command, branch) else { continue };
            if self.relay.0.refusals.report(&command.name) {
                let (ref_name, reason) = (commands::shown(&command.name), reason.clone());
                (self.relay.0.emit)(Event::worker(WorkspacePushRejected { ref_name, reason }));
            }
            let below = format!("refs/heads/{branch}/");
            if command.name.starts_with(&below) {
                // Git would allow it while the branch of the task does not exist.
                return Err(format!("{}: {reason}\n", commands::shown(&command.name)));
            }
            messages.extend(commands::message(&command.name, &reason));
        }
        Ok(messages)
    }

    fn git(&self, protocol: Option<&str>) -> RelayGit {
        let git = self.relay.0.git.clone().setting("transfer.hideRefs", "refs/sunaba");
        let git = git.setting("uploadpack.allowFilter", "true");
        match protocol {
            Some(protocol) => git.variable("GIT_PROTOCOL", protocol),
            None => git,
        }
    }

    /// For the processes that receive a push: everything but the branch of the task is hidden, and so cannot be changed.
    fn receiving(&self, git: RelayGit) -> RelayGit {
        let git = git
            .setting("receive.hideRefs", "refs")
            .setting("receive.hideRefs", &format!("!refs/heads/{}", self.relay.branch()))
            .setting("receive.denyDeletes", "true")
            .setting("receive.denyNonFastForwards", "false")
            .setting("receive.denyCurrentBranch", "ignore")
            .setting("receive.fsckObjects", "true")
            .setting("receive.maxInputSize", &MAX_PUSH_BYTES.to_string())
            .setting("receive.shallowUpdate", "false")
            .setting("receive.updateServerInfo", "false");
        TOLERATED.iter().fold(git, |git, problem| git.setting(&format!("receive.fsck.{problem}"), "warn"))
    }
}

/// The body of a request, decompressed and limited.
struct Input {
    body: Body,
    decoder: Option<GzDecoder<Vec<u8>>>,
    /// Received, and not decompressed yet.
    received: Bytes,
    /// Read already, for the list of commands.
    begin: Vec<u8>,
    left: u64,
}

impl Input {
    fn new(body: Body, headers: &HeaderMap, limit: u64) -> Self {
        let encoding =
            headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_compressed = ["gzip", "x-gzip"].contains(&encoding);
        let decoder = is_compressed.then(|| GzDecoder::new(Vec::new()));
        Self { body, decoder, received: Bytes::new(), begin: Vec::new(), left: limit }
    }

    /// The list of commands of a push, which is also passed on.
    async fn commands(&mut self) -> Result<Commands, BodyError> {
        loop {
            match commands::parse(&self.begin) {
                Parsed::Complete(commands) => return Ok(commands),
                Parsed::Invalid => return Err("This is no push.".into()),
                Parsed::Partial if self.begin.len() > commands::MAX_BYTES => {
                    return Err("The push changes too many references.".into());
                }
                Parsed::Partial => {}
            }
            let part = self.next().await?.ok_or("The push is incomplete.")?;
            self.begin.extend_from_slice(&part);
        }
    }

    /// Passes the rest on.
    async fn feed(mut self, mut git: ChildStdin) -> io::Result<()> {
        git.write_all(&std::mem::take(&mut self.begin)).await?;
        while let Some(part) = self.next().await.map_err(io::Error::other)? {
            git.write_all(&part).await?;
        }
        git.shutdown().await
    }

    /// The next piece. `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.received.is_empty() {
            match timeout(SILENCE_TIMEOUT, next_chunk(&mut self.body)).await?.transpose()? {
                Some(chunk) => self.received = chunk,
                None => return self.end(),
            }
        }
        let part = match &mut self.decoder {
            None => std::mem::take(&mut self.received),
            Some(decoder) => {
                let compressed = self.received.split_to(self.received.len().min(DECODED_AT_ONCE));
                decoder.write_all(&compressed)?;
                std::mem::take(decoder.get_mut()).into()
            }
        };
        self.left = self.left.checked_sub(part.len() as u64).ok_or("The request is too large.")?;
        Ok(Some(part))
    }

    /// What the decoder still has.
    fn end(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
        decoder.try_finish()?;
        Ok(Some(std::mem::take(decoder.get_mut()).into()))
    }
}

/// Passes the request to git and its output to the client. Output for a client that is gone is discarded.
async fn exchange(
    mut child: Child,
    input: Input,
    client: &mpsc::Sender<Result<Bytes, BodyError>>,
) -> io::Result<()> {
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let (fed, sent, stderr) =
        tokio::join!(input.feed(stdin), send(stdout, client), process::read_tail(stderr, MAX_STDERR_BYTES));
    let status = child.wait().await?;
    sent?;
    match fed {
        // Git may respond without reading everything.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ if status.success() => Ok(()),
        _ => Err(io::Error::other(String::from_utf8_lossy(&stderr?).trim().to_owned())),
    }
}

async fn send(mut output: ChildStdout, client: &mpsc::Sender<Result<Bytes, BodyError>>) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(32 * 1024);
        if output.read_buf(&mut chunk).await? == 0 {
            return Ok(());
        }
        let _ = client.send(Ok(chunk.into())).await;
    }
}

/// The version of the protocol that a client asks for.
fn protocol(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("git-protocol")?.to_str().ok()?;
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "=:_-.".contains(character);
    (value.len() <= 100 && value.chars().all(is_plain)).then(|| value.to_owned())
}

fn asks_for_v2(protocol: &str) -> bool {
    protocol.split(':').any(|field| field == "version=2")
}

fn response(service: Program, kind: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let content_type = format!("application/x-git-{}-{kind}", service.name());
    let content_type = content_type.parse().expect("it has no control characters");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    response
}

fn failed(service: Program, why: &str) -> Response<Body> {
    tracing::warn!("git {} of the relay failed: {why}", service.name());
    text(StatusCode::INTERNAL_SERVER_ERROR, "The repository of the worker cannot be read.\n")
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full(text.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}
