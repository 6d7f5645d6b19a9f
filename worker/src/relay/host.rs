//! Fetches from the host of the repository into the relay.

use super::access::Access;
use super::git::{LOCAL_TIMEOUT, RelayGit};
use super::{Error, Relay};
use crate::workspace::{GitError, retry};
use contract::repository;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The branches of the host at the last fetch.
pub(super) const MIRROR: &str = "refs/sunaba/host/";
const HEADS: &str = "refs/heads/";

/// Timeout of one operation with the host.
pub(super) const NETWORK_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The agent gets the state of the host of at most this long ago.
const MAX_AGE: Duration = Duration::from_secs(10);
/// How long an agent's fetch waits for the host. Then it gets the state of the last fetch.
const ON_DEMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// What is known about the connection to the host.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// The last attempt to fetch.
    fetched_at: Option<Instant>,
}

/// Parts of git's messages after which a credential is missing or wrong.
const AUTHENTICATION_ERRORS: [&str; 6] = [
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "returned error: 401",
    "HTTP Basic: Access denied",
];

impl Relay {
    /// Creates the relay and fetches everything from the host. Network failures are retried; if an earlier run has fetched
    /// already, that state is enough.
    ///
    /// # Errors
    /// If the repository cannot be fetched, and never was.
    pub async fn prepare(&self) -> Result<(), Error> {
        self.create().await?;
        let fetched = self.home().join("fetched");
        let first = !fetched.exists();
        let mut contact = self.0.contact.lock().await;
        let attempt = async || {
            self.fetch().await?;
            self.set_default_branch().await
        };
        let result = if first {
            retry::with_backoff(self.0.settings.retry_delay, "fetch", attempt, Error::is_permanent).await
        } else {
            attempt().await
        };
        contact.fetched_at = Some(Instant::now());
        match result {
            Ok(()) => Ok(tokio::fs::write(fetched, "").await?),
            Err(error) if first => Err(error),
            Err(error) => {
                tracing::warn!(
                    "Cannot fetch from the repository's host, continuing with the last state: {error}"
                );
                Ok(())
            }
        }
    }

    /// Fetches if the last fetch is too old. A failure is logged: the agent gets the state of the last fetch.
    pub(super) async fn refresh(&self) {
        // A push or another fetch is in progress.
        let Ok(mut contact) = self.0.contact.try_lock() else { return };
        if contact.fetched_at.is_some_and(|at| at.elapsed() < MAX_AGE) {
            return;
        }
        match timeout(ON_DEMAND_TIMEOUT, self.fetch()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("Cannot fetch from the repository's host: {error}"),
            Err(_) => tracing::warn!("The repository's host did not respond in time"),
        }
        contact.fetched_at = Some(Instant::now());
    }

    /// The next fetch of the agent is one of the host, too.
    #[cfg(test)]
    pub(super) async fn forget_last_fetch(&self) {
        self.0.contact.lock().await.fetched_at = None;
    }

    /// Fetches all branches and tags. The caller has the lock of the contact.
    pub(super) async fn fetch(&self) -> Result<(), Error> {
        let arguments = ["fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"];
        let branches = format!("+{HEADS}*:{MIRROR}*");
        self.at_host_with(|git, url| {
            let arguments = [&arguments[..], &["--", url, &branches, "+refs/tags/*:refs/tags/*"]].concat();
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            async move { run(&git, &arguments).await }
        })
        .await?;
        self.mirror().await?;
        self.follow_host().await
    }

    /// Runs an operation with access to the host. If the host rejects the access, and there may be another, once more.
    pub(super) async fn at_host_with<Run: Future<Output = Result<String, GitError>>>(
        &self,
        operation: impl Fn(RelayGit, &str) -> Run,
    ) -> Result<String, Error> {
        let mut may_retry = true;
        loop {
            let access = self.0.grants.access().await?;
            if access.url != self.0.settings.url {
                self.configure(&access.url).await?;
            }
            let error = match operation(self.git_at(&access), &access.url).await {
                Ok(output) => return Ok(output),
                Err(error) => redacted(error, &access),
            };
            let GitError::Failed { stderr, .. } = &error else { return Err(error.into()) };
            if !AUTHENTICATION_ERRORS.iter().any(|reason| stderr.contains(reason)) {
                return Err(error.into());
            }
            if !(self.0.grants.discard().await && may_retry) {
                return Err(Error::Authentication(self.0.grants.advice()));
            }
            may_retry = false;
        }
    }

    /// Git with a credential that is sent to the URL of the repository, and to no other, also if the host redirects.
    fn git_at(&self, access: &Access) -> RelayGit {
        let git = self.0.git.clone();
        match &access.authorization {
            None => git,
            Some(value) => {
                let header = format!("Authorization: {}", value.reveal());
                git.setting(&format!("http.{}.extraHeader", access.url), &header)
                    .setting("http.followRedirects", "false")
            }
        }
    }

    /// The default branch of the host becomes that of the relay.
    async fn set_default_branch(&self) -> Result<(), Error> {
        let listed = self
            .at_host_with(|git, url| {
                let arguments = ["ls-remote", "--symref", "--", url, "HEAD"].map(str::to_owned);
                async move { run(&git, &arguments).await }
            })
            .await?;
        let target = listed.lines().find_map(|line| line.strip_prefix("ref: ")?.strip_suffix("\tHEAD"));
        if let Some(target) = target.filter(|target| target.starts_with(HEADS)) {
            self.0.git.text(&["symbolic-ref", "HEAD", target], LOCAL_TIMEOUT).await?;
        }
        Ok(())
    }

    /// Shows the agent the branches of the host, except for that of the task.
    async fn mirror(&self) -> Result<(), Error> {
        let format = "--format=%(objectname) %(refname)";
        let listed = self.0.git.text(&["for-each-ref", format, HEADS, MIRROR], LOCAL_TIMEOUT).await?;
        let below = |prefix: &str| -> BTreeMap<&str, &str> {
            let lines = listed.lines().filter_map(|line| line.split_once(' '));
            let named = lines.filter_map(|(id, name)| Some((name.strip_prefix(prefix)?, id)));
            named.filter(|(name, _)| !self.conflicts(name)).collect()
        };
        let (shown, found) = (below(HEADS), below(MIRROR));
        let deleted = shown.keys().filter(|name| !found.contains_key(*name));
        let deletions = deleted.map(|name| format!("delete {HEADS}{name}\n"));
        let changed = found.iter().filter(|(name, id)| shown.get(*name) != Some(*id));
        let updates = changed.map(|(name, id)| format!("update {HEADS}{name} {id}\n"));
        // Deletions first: `feature` may have become `feature/x`.
        for commands in [deletions.collect::<String>(), updates.collect::<String>()] {
            if !commands.is_empty() {
                let arguments = ["update-ref", "--stdin"];
                self.0.git.bytes(&arguments, commands.into_bytes(), LOCAL_TIMEOUT).await?;
            }
        }
        Ok(())
    }

    /// Whether a branch is that of the task, or cannot exist beside it.
    fn conflicts(&self, name: &str) -> bool {
        let is_within = |name: &str, other: &str| {
            name.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_within(name, self.branch()) || is_within(self.branch(), name)
    }

    /// Moves the branch of the task to where it is at the host, unless that would lose commits of the agent.
    async fn follow_host(&self) -> Result<(), Error> {
        let git = &self.0.git;
        // A branch that was deleted at the host keeps its commits here.
        let Some(host) = git.commit(&self.host_ref()).await else { return Ok(()) };
        let (head, known) = (self.head().await, self.at_host().await);
        let follows = match &head {
            None => true,
            Some(head) => *head != host && (head_is_known(head, &known) || git.contains(&host, head).await),
        };
        if follows {
            let old = head.clone().unwrap_or_else(|| "0".repeat(host.len()));
            let moved = git.text(&["update-ref", &self.head_ref(), &host, &old], LOCAL_TIMEOUT).await;
            if moved.is_err() {
                // The agent has pushed meanwhile. The next fetch decides again.
                return Ok(());
            }
        }
        let contains_host = match &head {
            Some(head) if !follows => git.contains(head, &host).await,
            _ => true,
        };
        if contains_host && known.as_ref() != Some(&host) {
            self.set_known(&host).await?;
        }
        Ok(())
    }

    pub(super) async fn set_known(&self, commit: &str) -> Result<(), Error> {
        self.0.git.text(&["update-ref", &self.known_ref(), commit], LOCAL_TIMEOUT).await?;
        Ok(())
    }
}

/// Whether the host has all commits of the branch already.
fn head_is_known(head: &str, known: &Option<String>) -> bool {
    known.as_deref() == Some(head)
}

async fn run(git: &RelayGit, arguments: &[String]) -> Result<String, GitError> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    git.text(&arguments, NETWORK_TIMEOUT).await
}

fn redacted(error: GitError, access: &Access) -> GitError {
    match error {
        GitError::Failed { command, code, stderr } => {
            GitError::Failed { command, code, stderr: access.redact(&stderr) }
        }
        other => other,
    }
}

impl Error {
    /// Whether a repetition would fail in the same way.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::Git(error) => retry::is_permanent(error),
            Self::PlaneUnavailable(_) => false,
            Self::Io(_) | Self::Authentication(_) | Self::NoAccess(_) | Self::Diverged(_) => true,
        }
    }
}

/// Arguments with which git pushes to a repository on this machine, without executing what that configures.
pub(super) fn receiver(url: &str) -> Option<&'static str> {
    repository::directory(url).map(
        |_| "--receive-pack=git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=true receive-pack",
    )
}
