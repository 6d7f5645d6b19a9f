//! Runs git in the trust domain of the worker: in the relay, and from there to the host of the repository.
//!
//! Neither the system's nor a user's configuration applies, and no hook runs. The credential is in the environment of a
//! single process and its children: never in arguments, which other processes can read, and never on disk.

use crate::workspace::GitError;
use crate::workspace::process::{self, Failure, Finished};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// Timeout of local operations.
pub(super) const LOCAL_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Maximum output that is read into memory.
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;

/// Variables of the worker that git may need to reach a host.
const INHERITED: [&str; 13] = [
    "PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

#[derive(Debug, Clone)]
pub(super) struct RelayGit {
    repository: PathBuf,
    environment: BTreeMap<String, String>,
    /// Configuration, for this process only.
    settings: Vec<(String, String)>,
}

impl RelayGit {
    /// `home` is an empty directory with the file `config`. `all` are variables of the worker.
    pub(super) fn new(
        repository: &Path,
        home: &Path,
        all: &BTreeMap<String, String>,
        protocols: &str,
    ) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut environment: BTreeMap<String, String> = INHERITED
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), all.get(name)?.clone())))
            .collect();
        let fixed = [
            ("GIT_DIR", text(repository)),
            // Curl reads `.netrc` in it.
            ("HOME", text(home)),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            // Children that serve another repository get this file, but no other setting.
            ("GIT_CONFIG_GLOBAL", text(&home.join("config"))),
            ("GIT_ALLOW_PROTOCOL", protocols.to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ("GIT_NO_LAZY_FETCH", "1".to_owned()),
            // Untranslated messages, since they are parsed.
            ("LC_ALL", "C".to_owned()),
        ];
        environment.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
        Self { repository: repository.to_owned(), environment, settings: Vec::new() }
    }

    /// With the proxy for all hosts.
    #[must_use]
    pub(super) fn through(mut self, proxy: &str) -> Self {
        self.environment.retain(|name, _| !name.to_ascii_lowercase().ends_with("_proxy"));
        self.settings.push(("http.proxy".to_owned(), proxy.to_owned()));
        self
    }

    #[must_use]
    pub(super) fn setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.repository).env_clear().envs(&self.environment);
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (index, (key, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command
    }

    /// Standard output without trailing line breaks.
    pub(super) async fn text(&self, arguments: &[&str], timeout: Duration) -> Result<String, GitError> {
        let output = self.bytes(arguments, Vec::new(), timeout).await?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// Standard output. `input` is written to standard input.
    pub(super) async fn bytes(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, GitError> {
        let command = arguments.first().copied().unwrap_or_default().to_owned();
        let read = |output| process::read_all(output, MAX_OUTPUT_BYTES);
        match process::run(self.command(arguments), input, timeout, read).await {
            Ok(Finished { code: Some(0), output, .. }) => Ok(output),
            Ok(Finished { code, stderr, .. }) => {
                Err(GitError::Failed { command, code, stderr: stderr.trim().to_owned() })
            }
            Err(Failure::Io(error)) => Err(GitError::NotRun { command, reason: error.to_string() }),
            Err(error) => Err(GitError::NotRun { command, reason: error.to_string() }),
        }
    }

    /// The commit of a reference. `None` if there is no such reference.
    pub(super) async fn commit(&self, reference: &str) -> Option<String> {
        let name = format!("{reference}^{{commit}}");
        self.text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], LOCAL_TIMEOUT).await.ok()
    }

    /// Whether `descendant` contains `ancestor`. Both are commit ids or references.
    pub(super) async fn contains(&self, descendant: &str, ancestor: &str) -> bool {
        self.text(&["merge-base", "--is-ancestor", ancestor, descendant], LOCAL_TIMEOUT).await.is_ok()
    }
}
