//! Clones a repository and checks out the branch.

use super::git::{Git, GitError};
use super::repository::Repository;
use super::{Error, Settings, retry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;

/// Timeout of one network operation.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Timeout of local operations. A checkout of a large repository takes longest.
pub(super) const LOCAL_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Clones from `source`, the relay, unless there is a repository already. Returns whether it did. The remote `origin` is the
/// repository at its host, whose URL the agent's git replaces with that of the relay.
pub(super) async fn clone_if_missing(
    repository: &Repository,
    source: &str,
    settings: &Settings,
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
        .variables(settings.variables.iter().cloned())
        // Treat a stalled connection as a failure, so that it is retried.
        .setting("http.lowSpeedLimit", "1000")
        .setting("http.lowSpeedTime", "60");
    let clone = ["clone", "--quiet", "--no-local", "--origin", "origin", "--", source, "."];
    let mut cloned = with_retries(&git, &clone, settings.retry_delay).await;
    if cloned.is_ok() {
        // The URL of the relay may be another one in the next run.
        let set = ["config", "--local", "remote.origin.url", repository.url.as_str()];
        cloned = git.text(&set, LOCAL_TIMEOUT).await.map(drop);
    }
    if cloned.is_err() {
        clear(&settings.root).await?;
    }
    marker.remove().await?;
    cloned?;
    Ok(true)
}

/// Checks out the local branch, or the remote branch, or a new branch from the base. Returns whether it is new.
pub(super) async fn check_out(
    branch: &str,
    base: Option<&str>,
    cloned: bool,
    settings: &Settings,
) -> Result<bool, Error> {
    let git = Git::new(&settings.root, &settings.launcher).variables(settings.variables.iter().cloned());
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
    if let Some(base) = base
        && !exists(&format!("refs/remotes/origin/{base}")).await
    {
        return Err(Error::NoBase(base.to_owned()));
    }
    let base = base.map(|base| format!("origin/{base}"));
    if let Some(base) = &base {
        create.push(base);
    } else if exists("refs/remotes/origin/HEAD").await {
        create.push("origin/HEAD");
    } else if git.text(&["rev-parse", "--verify", "--quiet", "HEAD"], LOCAL_TIMEOUT).await.is_err() {
        // An empty repository has no start point, and git rejects `--no-track` without one.
        create = vec!["checkout", "--quiet", "-b", branch];
    }
    git.text(&create, LOCAL_TIMEOUT).await?;
    Ok(true)
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

/// Runs a network operation, and repeats it after transient failures.
async fn with_retries(git: &Git, arguments: &[&str], initial_delay: Duration) -> Result<(), GitError> {
    let run = async || git.text(arguments, NETWORK_TIMEOUT).await.map(drop);
    retry::with_backoff(initial_delay, arguments[0], run, retry::is_permanent).await
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
