//! Clones a repository and checks out the branch.

use super::git::{Git, GitError};
use super::repository::Repository;
use super::{Error, Settings};
use client::{Backoff, Wait};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;

/// Maximum number of attempts of a network operation.
const MAX_ATTEMPTS: u32 = 4;
/// Timeout of one network operation.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Timeout of local operations. A checkout of a large repository takes longest.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Error messages of git that a retry would not change.
const PERMANENT_ERRORS: [&str; 10] = [
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
    "not found",
    "does not exist",
    "does not appear to be a git repository",
    "Permission denied",
    "returned error: 403",
    "No space left on device",
];

/// Clones unless there is a repository already. Returns whether it did.
pub(super) async fn clone_if_missing(
    repository: &Repository,
    settings: &Settings,
    variables: &[(String, String)],
) -> Result<bool, Error> {
    let marker = CloneMarker(settings.state.join("cloning"));
    if marker.is_for(&settings.root).await {
        // An earlier worker was killed while cloning. The directory was empty before, so its content can be deleted.
        clear(&settings.root).await?;
    }
    if fs::symlink_metadata(settings.root.join(".git")).await.is_ok() {
        return Ok(false);
    }
    if fs::read_dir(&settings.root).await?.next_entry().await?.is_some() {
        return Err(Error::NotEmpty(settings.root.clone()));
    }
    marker.set(&settings.root).await?;
    let git = Git::new(&settings.root, &settings.launcher)
        .variables(variables.iter().cloned())
        // Treat a stalled connection as a failure, so that it is retried.
        .setting("http.lowSpeedLimit", "1000")
        .setting("http.lowSpeedTime", "60");
    // Without hard links: the agent must not get files of a local repository.
    let clone =
        ["clone", "--quiet", "--no-hardlinks", "--origin", "origin", "--", repository.url.as_str(), "."];
    let cloned = with_retries(&git, &clone, settings.retry_delay).await;
    if cloned.is_err() {
        clear(&settings.root).await?;
    }
    marker.remove().await?;
    cloned?;
    Ok(true)
}

/// Checks out the local branch, or the remote branch, or a new branch from the default branch. Returns whether it is
/// new.
pub(super) async fn check_out(
    branch: &str,
    cloned: bool,
    settings: &Settings,
    variables: &[(String, String)],
) -> Result<bool, Error> {
    let git = Git::new(&settings.root, &settings.launcher).variables(variables.iter().cloned());
    let exists =
        async |name: &str| git.text(&["show-ref", "--verify", "--quiet", name], LOCAL_TIMEOUT).await.is_ok();
    if git
        .text(&["symbolic-ref", "--quiet", "--short", "HEAD"], LOCAL_TIMEOUT)
        .await
        .is_ok_and(|current| current == branch)
    {
        return Ok(false);
    }
    if exists(&format!("refs/heads/{branch}")).await {
        git.text(&["checkout", "--quiet", branch, "--"], LOCAL_TIMEOUT).await?;
        return Ok(false);
    }
    if !cloned && !git.text(&["remote"], LOCAL_TIMEOUT).await?.is_empty() {
        with_retries(&git, &["fetch", "--quiet", "origin"], settings.retry_delay).await?;
    }
    let remote = format!("refs/remotes/origin/{branch}");
    if exists(&remote).await {
        let upstream = format!("origin/{branch}");
        git.text(&["checkout", "--quiet", "-b", branch, "--track", &upstream], LOCAL_TIMEOUT).await?;
        return Ok(false);
    }
    // No upstream: an unpushed branch must not look pushed.
    let mut create = vec!["checkout", "--quiet", "--no-track", "-b", branch];
    if exists("refs/remotes/origin/HEAD").await {
        create.push("origin/HEAD");
    } else if git.text(&["rev-parse", "--verify", "--quiet", "HEAD"], LOCAL_TIMEOUT).await.is_err() {
        // An empty repository has no start point, and git rejects `--no-track` without one.
        create = vec!["checkout", "--quiet", "-b", branch];
    }
    git.text(&create, LOCAL_TIMEOUT).await?;
    Ok(true)
}

/// Git refuses a repository on this machine that belongs to another user, unless the user's own settings name it.
pub(super) async fn trust(repository: Option<&Path>, settings: &Settings) -> Result<(), Error> {
    if let Some(directory) = repository.filter(|_| settings.launcher.has_own_user()) {
        let directory = directory.to_string_lossy();
        let set = [
            "config",
            "--global",
            "--fixed-value",
            "--replace-all",
            "safe.directory",
            &directory,
            &directory,
        ];
        Git::new(Path::new("/"), &settings.launcher).text(&set, LOCAL_TIMEOUT).await?;
    }
    Ok(())
}

/// Sets the git author. In an existing repository, only if none is configured.
pub(super) async fn set_identity(cloned: bool, settings: &Settings) -> Result<(), Error> {
    let git = Git::new(&settings.root, &settings.launcher);
    for (key, value) in [("user.name", &settings.user_name), ("user.email", &settings.user_email)] {
        if cloned || git.text(&["config", "--get", key], LOCAL_TIMEOUT).await.is_err() {
            git.text(&["config", "--local", key, value], LOCAL_TIMEOUT).await?;
        }
    }
    Ok(())
}

/// Branch and commit of HEAD. A new repository has no commit, and a detached HEAD no branch.
pub(super) async fn position(settings: &Settings) -> (Option<String>, Option<String>) {
    let git = Git::new(&settings.root, &settings.launcher);
    let branch = git.text(&["symbolic-ref", "--quiet", "--short", "HEAD"], LOCAL_TIMEOUT).await;
    let head = git.text(&["rev-parse", "--verify", "--quiet", "HEAD"], LOCAL_TIMEOUT).await;
    (branch.ok(), head.ok())
}

/// Longest delay before a network operation is retried.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Runs a network operation, retrying transient failures with exponential backoff and jitter.
async fn with_retries(git: &Git, arguments: &[&str], initial_delay: Duration) -> Result<(), GitError> {
    let backoff = Backoff::new(initial_delay, MAX_DELAY);
    for attempt in 1.. {
        match git.text(arguments, NETWORK_TIMEOUT).await {
            Ok(_) => break,
            Err(error) if attempt == MAX_ATTEMPTS || is_permanent(&error) => return Err(error),
            Err(_) => {
                tracing::warn!(attempt, "git {} failed; retrying", arguments[0]);
                tokio::time::sleep(backoff.wait(attempt - 1)).await;
            }
        }
    }
    Ok(())
}

fn is_permanent(error: &GitError) -> bool {
    match error {
        GitError::Failed { stderr, .. } => PERMANENT_ERRORS.iter().any(|reason| stderr.contains(reason)),
        GitError::NotRun { .. } => true,
    }
}

/// A file that marks a clone in progress, because a partial clone looks like a complete one.
struct CloneMarker(PathBuf);

impl CloneMarker {
    async fn is_for(&self, root: &Path) -> bool {
        fs::read_to_string(&self.0).await.is_ok_and(|marked| Path::new(&marked) == root)
    }

    async fn set(&self, root: &Path) -> io::Result<()> {
        fs::write(&self.0, root.to_string_lossy().as_bytes()).await
    }

    async fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.0).await
    }
}

/// Deletes the content of a directory, but not the directory itself, which may be a volume.
async fn clear(dir: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(dir).await?;
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_type().await?.is_dir() {
            fs::remove_dir_all(entry.path()).await?;
        } else {
            fs::remove_file(entry.path()).await?;
        }
    }
    Ok(())
}
