//! The folder that an agent works in: fetched before the agent starts, watched while it works, and judged when it says
//! that it is done.

mod clone;
pub mod credential;
pub mod diff;
mod git;
mod patch;
mod process;
mod pull_request;
mod repository;
mod shadow;
pub mod snapshot;
pub mod validation;

pub use git::GitError;
pub use repository::{BadRepository, Repository};

use crate::event::{Event, first_bytes};
use credential::Serving;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Longest error that is told.
const ERROR_BYTES: usize = 8 * 1024;

/// Where the workspace is, and how it is prepared.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder that the agent works in.
    pub root: PathBuf,
    /// The worker's own folder.
    pub state: PathBuf,
    /// The `sunaba-worker` that git runs to ask for the token.
    pub program: Vec<String>,
    /// Who commits.
    pub user_name: String,
    /// And their address.
    pub user_email: String,
    /// How long to wait after the first failure of the network. Each further wait is twice as long.
    pub first_wait: Duration,
}

/// A workspace that is ready.
#[derive(Debug)]
pub struct Ready {
    /// The branch, if there is a repository and it is on one.
    pub branch: Option<String>,
    /// The commit, if there is one.
    pub head: Option<String>,
    /// Whether the branch is new.
    pub created_branch: bool,
    /// What the agent needs in its environment, so that its git can ask for the token.
    pub variables: Vec<(String, String)>,
    /// Answers git. To be kept as long as the agent runs.
    pub serving: Option<Serving>,
}

/// Why there is no workspace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Git failed. The token is not in what it said.
    #[error(transparent)]
    Git(#[from] GitError),
    /// There are files and no repository, and cloning would mix them.
    #[error("{0} holds files and is no git repository: empty it, or give another folder")]
    NotEmpty(PathBuf),
    /// The folder, the socket or something else of the system.
    #[error("the workspace could not be made: {0}")]
    Io(#[from] io::Error),
}

impl Settings {
    /// With the usual identity.
    pub fn new(root: impl Into<PathBuf>, state: impl Into<PathBuf>, program: Vec<String>) -> Self {
        Self {
            root: root.into(),
            state: state.into(),
            program,
            user_name: "Sunaba Agent".to_owned(),
            user_email: "agent@sunaba.invalid".to_owned(),
            first_wait: Duration::from_secs(1),
        }
    }
}

/// Makes the folder, and fetches the repository into it if there is one to fetch. A repository that is there already is
/// kept as it is, but for the branch. Whoever gets an error has no workspace: an empty folder never looks like one.
pub async fn prepare(
    repository: Option<&Repository>,
    settings: &Settings,
    tell: &mut (dyn FnMut(Event) + Send),
) -> Result<Ready, Error> {
    let begun = Instant::now();
    let url = repository.map(|repository| repository.url.as_str());
    if let Some(repository) = repository {
        let cloning = Event::worker("workspace.cloning").with("repository", url);
        tell(cloning.with("branch", repository.branch.as_deref()));
    }
    match make(repository, settings).await.map_err(|error| without_token(error, repository)) {
        Ok(ready) => {
            let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let event = Event::worker("workspace.ready")
                .with("repository", url)
                .with("branch", ready.branch.as_deref())
                .with("head", ready.head.as_deref())
                .with("created_branch", ready.created_branch)
                .with("duration_ms", duration);
            if repository.is_some() {
                tell(event);
            }
            Ok(ready)
        }
        Err(error) => {
            let text = error.to_string();
            let event = Event::worker("workspace.failed").with("repository", url);
            tell(event.with("error", first_bytes(&text, ERROR_BYTES)));
            Err(error)
        }
    }
}

async fn make(repository: Option<&Repository>, settings: &Settings) -> Result<Ready, Error> {
    tokio::fs::create_dir_all(&settings.root).await?;
    tokio::fs::create_dir_all(&settings.state).await?;
    let (mut created_branch, mut variables, mut serving) = (false, Vec::new(), None);
    if let Some(repository) = repository {
        if let Some(credential) = repository.credential() {
            let socket = settings.state.join("credentials").join("socket");
            let served = credential::serve(&socket, credential.clone())?;
            variables = served.variables(&settings.program, &credential);
            serving = Some(served);
        }
        let cloned = clone::fetch(repository, settings, &variables).await?;
        if let Some(branch) = &repository.branch {
            created_branch = clone::check_out(branch, cloned, settings, &variables).await?;
        }
        clone::identify(cloned, settings).await?;
    }
    let (branch, head) = clone::position(&settings.root).await;
    Ok(Ready { branch, head, created_branch, variables, serving })
}

fn without_token(error: Error, repository: Option<&Repository>) -> Error {
    match (error, repository) {
        (Error::Git(GitError::Refused { command, code, errors }), Some(repository)) => {
            Error::Git(GitError::Refused { command, code, errors: repository.redact(&errors) })
        }
        (error, _) => error,
    }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
