//! Credentials for git, from the worker's memory.
//!
//! The token is in no address, no argument, no file and no variable of the agent. Git asks its credential helper, which
//! is `sunaba-worker credential`; that asks the worker at a Unix socket in a folder of the worker's user only. The worker
//! answers its own user only, and only for the host that the token is for.
//!
//! What this is not: a wall between the agent and the token. Whoever runs as the same user may ask as git does, because
//! git has to be able to. It keeps the token out of where secrets leak from: logs, process lists, configuration, images
//! of the disk. `gh` cannot use it: it takes tokens from its own configuration or from the environment only.

use crate::secret::Secret;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};

/// The variable that says where to ask.
pub const SOCKET_VARIABLE: &str = "SUNABA_CREDENTIALS";

/// How long a question and its answer may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Longest question.
const QUESTION_BYTES: u64 = 16 * 1024;

/// What git is told when it asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// `https`.
    pub protocol: String,
    /// `github.com`, with the port if it is not the usual one.
    pub host: String,
    /// Who.
    pub username: String,
    /// And the secret.
    pub token: Secret,
}

/// Answers git until it is dropped.
#[derive(Debug)]
pub struct Serving {
    socket: PathBuf,
    task: AbortHandle,
}

impl Serving {
    /// What git and the agent need in their environment. Other helpers are not asked about this host, and keep all the
    /// others.
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

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
        // It may be gone with its folder.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Answers git at this socket. Its folder becomes the user's own.
pub fn serve(socket: &Path, credential: Credential) -> io::Result<Serving> {
    if let Some(folder) = socket.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    let task = tokio::spawn(accept(listener, credential)).abort_handle();
    Ok(Serving { socket: socket.to_owned(), task })
}

/// The helper: passes git's question on and prints the answer. Git wants to know only with `get`; whatever it wants to
/// have stored or forgotten is none of ours.
pub fn ask(socket: &Path, operation: &str, mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    if operation != "get" {
        return Ok(());
    }
    let mut question = Vec::new();
    input.by_ref().take(QUESTION_BYTES).read_to_end(&mut question)?;
    let mut stream = Blocking::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    stream.write_all(&question)?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut output)?;
    output.flush()
}

async fn accept(listener: UnixListener, credential: Credential) {
    let mut answers = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let credential = credential.clone();
                answers.spawn(async move {
                    match tokio::time::timeout(DEADLINE, answer(stream, &credential)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::warn!(%error, "Could not answer git: {error}"),
                        Err(_) => {
                            tracing::warn!("Git asked for a credential and did not finish its question");
                        }
                    }
                });
            }
            Err(error) => {
                // Too many open files, say: that passes.
                tracing::warn!(%error, "Could not take a question of git: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while answers.try_join_next().is_some() {}
    }
}

async fn answer(mut stream: UnixStream, credential: &Credential) -> io::Result<()> {
    if stream.peer_cred()?.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user asked"));
    }
    let mut question = String::new();
    (&mut stream).take(QUESTION_BYTES).read_to_string(&mut question).await?;
    stream.write_all(reply(&question, credential).as_bytes()).await?;
    stream.shutdown().await
}

/// What git is told. Nothing, if it asks for another place.
fn reply(question: &str, credential: &Credential) -> String {
    let asked = |key: &str| question.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let same = |key: &str, value: &str| asked(key).is_some_and(|asked| asked.eq_ignore_ascii_case(value));
    let user = asked("username").is_none_or(|asked| asked == credential.username);
    if same("protocol", &credential.protocol) && same("host", &credential.host) && user {
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
    fn only_the_configured_host_gets_the_token() {
        for (question, given) in [
            ("protocol=https\nhost=github.com\n", true),
            ("protocol=https\nhost=GitHub.com\ncapability[]=authtype\n", true),
            ("protocol=https\nhost=github.com\nusername=x-access-token\n", true),
            ("protocol=https\nhost=github.com\nusername=somebody\n", false),
            ("protocol=http\nhost=github.com\n", false),
            ("protocol=https\nhost=github.com.evil.example\n", false),
            ("protocol=https\nhost=evil.example\npath=github.com\n", false),
            ("protocol=https\nhost=github.com:8443\n", false),
            ("protocol=https\nhosts=github.com\n", false),
            ("host=github.com\n", false),
            ("", false),
        ] {
            let expected = if given { "username=x-access-token\npassword=planted-secret\n" } else { "" };
            assert_eq!(reply(question, &credential()), expected, "{question:?}");
        }
    }

    #[test]
    fn a_token_does_not_show_itself() {
        assert!(!format!("{:?}", credential()).contains("planted"));
        assert_eq!(credential().token.redact("https://planted-secret@x"), "https://[redacted]@x");
        assert_eq!(Secret::new("").redact("text"), "text");
    }

    async fn asked(folder: &TempDir, operation: &'static str, question: &'static str) -> String {
        let socket = folder.path().join("own/socket");
        let ask = move || {
            let mut output = Vec::new();
            ask(&socket, operation, question.as_bytes(), &mut output).map(|()| output)
        };
        String::from_utf8(tokio::task::spawn_blocking(ask).await.unwrap().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn the_helper_passes_on_what_the_worker_says() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("own/socket");
        // A worker that was killed left its socket.
        std::fs::create_dir(folder.path().join("own")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let serving = serve(&socket, credential()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path().join("own")), mode(&socket)), (0o700, 0o600));

        let question = "protocol=https\nhost=github.com\n\n";
        assert_eq!(
            asked(&folder, "get", question).await,
            "username=x-access-token\npassword=planted-secret\n"
        );
        assert_eq!(asked(&folder, "get", "protocol=https\nhost=gitlab.com\n\n").await, "");
        assert_eq!(asked(&folder, "store", question).await, "");
        drop(serving);
        assert!(!socket.exists());
    }
}
