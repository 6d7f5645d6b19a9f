//! Commands: run by the shell in a process group of their own, which is killed when nobody waits for them any more.

use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// How long the pipes are read after the command itself has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What a command is started with.
#[derive(Debug, Clone)]
pub struct Shell<'a> {
    /// Where.
    pub cwd: &'a Path,
    /// What `${message}` is, so that no text of a user is ever part of a command.
    pub message: &'a str,
    /// The length of a second, as `$PLAY_SECOND`: demos sleep, their tests do not.
    pub second: f64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Nothing if it was killed.
    pub code: Option<i32>,
    /// Without the last line's end.
    pub stdout: String,
    /// Without the last line's end.
    pub stderr: String,
}

/// Runs a command to its end, or for so long. Dropping this kills it with all its children.
pub async fn run(shell: Shell<'_>, command: &str, timeout: Duration) -> std::io::Result<Ended> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(shell.cwd)
        .env("message", shell.message)
        .env("PLAY_SECOND", shell.second.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group::of(&child);
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let status = {
        let mut pipes =
            std::pin::pin!(async { tokio::join!(read(stdout, &mut out), read(stderr, &mut errors)) });
        let all = async {
            let mut told = false;
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status,
                    _ = &mut pipes, if !told => told = true,
                }
            };
            if !told {
                // A child that stays, like a server, keeps the pipes open.
                let _ = tokio::time::timeout(LAST_WORDS, &mut pipes).await;
            }
            status
        };
        tokio::time::timeout(timeout, all).await
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    match status {
        Ok(status) => {
            let code = status?.code();
            // It is over, and its group is somebody else's, or that of a child that is meant to stay.
            std::mem::forget(group);
            Ok(Ended { code, stdout: text(&out), stderr: text(&errors) })
        }
        Err(_) => {
            let stderr = format!("Command timed out after {} s", timeout.as_secs());
            Ok(Ended { code: None, stdout: text(&out), stderr })
        }
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) {
    if let Some(mut pipe) = pipe {
        // What was read before it broke is what there is.
        let _ = pipe.read_to_end(bytes).await;
    }
}

/// A process group that is killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself in the same moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
