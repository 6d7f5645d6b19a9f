//! The directory that the agent works in: cloned from the relay before the agent starts, scanned for changes while it
//! works, validated when it reports that the task is done, and saved as commits of the branch of the task.

mod clone;
pub mod diff;
mod git;
pub mod keep;
mod nested;
mod patch;
pub(crate) mod process;
mod pull_request;
mod repository;
pub(crate) mod retry;
pub mod save;
mod shadow_repository;
pub mod snapshot;
pub mod validation;

pub use git::GitError;
pub(crate) use repository::is_encrypted;
pub use repository::{InvalidRepository, Repository};

use crate::event::{Event, first_bytes};
use crate::relay::{self, Relay};
use confine::Launcher;
use contract::payloads::{WorkspaceCloning, WorkspaceFailed, WorkspaceReady};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum size of a reported error.
const MAX_ERROR_BYTES: usize = 8 * 1024;

/// Delay after the first failure of the network.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Settings {
    /// The agent's working directory.
    pub root: PathBuf,
    /// The worker's state directory.
    pub state: PathBuf,
    /// Starts git.
    pub launcher: Launcher,
    /// Environment variables with which git reaches the relay.
    pub variables: Vec<(String, String)>,
    /// Git author name.
    pub user_name: String,
    /// Git author email.
    pub user_email: String,
    /// Delay after the first network failure. It doubles with each further failure.
    pub retry_delay: Duration,
}

/// A prepared workspace.
#[derive(Debug)]
pub struct Ready {
    /// `None` without a repository, or if HEAD is detached.
    pub branch: Option<String>,
    /// Commit of HEAD, if there is one.
    pub head: Option<String>,
    /// Whether the branch was created.
    pub created_branch: bool,
}

/// The relay of the repository, and its URL for the agent.
#[derive(Debug, Clone)]
pub struct Origin {
    pub relay: Relay,
    pub url: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Git(#[from] GitError),
    /// The token is redacted from its message.
    #[error(transparent)]
    Relay(#[from] relay::Error),
    #[error("the repository has no branch `{0}` (BASE_BRANCH)")]
    NoBase(String),
    /// Cloning would mix the repository with existing files.
    #[error("{0} contains files and is not a git repository; empty it or use another directory")]
    NotEmpty(PathBuf),
    /// It belongs to the plane or to another sandbox.
    #[error("{0} is hidden from agents and cannot be their repository")]
    Hidden(PathBuf),
    #[error("cannot create a repository for the work: {0}")]
    Save(#[from] save::Error),
    #[error("cannot create the workspace: {0}")]
    Io(#[from] io::Error),
}

impl Settings {
    /// With the default git identity.
    pub fn new(
        root: impl Into<PathBuf>,
        state: impl Into<PathBuf>,
        variables: Vec<(String, String)>,
        launcher: &Launcher,
    ) -> Self {
        Self {
            root: root.into(),
            launcher: launcher.clone(),
            state: state.into(),
            variables,
            user_name: "Sunaba Agent".to_owned(),
            user_email: "agent@sunaba.invalid".to_owned(),
            retry_delay: RETRY_DELAY,
        }
    }
}

/// Creates the directory and clones the repository into it, if there is one. An existing repository is kept; only the
/// branch is checked out. Without a repository, an empty directory becomes one. On an error there is no workspace: an empty
/// directory is never taken for one.
pub async fn prepare(
    repository: Option<(&Repository, &Origin)>,
    settings: &Settings,
    emit: &mut (dyn FnMut(Event) + Send),
) -> Result<Ready, Error> {
    let started = Instant::now();
    let url = repository.map(|(repository, _)| repository.url.clone());
    if let Some((repository, _)) = repository {
        let branch = repository.branch.clone();
        emit(Event::worker(WorkspaceCloning { repository: url.clone(), branch }));
    }
    match create(repository, settings).await {
        Ok(ready) => {
            let duration = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            if repository.is_some() {
                emit(Event::worker(WorkspaceReady {
                    repository: url,
                    branch: ready.branch.clone(),
                    head: ready.head.clone(),
                    created_branch: ready.created_branch,
                    duration_ms: duration,
                }));
            }
            Ok(ready)
        }
        Err(error) => {
            let text = first_bytes(&error.to_string(), MAX_ERROR_BYTES).to_owned();
            emit(Event::worker(WorkspaceFailed { repository: url, error: text }));
            Err(error)
        }
    }
}

async fn create(repository: Option<(&Repository, &Origin)>, settings: &Settings) -> Result<Ready, Error> {
    tokio::fs::create_dir_all(&settings.root).await?;
    tokio::fs::create_dir_all(&settings.state).await?;
    let mut created_branch = false;
    if let Some((repository, origin)) = repository {
        let directory = repository.directory();
        if let Some(hidden) = directory.as_deref().filter(|directory| settings.launcher.hides(directory)) {
            return Err(Error::Hidden(hidden.to_owned()));
        }
        origin.relay.prepare().await?;
        let cloned = clone::clone_if_missing(repository, &origin.url, settings).await?;
        if let Some(branch) = &repository.branch {
            let base = repository.base.as_deref();
            created_branch = clone::check_out(branch, base, cloned, settings).await?;
        }
        clone::set_identity(cloned, settings).await?;
    } else {
        save::begin(settings).await?;
    }
    let (branch, head) = clone::position(settings).await;
    Ok(Ready { branch, head, created_branch })
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
