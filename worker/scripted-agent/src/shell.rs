//! Shell commands, each in its own process group, which is killed when the future is dropped.

use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// How long the pipes are read after the command itself has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

#[derive(Debug, Clone)]
pub struct Shell<'a> {
    pub cwd: &'a Path,
    /// The value of `${message}`: an environment variable, so user text never becomes part of a command.
    pub message: &'a str,
    /// The length of a second, as `$PLAY_SECOND`. Tests set it to 0.
    pub second: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// `None` if it was killed.
    pub code: Option<i32>,
    /// Without trailing newlines.
    pub stdout: String,
    /// Without trailing newlines.
    pub stderr: String,
}

/// Runs a command until it exits or times out. Dropping the future kills its process group.
pub async fn run(shell: Shell<'_>, command: &str, timeout: Duration) -> std::io::Result<CommandOutput> {
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
        let exit = async {
            let mut drained = false;
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status,
                    _ = &mut pipes, if !drained => drained = true,
                }
            };
            if !drained {
                // A descendant such as a server keeps the pipes open.
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut pipes).await;
            }
            status
        };
        tokio::time::timeout(timeout, exit).await
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    match status {
        Ok(status) => {
            let code = status?.code();
            // Do not kill the group: its id may be reused, or a background process is meant to keep running.
            std::mem::forget(group);
            Ok(CommandOutput { code, stdout: text(&out), stderr: text(&errors) })
        }
        Err(_) => {
            let stderr = format!("Command timed out after {} s", timeout.as_secs());
            Ok(CommandOutput { code: None, stdout: text(&out), stderr })
        }
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) {
    if let Some(mut pipe) = pipe {
        // On an error, keep what was read so far.
        let _ = pipe.read_to_end(bytes).await;
    }
}

/// Kills the process group on drop.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that the group has already exited.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
