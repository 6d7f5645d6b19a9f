//! Fetching a repository, and being on the right branch.

use super::git::{Git, GitError};
use super::repository::Repository;
use super::{Error, Settings};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;
use uuid::Uuid;

/// How often a network that fails is tried.
const ATTEMPTS: u32 = 4;
/// How long one attempt may take.
const NETWORK: Duration = Duration::from_secs(30 * 60);
/// How long anything else may take. A checkout of a large repository is the longest.
const LOCAL: Duration = Duration::from_secs(5 * 60);

/// What git says when trying again is no use.
const FINAL: [&str; 10] = [
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

/// Clones, if there is no repository yet. Whether it did.
pub(super) async fn fetch(
    repository: &Repository,
    settings: &Settings,
    variables: &[(String, String)],
) -> Result<bool, Error> {
    let mark = Mark(settings.state.join("cloning"));
    if mark.is_for(&settings.root).await {
        // We were killed halfway. The folder was empty before, so all that is in it is ours.
        empty(&settings.root).await?;
    }
    if fs::symlink_metadata(settings.root.join(".git")).await.is_ok() {
        return Ok(false);
    }
    if fs::read_dir(&settings.root).await?.next_entry().await?.is_some() {
        return Err(Error::NotEmpty(settings.root.clone()));
    }
    mark.set(&settings.root).await?;
    let git = Git::new(&settings.root)
        .variables(variables.iter().cloned())
        // A connection that hangs is a failure, and failures are tried again.
        .setting("http.lowSpeedLimit", "1000")
        .setting("http.lowSpeedTime", "60");
    let clone = ["clone", "--quiet", "--origin", "origin", "--", repository.url.as_str(), "."];
    let cloned = patiently(&git, &clone, settings.first_wait).await;
    if cloned.is_err() {
        empty(&settings.root).await?;
    }
    mark.remove().await?;
    cloned?;
    Ok(true)
}

/// Goes to a branch: the one that is here, or the one that is there, or a new one from the default branch. Whether it is
/// new.
pub(super) async fn check_out(
    branch: &str,
    cloned: bool,
    settings: &Settings,
    variables: &[(String, String)],
) -> Result<bool, Error> {
    let git = Git::new(&settings.root).variables(variables.iter().cloned());
    let has = async |name: &str| git.text(&["show-ref", "--verify", "--quiet", name], LOCAL).await.is_ok();
    if git.text(&["symbolic-ref", "--quiet", "--short", "HEAD"], LOCAL).await.is_ok_and(|here| here == branch)
    {
        return Ok(false);
    }
    if has(&format!("refs/heads/{branch}")).await {
        git.text(&["checkout", "--quiet", branch, "--"], LOCAL).await?;
        return Ok(false);
    }
    if !cloned && !git.text(&["remote"], LOCAL).await?.is_empty() {
        patiently(&git, &["fetch", "--quiet", "origin"], settings.first_wait).await?;
    }
    let there = format!("refs/remotes/origin/{branch}");
    if has(&there).await {
        let upstream = format!("origin/{branch}");
        git.text(&["checkout", "--quiet", "-b", branch, "--track", &upstream], LOCAL).await?;
        return Ok(false);
    }
    // Without an upstream: what is not pushed must not look as if it were.
    let mut create = vec!["checkout", "--quiet", "--no-track", "-b", branch];
    if has("refs/remotes/origin/HEAD").await {
        create.push("origin/HEAD");
    } else if git.text(&["rev-parse", "--verify", "--quiet", "HEAD"], LOCAL).await.is_err() {
        // An empty repository has nothing to begin from, and git refuses to say that there is no upstream.
        create = vec!["checkout", "--quiet", "-b", branch];
    }
    git.text(&create, LOCAL).await?;
    Ok(true)
}

/// Sets who commits. In a repository that was here before us, only if nobody is set.
pub(super) async fn identify(cloned: bool, settings: &Settings) -> Result<(), Error> {
    let git = Git::new(&settings.root);
    for (key, value) in [("user.name", &settings.user_name), ("user.email", &settings.user_email)] {
        if cloned || git.text(&["config", "--get", key], LOCAL).await.is_err() {
            git.text(&["config", "--local", key, value], LOCAL).await?;
        }
    }
    Ok(())
}

/// The branch, and the commit. A new repository has no commit, and a detached head no branch.
pub(super) async fn position(root: &Path) -> (Option<String>, Option<String>) {
    let git = Git::new(root);
    let branch = git.text(&["symbolic-ref", "--quiet", "--short", "HEAD"], LOCAL).await;
    let head = git.text(&["rev-parse", "--verify", "--quiet", "HEAD"], LOCAL).await;
    (branch.ok(), head.ok())
}

/// Runs what needs the network, again and again if it is the network that failed.
async fn patiently(git: &Git, arguments: &[&str], first_wait: Duration) -> Result<(), GitError> {
    let mut wait = first_wait;
    for attempt in 1.. {
        match git.text(arguments, NETWORK).await {
            Ok(_) => break,
            Err(error) if attempt == ATTEMPTS || is_final(&error) => return Err(error),
            Err(_) => {
                tracing::warn!(attempt, "git {} failed, and is tried again", arguments[0]);
                // Between half and all of it, so that many sandboxes do not come back at the same moment.
                let part = u32::from(Uuid::new_v4().as_bytes()[0]);
                tokio::time::sleep(wait / 2 + wait / 2 * part / 255).await;
                wait *= 2;
            }
        }
    }
    Ok(())
}

fn is_final(error: &GitError) -> bool {
    match error {
        GitError::Refused { errors, .. } => FINAL.iter().any(|reason| errors.contains(reason)),
        GitError::NotRun { .. } => true,
    }
}

/// A file that says that a folder is being cloned into: half a clone looks like a whole one.
struct Mark(PathBuf);

impl Mark {
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

/// Removes what is in a folder, and not the folder: it may be a volume.
async fn empty(folder: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_type().await?.is_dir() {
            fs::remove_dir_all(entry.path()).await?;
        } else {
            fs::remove_file(entry.path()).await?;
        }
    }
    Ok(())
}
