//! Runs `git` without prompts, with the permissions of the agent.

use super::process::{self, Failure, Finished};
use confine::Launcher;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::{ChildStdout, Command};

/// Maximum output that is read into memory.
const MAX_OUTPUT_BYTES: usize = 32 * 1024 * 1024;

/// Runs git in one directory.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    dir: PathBuf,
    launcher: Launcher,
    options: Vec<String>,
    variables: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git exited with an error.
    #[error("git {command} failed: {stderr}")]
    Failed {
        /// Subcommand, such as `clone`.
        command: String,
        /// `None` if a signal terminated it.
        code: Option<i32>,
        stderr: String,
    },
    /// Git could not be run, or timed out.
    #[error("cannot run git {command}: {reason}")]
    NotRun {
        /// Subcommand, such as `clone`.
        command: String,
        reason: String,
    },
}

impl Git {
    /// Hooks, filters and other programs that the repository configures run in the trust domain of the agent.
    pub(crate) fn new(dir: &Path, launcher: &Launcher) -> Self {
        Self { dir: dir.to_owned(), launcher: launcher.clone(), options: Vec::new(), variables: Vec::new() }
    }

    /// Adds a `-c key=value` option.
    #[must_use]
    pub(crate) fn setting(mut self, key: &str, value: &str) -> Self {
        self.options.extend(["-c".to_owned(), format!("{key}={value}")]);
        self
    }

    /// Adds environment variables.
    #[must_use]
    pub(crate) fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Standard output without trailing line breaks.
    pub(crate) async fn text(&self, arguments: &[&str], timeout: Duration) -> Result<String, GitError> {
        let output = self.bytes(arguments, Vec::new(), timeout).await?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// Standard output as bytes. `input` is written to standard input.
    pub(crate) async fn bytes(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, GitError> {
        self.read(arguments, input, timeout, |output| process::read_all(output, MAX_OUTPUT_BYTES)).await
    }

    /// Processes standard output with `read`.
    pub(crate) async fn read<T, Read: Future<Output = io::Result<T>>>(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        timeout: Duration,
        read: impl FnOnce(ChildStdout) -> Read,
    ) -> Result<T, GitError> {
        let command = arguments.first().copied().unwrap_or_default().to_owned();
        let run = async { process::run(self.command(arguments)?, input, timeout, read).await };
        match run.await {
            Ok(Finished { code: Some(0), output, .. }) => Ok(output),
            Ok(Finished { code, stderr, .. }) => {
                Err(GitError::Failed { command, code, stderr: stderr.trim().to_owned() })
            }
            Err(Failure::Io(error)) => Err(GitError::NotRun { command, reason: error.to_string() }),
            Err(error) => Err(GitError::NotRun { command, reason: error.to_string() }),
        }
    }

    fn command(&self, arguments: &[&str]) -> io::Result<Command> {
        let arguments = self.options.iter().map(String::as_str).chain(arguments.iter().copied());
        let arguments = arguments.map(OsString::from);
        // Untranslated messages, since they are parsed, and no prompts.
        let fixed = [("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let launcher = self.launcher.with_variables(fixed.into_iter().chain(self.variables.iter().cloned()));
        Ok(Command::from(launcher.command(OsStr::new("git"), arguments, &self.dir)?))
    }
}
