//! The relay between the agent and the host of its repository: a bare repository of the worker.
//!
//! The agent fetches from it and pushes to it over HTTP, at an endpoint of the worker. The worker fetches from the host into
//! it, and sends one branch on: that of the task. So the agent has no credential, and everything else at the host is out of
//! its reach.
//!
//! | reference in the relay | meaning |
//! |---|---|
//! | `refs/heads/*` | what the agent sees: the branches of the host, and the branch of the task as the agent pushed it |
//! | `refs/sunaba/host/*` | the branches of the host at the last fetch. Hidden from the agent |
//! | `refs/sunaba/known/<branch>` | the commit at the host that the branch of the task replaces when it is pushed |
//!
//! **Invariant:** only `refs/heads/<branch of the task>` changes at the host, and never away from a commit that the relay
//! does not know.
//!
//! Deliberately absent: garbage collection, because sandboxes are ephemeral.

mod access;
mod bundle;
mod commands;
mod git;
mod host;
mod push;
mod refusals;
mod service;
#[cfg(test)]
pub(crate) mod tests;

pub use access::Source;
pub use push::Delivery;
pub use service::Service;

use crate::event::Event;
use crate::workspace::GitError;
use access::Grants;
use contract::repository;
use git::{LOCAL_TIMEOUT, RelayGit};
use host::Contact;
use refusals::Refusals;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::fs;
use tokio::sync::{Mutex, watch};

/// In the state directory of the worker.
const DIRECTORY: &str = "relay";

pub type Emit = Arc<dyn Fn(Event) + Send + Sync>;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The state directory of the worker, which the agent cannot reach.
    pub state: PathBuf,
    /// The repository at its host: a URL or a directory, without credentials.
    pub url: String,
    /// The branch of the task.
    pub branch: String,
    pub source: Source,
    /// Variables of the worker.
    pub environment: BTreeMap<String, String>,
    /// Proxy for the host.
    pub proxy: Option<String>,
    /// Whether SSH and the git protocol may be used, with the keys of the worker's user.
    pub allows_ssh: bool,
    /// Delay after the first failure of the network. It doubles with each further failure.
    pub retry_delay: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot create the relay: {0}")]
    Io(#[from] io::Error),
    #[error("Authentication failed: {0}")]
    Authentication(&'static str),
    #[error("the plane gives no access to the repository: {0}")]
    NoAccess(String),
    #[error("the plane cannot be asked for access to the repository ({0})")]
    PlaneUnavailable(&'static str),
    /// Both have commits that the other has not.
    #[error("others have pushed to `{0}`, and the commits of the agent do not contain theirs")]
    Diverged(String),
}

/// A repository between agent and host. Clones share it.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    settings: Settings,
    grants: Grants,
    git: RelayGit,
    /// One operation with the host at a time.
    contact: Mutex<Contact>,
    /// Changes when the agent has pushed.
    moved: watch::Sender<u64>,
    delivery: watch::Sender<Delivery>,
    refusals: Refusals,
    emit: Emit,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Relay {
    pub fn new(settings: Settings, emit: Emit) -> Self {
        let home = settings.state.join(DIRECTORY);
        let protocols = if settings.allows_ssh { "http:https:file:ssh:git" } else { "http:https:file" };
        let mut git = RelayGit::new(&home.join("repository.git"), &home, &settings.environment, protocols)
            .setting("gc.auto", "0")
            .setting("core.logAllRefUpdates", "false")
            .setting("http.lowSpeedLimit", "1000")
            .setting("http.lowSpeedTime", "60");
        if let Some(proxy) = &settings.proxy {
            git = git.through(proxy);
        }
        if settings.allows_ssh {
            let own = ["HOME", "SSH_AUTH_SOCK"];
            let own = own.into_iter().filter_map(|name| Some((name, settings.environment.get(name)?)));
            git = own.fold(git, |git, (name, value)| git.variable(name, value));
        }
        Self(Arc::new(Inner {
            grants: Grants::new(settings.source.clone(), &settings.url),
            settings,
            git,
            contact: Mutex::default(),
            moved: watch::channel(0).0,
            delivery: watch::channel(Delivery::default()).0,
            refusals: Refusals::default(),
            emit,
        }))
    }

    /// The branch of the task.
    pub fn branch(&self) -> &str {
        &self.0.settings.branch
    }

    /// The last commit that the agent has pushed, or with which the branch of the task began at the host.
    pub async fn head(&self) -> Option<String> {
        self.0.git.commit(&self.head_ref()).await
    }

    /// The last commit of the branch of the task at the host, as far as the worker knows.
    pub async fn at_host(&self) -> Option<String> {
        self.0.git.commit(&self.known_ref()).await
    }

    /// Whether one commit contains another. A text that is no commit of the relay is contained nowhere.
    pub async fn contains(&self, descendant: &str, ancestor: &str) -> bool {
        is_commit_id(ancestor) && self.0.git.contains(descendant, ancestor).await
    }

    /// Whether the branch of the task at the host contains this commit.
    pub async fn host_has(&self, commit: &str) -> bool {
        self.contains(&self.known_ref(), commit).await
    }

    /// The last commit of the branch of the task, if the host does not have it.
    pub async fn unpushed(&self) -> Option<String> {
        let head = self.head().await?;
        (self.at_host().await.as_ref() != Some(&head)).then_some(head)
    }

    fn head_ref(&self) -> String {
        format!("refs/heads/{}", self.branch())
    }

    fn known_ref(&self) -> String {
        format!("refs/sunaba/known/{}", self.branch())
    }

    fn host_ref(&self) -> String {
        format!("{}{}", host::MIRROR, self.branch())
    }

    fn home(&self) -> PathBuf {
        self.0.settings.state.join(DIRECTORY)
    }

    fn repository(&self) -> PathBuf {
        self.home().join("repository.git")
    }

    /// Creates the repository, unless an earlier run has done so.
    async fn create(&self) -> Result<(), Error> {
        let home = self.home();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&home)?;
        fs::create_dir_all(self.repository()).await?;
        self.configure(&self.0.settings.url).await?;
        let arguments = ["init", "--quiet", "--bare", "--template=", "--initial-branch=main"];
        self.0.git.text(&arguments, LOCAL_TIMEOUT).await?;
        Ok(())
    }

    /// Writes the configuration of all git processes of the worker, also of those that serve a repository on this machine.
    async fn configure(&self, url: &str) -> io::Result<()> {
        let home = self.home();
        let mut config = format!(
            "[core]\n\thooksPath = {}\n\talternateRefsCommand = true\n\tfsmonitor = false\n\
             [gc]\n\tauto = 0\n[receive]\n\tautogc = false\n[protocol \"ext\"]\n\tallow = never\n",
            quoted(&home.join("no-hooks").to_string_lossy())
        );
        if let Some(directory) = repository::directory(url) {
            // It may belong to another user than the worker.
            for directory in [directory.to_owned(), format!("{}/.git", directory.trim_end_matches('/'))] {
                config += &format!("[safe]\n\tdirectory = {}\n", quoted(&directory));
            }
        }
        fs::write(home.join("config"), config).await
    }
}

/// A value in a configuration file of git.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Whether a text can only be the id of a commit.
fn is_commit_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
