//! Runs a command to completion. Its child processes are killed with it, also on timeout or when the future is dropped.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};

/// Size of the tail of standard error that is kept.
const MAX_STDERR_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Finished<T> {
    /// `None` if a signal terminated it.
    pub code: Option<i32>,
    /// Result of `read`.
    pub output: T,
    /// The end of standard error.
    pub stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command could not be started or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
}

/// Runs a command. `read` processes its standard output as a stream.
pub(crate) async fn run<T, Read>(
    mut command: Command,
    input: Vec<u8>,
    timeout: Duration,
    read: impl FnOnce(ChildStdout) -> Read,
) -> Result<Finished<T>, Failure>
where
    Read: Future<Output = io::Result<T>>,
{
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = Group::of(&child);
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // Ignore write errors: a command that does not read its input reports that with its exit code.
            let _ = stdin.write_all(&input).await;
        }
    };
    let end = async {
        let status = child.wait().await;
        // Background processes would keep the output open forever.
        drop(group);
        status
    };
    let work = async { tokio::join!(feed, read(stdout), read_tail(stderr, MAX_STDERR_BYTES), end) };
    let ((), output, stderr, status) =
        tokio::time::timeout(timeout, work).await.map_err(|_| Failure::TimedOut(timeout))?;
    Ok(Finished {
        code: status?.code(),
        output: output?,
        stderr: String::from_utf8_lossy(&stderr?).into_owned(),
    })
}

/// Reads the whole output. Fails if it is longer than `max` bytes.
pub(crate) async fn read_all(mut output: impl AsyncRead + Unpin, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    (&mut output).take(limit).read_to_end(&mut bytes).await?;
    if bytes.len() > max {
        return Err(io::Error::other(format!("more than {max} bytes of output")));
    }
    Ok(bytes)
}

/// Reads the last `max` bytes of the output.
pub(crate) async fn read_tail(mut output: impl AsyncRead + Unpin, max: usize) -> io::Result<Vec<u8>> {
    let (mut tail, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        match output.read(&mut chunk).await? {
            0 => break,
            read => tail.extend_from_slice(&chunk[..read]),
        }
        if tail.len() > 2 * max {
            tail.drain(..tail.len() - max);
        }
    }
    tail.drain(..tail.len().saturating_sub(max));
    Ok(tail)
}

/// A process group that is killed on drop.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Fails if all processes have exited already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn background_process_does_not_delay_completion() {
        let command = shell("sleep 300 & echo done");
        let finished =
            run(command, Vec::new(), Duration::from_secs(20), |output| read_all(output, 100)).await.unwrap();
        assert_eq!((finished.code, finished.output.as_slice()), (Some(0), b"done\n".as_slice()));
    }

    #[tokio::test]
    async fn timeout_kills_the_command_and_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("sleep 300 & echo $! > {}/child; wait", dir.path().display());
        let limit = Duration::from_secs(3_600);
        let running = tokio::spawn(run(shell(&script), Vec::new(), limit, |output| read_all(output, 100)));
        let started = async {
            loop {
                let written = std::fs::read_to_string(dir.path().join("child")).unwrap_or_default();
                match written.strip_suffix('\n').map(str::parse::<i32>) {
                    Some(child) => return child.unwrap(),
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let child =
            tokio::time::timeout(Duration::from_secs(60), started).await.expect("the command starts a child");
        // A paused clock advances to the next timer when all tasks are idle.
        tokio::time::pause();
        let run = running.await.unwrap();
        tokio::time::resume();
        assert!(matches!(run, Err(Failure::TimedOut(_))), "{run:?}");
        let exited = async {
            // A killed process may remain a zombie until its new parent reaps it.
            while std::fs::read_to_string(format!("/proc/{child}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), exited).await.expect("the child is killed too");
    }

    #[tokio::test]
    async fn output_tail_is_kept() {
        let tail = read_tail(&b"0123456789"[..], 4).await.unwrap();
        assert_eq!(tail, b"6789");
        assert!(read_all(&b"0123456789"[..], 4).await.is_err());
    }
}
