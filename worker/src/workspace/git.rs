//! `git`, as the worker calls it: never asking anybody anything, and with none of the worker's secrets.

use super::process::{self, Failure, Finished};
use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::{ChildStdout, Command};

/// Longest output that is read into memory.
const OUTPUT_BYTES: usize = 32 * 1024 * 1024;

/// Variables that would send git elsewhere, or that its hooks and filters have no business with.
const NOT_FOR_GIT: [&str; 15] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "SANDBOX_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// Git in one folder.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    folder: PathBuf,
    options: Vec<String>,
    variables: Vec<(String, String)>,
}

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It said no.
    #[error("git {command} failed: {errors}")]
    Refused {
        /// `clone`.
        command: String,
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// What it said.
        errors: String,
    },
    /// It could not be run, or took too long.
    #[error("git {command} could not be run to its end: {reason}")]
    NotRun {
        /// `clone`.
        command: String,
        /// Why.
        reason: String,
    },
}

impl Git {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), options: Vec::new(), variables: Vec::new() }
    }

    /// With a setting, for these calls only.
    #[must_use]
    pub(crate) fn setting(mut self, key: &str, value: &str) -> Self {
        self.options.extend(["-c".to_owned(), format!("{key}={value}")]);
        self
    }

    /// With these variables.
    #[must_use]
    pub(crate) fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Its output, without the last end of line.
    pub(crate) async fn text(&self, arguments: &[&str], deadline: Duration) -> Result<String, GitError> {
        let output = self.bytes(arguments, Vec::new(), deadline).await?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// Its output, having read `input`.
    pub(crate) async fn bytes(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        deadline: Duration,
    ) -> Result<Vec<u8>, GitError> {
        self.read(arguments, input, deadline, |output| process::all(output, OUTPUT_BYTES)).await
    }

    /// What `read` makes of its output.
    pub(crate) async fn read<T, Read: Future<Output = io::Result<T>>>(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        deadline: Duration,
        read: impl FnOnce(ChildStdout) -> Read,
    ) -> Result<T, GitError> {
        let command = arguments.first().copied().unwrap_or_default().to_owned();
        match process::run(self.command(arguments), input, deadline, read).await {
            Ok(Finished { code: Some(0), output, .. }) => Ok(output),
            Ok(Finished { code, errors, .. }) => {
                Err(GitError::Refused { command, code, errors: errors.trim().to_owned() })
            }
            Err(Failure::Io(error)) => Err(GitError::NotRun { command, reason: error.to_string() }),
            Err(late) => Err(GitError::NotRun { command, reason: late.to_string() }),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.folder).args(&self.options).args(arguments.iter().map(OsStr::new));
        for variable in NOT_FOR_GIT {
            command.env_remove(variable);
        }
        // Messages are read by programs here, and nobody is there to answer a question.
        command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")]);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}
