//! Runs of git that read no configuration of the system and of the user, start no program that the repository
//! names, and have a deadline.
//!
//! The user trusts their own repository, but an agent may have written to it, and the plane is not the user's
//! terminal: a hook that asks a question would wait forever.

use super::leftovers;
use crate::{Failure, Reason};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Maximum size of what git prints, where the caller needs all of it.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// Maximum length of an error message of git that we pass on.
const MAX_MESSAGE_CHARS: usize = 300;

/// The first version that has `git merge-tree --write-tree`.
const MIN_VERSION: (u32, u32) = (2, 38);

/// Settings that start programs or change what the commands here do. Filters and merge drivers have names and are
/// added by [`Git::without_programs`].
const SETTINGS: [(&str, &str); 19] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("safe.directory", "*"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgSign", "false"),
    ("merge.verifySignatures", "false"),
    ("merge.autoStash", "false"),
    ("merge.log", "false"),
    ("submodule.recurse", "false"),
    ("color.ui", "false"),
    ("diff.external", ""),
    ("diff.relative", "false"),
    ("diff.renames", "true"),
    ("diff.submodule", "short"),
    ("i18n.commitEncoding", "UTF-8"),
];

/// Variables of our own environment that would lead git elsewhere.
const REMOVED_VARIABLES: [&str; 25] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIFF_OPTS",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REFLOG_ACTION",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

const VARIABLES: [(&str, &str); 8] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    // Messages are read by this code.
    ("LC_ALL", "C"),
];

/// Git in one directory.
#[derive(Debug, Clone)]
pub(super) struct Git {
    directory: PathBuf,
    timeout: Duration,
    /// Further settings that replace those of the repository.
    settings: Vec<(String, &'static str)>,
}

#[derive(Debug)]
pub(super) struct Output {
    /// -1 if a signal ended git.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Which configuration git reads beside that of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserConfiguration {
    Ignored,
    Read,
}

impl Git {
    pub(super) fn new(directory: &Path, timeout: Duration) -> Self {
        Self { directory: directory.to_owned(), timeout, settings: Vec::new() }
    }

    /// The same repository, from another of its directories.
    pub(super) fn within(&self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..self.clone() }
    }

    /// Turns off the filters and merge drivers of the repository's configuration. A file that needs a merge driver
    /// then counts as a conflict.
    pub(super) async fn without_programs(mut self) -> Result<Self, Failure> {
        let names = self.text(&["config", "--null", "--name-only", "--list"]).await?;
        for name in names.split('\0') {
            let (section, variable) = (name.split('.').next(), name.rsplit('.').next());
            let replacement = match (section, variable) {
                (Some("filter"), Some("clean" | "smudge" | "process")) => "",
                (Some("filter"), Some("required")) => "false",
                (Some("merge"), Some("driver")) => "false",
                _ => continue,
            };
            self.settings.push((name.to_owned(), replacement));
        }
        Ok(self)
    }

    /// Whether this git can merge without a working tree.
    pub(super) async fn check_version(&self) -> Result<(), Failure> {
        let text = self.text(&["version"]).await?;
        if version(&text).is_none_or(|version| version >= MIN_VERSION) {
            return Ok(());
        }
        let (major, minor) = MIN_VERSION;
        let message = format!(
            "{text} is too old for repositories of this machine: install git {major}.{minor} or later"
        );
        Err(Failure::new(Reason::Invalid, message))
    }

    /// The standard output of a command that must succeed, without the line break at its end.
    pub(super) async fn text(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.text_of(arguments, &[]).await
    }

    /// As [`Git::text`], for a command that reads standard input.
    pub(super) async fn text_of(&self, arguments: &[&str], input: &[u8]) -> Result<String, Failure> {
        let output = self.run(arguments, input, &[]).await?;
        if output.code == 0 { Ok(output.text()) } else { Err(output.failure(arguments)) }
    }

    /// As [`Git::text`], but `None` if the command reports with exit code 1 that there is nothing.
    pub(super) async fn find(&self, arguments: &[&str]) -> Result<Option<String>, Failure> {
        let output = self.run(arguments, &[], &[]).await?;
        match output.code {
            0 => Ok(Some(output.text())),
            1 => Ok(None),
            _ => Err(output.failure(arguments)),
        }
    }

    /// Runs a command with input and variables, whatever its exit code.
    pub(super) async fn run(
        &self,
        arguments: &[&str],
        input: &[u8],
        variables: &[(&str, &str)],
    ) -> Result<Output, Failure> {
        let mut command = self.command(arguments, UserConfiguration::Ignored);
        command.envs(variables.iter().copied());
        self.complete(command, input).await
    }

    /// A value of the repository's or the user's configuration. Reading it starts no program.
    pub(super) async fn configured(&self, name: &str) -> Result<Option<String>, Failure> {
        let command = self.command(&["config", "--get", name], UserConfiguration::Read);
        let output = self.complete(command, &[]).await?;
        Ok(Some(output.text()).filter(|value| output.code == 0 && !value.is_empty()))
    }

    /// Starts a command whose output the caller reads, within [`Git::deadline`].
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Child, Failure> {
        let mut command = self.command(arguments, UserConfiguration::Ignored);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| not_started(&error))
    }

    /// Ends `work` when the timeout of a run has passed.
    pub(super) async fn deadline<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let late = |_| {
            let message = format!("git did not finish within {} s", self.timeout.as_secs_f32());
            Failure::new(Reason::Unreachable, message)
        };
        timeout(self.timeout, work).await.map_err(late)?
    }

    fn command(&self, arguments: &[&str], configuration: UserConfiguration) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.directory).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        command.envs(VARIABLES);
        let of_repository = self.settings.iter().map(|(name, value)| (name.as_str(), *value));
        let settings = SETTINGS.into_iter().chain(of_repository).enumerate();
        for (index, (name, value)) in settings {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), name)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.env("GIT_CONFIG_COUNT", (SETTINGS.len() + self.settings.len()).to_string());
        if configuration == UserConfiguration::Ignored {
            command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        }
        command
    }

    async fn complete(&self, mut command: Command, input: &[u8]) -> Result<Output, Failure> {
        let run = async {
            let mut child = command.spawn().map_err(|error| not_started(&error))?;
            let output = communicate(&mut child, input).await;
            output
                .map_err(|error| Failure::new(Reason::Unreachable, format!("git could not be read: {error}")))
        };
        self.deadline(run).await
    }
}

impl Output {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }

    /// For an exit code that the caller does not expect.
    pub(super) fn failure(&self, arguments: &[&str]) -> Failure {
        let command = arguments.first().copied().unwrap_or_default();
        if let Some(lock) = leftovers::named_in(&self.stderr) {
            let message = format!("git {command} failed: {}", leftovers::describe(Path::new(lock)));
            return Failure::new(Reason::Busy { retry_after_secs: None }, message);
        }
        let message: String = self.stderr.trim().chars().take(MAX_MESSAGE_CHARS).collect();
        let reason = if ["Permission denied", "insufficient permission", "Read-only file system"]
            .iter()
            .any(|text| self.stderr.contains(text))
        {
            Reason::PushForbidden
        } else {
            Reason::Unreachable
        };
        Failure::new(reason, format!("git {command} failed: {message}"))
    }
}

/// Major and minor number of `git version 2.39.5 (Apple Git-154)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("git version ")?.split(['.', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn not_started(error: &io::Error) -> Failure {
    Failure::new(Reason::Unreachable, format!("git could not be started: {error}"))
}

async fn communicate(child: &mut Child, input: &[u8]) -> io::Result<Output> {
    let missing = || io::Error::other("no pipe");
    let mut stdin = child.stdin.take().ok_or_else(missing)?;
    let (out, err) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
    let feed = async move {
        // A command may end before it has read everything; its exit code reports that.
        let _ = stdin.write_all(input).await;
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut out, mut err) = (out.take(MAX_OUTPUT_BYTES), err.take(MAX_ERROR_BYTES));
    let ((), read, errors) = tokio::join!(feed, out.read_to_end(&mut stdout), err.read_to_end(&mut stderr));
    read.and(errors)?;
    if out.limit() == 0 {
        return Err(io::Error::other("the output is too large"));
    }
    let code = child.wait().await?.code().unwrap_or(-1);
    Ok(Output { code, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (text, expected) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 2.100", Some((2, 100))),
            ("git version 3.0.rc1", Some((3, 0))),
            ("another git", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
        assert!(version("git version 2.9.1").unwrap() < MIN_VERSION);
        assert!(version("git version 3.0.0").unwrap() > MIN_VERSION);
    }
}
