//! Commands: run by the shell in a process group of their own, which is killed when nobody waits for them any more.

use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

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
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let all = async { tokio::join!(child.wait(), read(stdout), read(stderr)) };
    match tokio::time::timeout(timeout, all).await {
        Ok((status, stdout, stderr)) => {
            let code = status?.code();
            // It is over, and its group may be somebody else's by now.
            std::mem::forget(group);
            Ok(Ended { code, stdout, stderr })
        }
        Err(_) => {
            let stderr = format!("Command timed out after {} s", timeout.as_secs());
            Ok(Ended { code: None, stdout: String::new(), stderr })
        }
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before it broke is what there is.
        let _ = pipe.read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
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
