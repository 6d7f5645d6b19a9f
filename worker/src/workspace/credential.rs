//! Git credentials, served from the worker's memory.
//!
//! The token is in no URL, argument, file or environment variable of the agent. Git runs its credential helper,
//! `sunaba-worker credential`, which requests the token from the worker over a Unix socket in a private directory. The
//! worker answers only its own user, and only for the host of the token.
//!
//! This does not isolate the agent from the token: any process of the same user can send the same request as git. It
//! keeps the token out of the places where secrets leak: logs, process lists, configuration files and disk images. `gh`
//! cannot use it, because it reads tokens only from its own configuration or the environment.

use crate::secret::Secret;
use crate::tasks::joined;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// Path of the Unix socket.
pub const SOCKET_VARIABLE: &str = "SUNABA_CREDENTIALS";

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_REQUEST_BYTES: u64 = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub protocol: String,
    /// With the port, unless it is the default one.
    pub host: String,
    pub username: String,
    pub token: Secret,
}

/// Serves credential requests until it is dropped.
#[derive(Debug)]
pub struct CredentialServer {
    socket: PathBuf,
    task: AbortHandle,
    /// To be watched: [`CredentialServer::take_task`].
    watched: Option<JoinHandle<()>>,
}

impl CredentialServer {
    /// The task that serves requests, for an owner that notices its panic. `None` if it was taken before.
    pub fn take_task(&mut self) -> Option<JoinHandle<()>> {
        self.watched.take()
    }

    /// Environment variables for git and the agent. They replace other credential helpers for this host only.
    pub fn variables(&self, program: &[String], credential: &Credential) -> Vec<(String, String)> {
        let key = format!("credential.{}://{}.helper", credential.protocol, credential.host);
        let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
        let program = program.iter().map(quoted).collect::<Vec<_>>().join(" ");
        let pairs = [
            (SOCKET_VARIABLE, self.socket.to_string_lossy().into_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ("GIT_CONFIG_COUNT", "2".to_owned()),
            ("GIT_CONFIG_KEY_0", key.clone()),
            ("GIT_CONFIG_VALUE_0", String::new()),
            ("GIT_CONFIG_KEY_1", key),
            ("GIT_CONFIG_VALUE_1", format!("!{program} credential")),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

impl Drop for CredentialServer {
    fn drop(&mut self) {
        self.task.abort();
        // It may have been deleted with its directory.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Serves requests on this socket. Its directory is made private to the user.
pub fn serve(socket: &Path, credential: Credential) -> io::Result<CredentialServer> {
    if let Some(dir) = socket.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    let task = tokio::spawn(accept(listener, credential));
    Ok(CredentialServer { socket: socket.to_owned(), task: task.abort_handle(), watched: Some(task) })
}

/// The credential helper: forwards git's request and prints the response. `store` and `erase` are ignored.
pub fn request(
    socket: &Path,
    operation: &str,
    mut input: impl Read,
    mut output: impl Write,
) -> io::Result<()> {
    if operation != "get" {
        return Ok(());
    }
    let mut request = Vec::new();
    input.by_ref().take(MAX_REQUEST_BYTES).read_to_end(&mut request)?;
    let mut stream = Blocking::connect(socket)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    stream.write_all(&request)?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut output)?;
    output.flush()
}

async fn accept(listener: UnixListener, credential: Credential) {
    let mut requests = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let credential = credential.clone();
                requests.spawn(async move {
                    match tokio::time::timeout(REQUEST_TIMEOUT, respond(stream, &credential)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::warn!(%error, "Cannot answer a credential request: {error}");
                        }
                        Err(_) => {
                            tracing::warn!("A credential request timed out");
                        }
                    }
                });
            }
            Err(error) => {
                // Transient, for example too many open files.
                tracing::warn!(%error, "Cannot accept a credential request: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while let Some(answered) = requests.try_join_next() {
            joined(answered);
        }
    }
}

async fn respond(mut stream: UnixStream, credential: &Credential) -> io::Result<()> {
    if stream.peer_cred()?.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "request from another user"));
    }
    let mut request = String::new();
    (&mut stream).take(MAX_REQUEST_BYTES).read_to_string(&mut request).await?;
    stream.write_all(response(&request, credential).as_bytes()).await?;
    stream.shutdown().await
}

/// Empty if the request is for another host, protocol or user.
fn response(request: &str, credential: &Credential) -> String {
    let field = |key: &str| request.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let matches = |key: &str, value: &str| field(key).is_some_and(|text| text.eq_ignore_ascii_case(value));
    let user = field("username").is_none_or(|name| name == credential.username);
    if matches("protocol", &credential.protocol) && matches("host", &credential.host) && user {
        format!("username={}\npassword={}\n", credential.username, credential.token.reveal())
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn credential() -> Credential {
        Credential {
            protocol: "https".to_owned(),
            host: "github.com".to_owned(),
            username: "x-access-token".to_owned(),
            token: Secret::new("planted-secret"),
        }
    }

    #[test]
    fn only_the_configured_host_receives_the_token() {
        for (request, allowed) in [
            ("protocol=https\nhost=github.com\n", true),
            ("protocol=https\nhost=GitHub.com\ncapability[]=authtype\n", true),
            ("protocol=https\nhost=github.com\nusername=x-access-token\n", true),
            ("protocol=https\nhost=github.com\nusername=other\n", false),
            ("protocol=http\nhost=github.com\n", false),
            ("protocol=https\nhost=github.com.evil.example\n", false),
            ("protocol=https\nhost=evil.example\npath=github.com\n", false),
            ("protocol=https\nhost=github.com:8443\n", false),
            ("protocol=https\nhosts=github.com\n", false),
            ("host=github.com\n", false),
            ("", false),
        ] {
            let expected = if allowed { "username=x-access-token\npassword=planted-secret\n" } else { "" };
            assert_eq!(response(request, &credential()), expected, "{request:?}");
        }
    }

    #[test]
    fn token_is_redacted_from_debug_output() {
        assert!(!format!("{:?}", credential()).contains("planted"));
        assert_eq!(credential().token.redact("https://planted-secret@x"), "https://[redacted]@x");
        assert_eq!(Secret::new("").redact("text"), "text");
    }

    async fn run_helper(dir: &TempDir, operation: &'static str, input: &'static str) -> String {
        let socket = dir.path().join("own/socket");
        let run = move || {
            let mut output = Vec::new();
            request(&socket, operation, input.as_bytes(), &mut output).map(|()| output)
        };
        String::from_utf8(tokio::task::spawn_blocking(run).await.unwrap().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn helper_prints_the_response_of_the_worker() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("own/socket");
        // A stale socket of a killed worker.
        std::fs::create_dir(dir.path().join("own")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let server = serve(&socket, credential()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir.path().join("own")), mode(&socket)), (0o700, 0o600));

        let request = "protocol=https\nhost=github.com\n\n";
        assert_eq!(
            run_helper(&dir, "get", request).await,
            "username=x-access-token\npassword=planted-secret\n"
        );
        assert_eq!(run_helper(&dir, "get", "protocol=https\nhost=gitlab.com\n\n").await, "");
        assert_eq!(run_helper(&dir, "store", request).await, "");
        drop(server);
        assert!(!socket.exists());
    }
}
