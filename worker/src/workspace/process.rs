//! A command that is run to its end. Whatever it started ends with it, also when its time is up or nobody waits any more.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdout, Command};

/// What is kept of an error output: its end, where the reason is.
const ERROR_BYTES: usize = 64 * 1024;

/// What a command left.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// What was made of its output.
    pub output: T,
    /// The end of its error output.
    pub errors: String,
}

/// Why there is nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It could not be run, or not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It was killed.
    #[error("it was stopped after {0:?}")]
    TimedOut(Duration),
}

/// Runs a command and lets `read` have its output as it comes.
pub(crate) async fn run<T, Read>(
    mut command: Command,
    input: Vec<u8>,
    deadline: Duration,
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
    let stdout = child.stdout.take().expect("the output was asked for");
    let stderr = child.stderr.take().expect("the errors were asked for");
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A command that does not read to the end says why in its exit code.
            let _ = stdin.write_all(&input).await;
        }
    };
    let end = async {
        let status = child.wait().await;
        // What it left running in the background would keep its output open for ever.
        drop(group);
        status
    };
    let work = async { tokio::join!(feed, read(stdout), last(stderr, ERROR_BYTES), end) };
    let ((), output, errors, status) =
        tokio::time::timeout(deadline, work).await.map_err(|_| Failure::TimedOut(deadline))?;
    Ok(Finished {
        code: status?.code(),
        output: output?,
        errors: String::from_utf8_lossy(&errors?).into_owned(),
    })
}

/// All of an output, if it is not longer than this.
pub(crate) async fn all(mut output: impl AsyncRead + Unpin, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    (&mut output).take(limit).read_to_end(&mut bytes).await?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("more than {most} bytes of output")));
    }
    Ok(bytes)
}

/// The last bytes of an output.
pub(crate) async fn last(mut output: impl AsyncRead + Unpin, most: usize) -> io::Result<Vec<u8>> {
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        match output.read(&mut chunk).await? {
            0 => break,
            read => kept.extend_from_slice(&chunk[..read]),
        }
        if kept.len() > 2 * most {
            kept.drain(..kept.len() - most);
        }
    }
    kept.drain(..kept.len().saturating_sub(most));
    Ok(kept)
}

/// A process and all its children, which are killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Nobody is left to kill if all went by themselves.
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
    async fn what_a_command_leaves_in_the_background_does_not_hold_up_its_end() {
        let command = shell("sleep 300 & echo done");
        let finished = run(command, Vec::new(), Duration::from_secs(20), |out| all(out, 100)).await.unwrap();
        assert_eq!((finished.code, finished.output.as_slice()), (Some(0), b"done\n".as_slice()));
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("sleep 300 & echo $! > {}/child; wait", folder.path().display());
        let limit = Duration::from_secs(3_600);
        let running = tokio::spawn(run(shell(&script), Vec::new(), limit, |out| all(out, 100)));
        let started = async {
            loop {
                let written = std::fs::read_to_string(folder.path().join("child")).unwrap_or_default();
                match written.strip_suffix('\n').map(str::parse::<i32>) {
                    Some(child) => return child.unwrap(),
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let child = tokio::time::timeout(Duration::from_secs(60), started).await.expect("it starts a child");
        // A paused clock jumps to the next timer when there is nothing else to do.
        tokio::time::pause();
        let run = running.await.unwrap();
        tokio::time::resume();
        assert!(matches!(run, Err(Failure::TimedOut(_))), "{run:?}");
        let gone = async {
            // A killed process may still wait to be collected by its new parent.
            while std::fs::read_to_string(format!("/proc/{child}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z "))
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the child is killed too");
    }

    #[tokio::test]
    async fn the_end_of_a_long_output_is_kept() {
        let kept = last(&b"0123456789"[..], 4).await.unwrap();
        assert_eq!(kept, b"6789");
        assert!(all(&b"0123456789"[..], 4).await.is_err());
    }
}
