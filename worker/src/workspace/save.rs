//! Saves the work of the agent: commits leave the workspace for the relay after each turn, and when the agent has ended,
//! what it has not committed becomes a commit too.
//!
//! Everything here runs with the permissions of the agent, without hooks and signatures that the repository configures.
//!
//! **Invariant:** a commit that HEAD contains is in the relay afterwards, or there is an error. Commits that others have
//! pushed stay in the branch.
//!
//! Deliberately absent: branches that are not checked out, and what `.gitignore` excludes. A repository in the workspace
//! becomes plain files of the branch, unless it has a remote: then it is a copy of something else, which the branch must not
//! contain.

use super::clone::{self, LOCAL_TIMEOUT};
use super::git::{Git, GitError};
use super::{Origin, Settings, nested};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs;
use tokio::process::Command;
use tokio::sync::Mutex;

/// In the state directory of the worker: the path of the workspace that became a repository.
const OWN_REPOSITORY: &str = "own-repository";
/// Longest title in a commit message.
const MAX_TITLE_CHARS: usize = 72;

/// What commit messages say about the task.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Title of the task.
    pub title: Option<String>,
    /// Id of the task, or of the sandbox without one.
    pub id: String,
    /// Who asked for the task, as `Name <email>`.
    pub requested_by: Option<String>,
}

/// Why the work is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The agent has completed its task.
    Completed,
    /// The agent was interrupted, has failed, or is being stopped.
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("others have pushed to `{0}`, and their commits conflict with those of the agent")]
    Conflict(String),
    #[error("the relay has not received the commits")]
    NotReceived,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Saves one workspace. Clones share it.
#[derive(Debug, Clone)]
pub struct Saver {
    settings: Settings,
    origin: Option<Origin>,
    about: About,
    /// One operation at a time: git locks the index. The repositories in the workspace that the last commit of all changes
    /// has left out.
    lock: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Makes an empty directory a repository, so that the work in it has a history. Directories with files stay as they are:
/// they are a person's.
pub(super) async fn begin(settings: &Settings) -> Result<(), Error> {
    let is_empty = fs::read_dir(&settings.root).await?.next_entry().await?.is_none();
    if !is_empty && !is_own_repository(settings).await {
        return Ok(());
    }
    // First: an earlier worker may have been killed before the first commit.
    fs::write(marker(settings), settings.root.to_string_lossy().as_bytes()).await?;
    let git = git(settings);
    if commit_of(&git, "HEAD").await.is_some() {
        return Ok(());
    }
    let init = git.text(&["init", "--quiet", "--initial-branch=main"], LOCAL_TIMEOUT).await;
    if let Err(error @ GitError::NotRun { .. }) = init {
        tracing::warn!("The workspace has no history: {error}");
        return Ok(());
    }
    init?;
    clone::set_identity(true, settings).await.map_err(io::Error::other)?;
    let commit = ["commit", "--quiet", "--allow-empty", "--no-verify", "--message", "Begin"];
    git.text(&commit, LOCAL_TIMEOUT).await?;
    Ok(())
}

fn marker(settings: &Settings) -> PathBuf {
    settings.state.join(OWN_REPOSITORY)
}

/// Whether [`begin`] has made the workspace a repository.
async fn is_own_repository(settings: &Settings) -> bool {
    let root = settings.root.to_string_lossy();
    fs::read_to_string(marker(settings)).await.is_ok_and(|marked| marked == root)
}

impl Saver {
    pub fn new(settings: Settings, origin: Option<Origin>, about: About) -> Self {
        Self { settings, origin, about, lock: Arc::default() }
    }

    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Whether the workspace began as an empty directory without a repository.
    pub async fn is_own_repository(&self) -> bool {
        self.origin.is_none() && is_own_repository(&self.settings).await
    }

    /// Directories with repositories that are not part of the branch.
    pub async fn repositories_left_out(&self) -> Vec<Vec<u8>> {
        self.lock.lock().await.clone()
    }

    /// Commits all changes and pushes the commits to the relay.
    pub async fn save(&self, occasion: Occasion) -> Result<(), Error> {
        let mut left_out = self.lock.lock().await;
        let committed = self.commit_changes(occasion, &mut left_out).await;
        // What is committed leaves the workspace, even if the rest cannot be committed.
        self.push_head().await?;
        committed
    }

    /// Pushes the commits of the agent to the relay.
    pub async fn push_commits(&self) -> Result<(), Error> {
        let _lock = self.lock.lock().await;
        self.push_head().await
    }

    /// The commit that is checked out.
    pub async fn head(&self) -> Option<String> {
        commit_of(&git(&self.settings), "HEAD").await
    }

    async fn commit_changes(&self, occasion: Occasion, left_out: &mut Vec<Vec<u8>>) -> Result<(), Error> {
        if self.origin.is_none() && !is_own_repository(&self.settings).await {
            return Ok(());
        }
        let git = git(&self.settings);
        if is_locked(&git.text(&["add", "--refresh", "--", "."], LOCAL_TIMEOUT).await) {
            // A git process of the agent was killed.
            self.remove_index_lock(&git).await?;
        }
        let repositories = nested::add(&git, &self.settings).await;
        let not_added = repositories.left_out.iter().chain(&repositories.empty);
        let excluded: Vec<String> = not_added.filter_map(|name| nested::exclusion(name)).collect();
        *left_out = repositories.left_out;
        let status = ["status", "--porcelain", "--untracked-files=normal"];
        if git.text(&status, LOCAL_TIMEOUT).await?.is_empty() {
            return Ok(());
        }
        let add = ["add", "--all", "--ignore-errors", "--", "."];
        let add: Vec<&str> = add.into_iter().chain(excluded.iter().map(String::as_str)).collect();
        // Fails if a file cannot be read. All others are added.
        let added = git.text(&add, LOCAL_TIMEOUT).await;
        if git.text(&["diff", "--cached", "--quiet"], LOCAL_TIMEOUT).await.is_ok() {
            return Ok(added.map(drop)?);
        }
        let name = |variable: &str| (format!("{variable}_NAME"), self.settings.user_name.clone());
        let email = |variable: &str| (format!("{variable}_EMAIL"), self.settings.user_email.clone());
        let identity = ["GIT_AUTHOR", "GIT_COMMITTER"].map(|variable| [name(variable), email(variable)]);
        let git = git.variables(identity.into_iter().flatten());
        let commit = ["commit", "--quiet", "--no-verify", "--no-gpg-sign", "--file", "-"];
        git.bytes(&commit, self.about.message(occasion).into_bytes(), LOCAL_TIMEOUT).await?;
        Ok(added.map(drop)?)
    }

    /// With the permissions of the agent, which chooses what is at this path.
    async fn remove_index_lock(&self, git: &Git) -> Result<(), Error> {
        let path = git.text(&["rev-parse", "--git-path", "index.lock"], LOCAL_TIMEOUT).await?;
        let arguments = ["-f", "--", &path].map(OsString::from);
        let command = self.settings.launcher.command(OsStr::new("rm"), arguments, &self.settings.root)?;
        Command::from(command).kill_on_drop(true).status().await?;
        Ok(())
    }

    async fn push_head(&self) -> Result<(), Error> {
        let Some(origin) = &self.origin else { return Ok(()) };
        let git = git(&self.settings);
        let Some(head) = commit_of(&git, "HEAD").await else { return Ok(()) };
        let branch = origin.relay.branch();
        let Some(relayed) = origin.relay.head().await else {
            // Without new commits, the host needs no branch.
            let new = ["rev-list", "--count", "HEAD", "--not", "--remotes=origin"];
            let is_new = git.text(&new, LOCAL_TIMEOUT).await? != "0";
            return if is_new { self.push(origin, &head, "").await } else { Ok(()) };
        };
        if head == relayed {
            return Ok(());
        }
        let task_branch = format!("refs/heads/{branch}");
        let checked_out = git.text(&["symbolic-ref", "--quiet", "HEAD"], LOCAL_TIMEOUT).await;
        let is_on_branch = checked_out.is_ok_and(|name| name == task_branch);
        if is_on_branch && had(&git, &task_branch, &relayed).await {
            // The agent has added commits, or rewritten its branch.
            return self.push(origin, &head, &relayed).await;
        }
        if origin.relay.contains(&relayed, &head).await {
            return Ok(());
        }
        if commit_of(&git, &relayed).await.is_none() {
            let fetch =
                ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", &origin.url, &task_branch];
            git.text(&fetch, LOCAL_TIMEOUT).await?;
        }
        if is_ancestor(&git, &relayed, &head).await {
            return self.push(origin, &head, &relayed).await;
        }
        let merged = self.merge(&git, branch, &relayed, &head).await?;
        self.push(origin, &merged, &relayed).await?;
        if !is_on_branch {
            // So that later commits are known to be based on the merge. Fails if the agent has a worktree of the branch.
            let _ = git.text(&["update-ref", &task_branch, &merged], LOCAL_TIMEOUT).await;
        }
        Ok(())
    }

    /// Creates a commit with the history of both: the branch of the task in the relay, and what the agent has checked out
    /// instead.
    async fn merge(&self, git: &Git, branch: &str, relayed: &str, head: &str) -> Result<String, Error> {
        let task_branch = format!("refs/heads/{branch}");
        let merged = git.text(&["merge-tree", "--write-tree", relayed, head], LOCAL_TIMEOUT).await;
        let tree = match merged {
            Ok(tree) => tree.lines().next().unwrap_or_default().to_owned(),
            // Both are of the agent: the files are as it has left them.
            Err(GitError::Failed { code: Some(1), .. })
                if had(git, &task_branch, relayed).await || had(git, "HEAD", relayed).await =>
            {
                format!("{head}^{{tree}}")
            }
            Err(GitError::Failed { code: Some(1), .. }) => return Err(Error::Conflict(branch.to_owned())),
            Err(error) => return Err(error.into()),
        };
        let subject = format!("Merge commits of the agent into {branch}");
        let message = self.about.with_trailers(&subject);
        let arguments = ["commit-tree", &tree, "-p", relayed, "-p", head, "-F", "-"];
        let commit = git.bytes(&arguments, message.into_bytes(), LOCAL_TIMEOUT).await?;
        Ok(String::from_utf8_lossy(&commit).trim().to_owned())
    }

    /// Pushes a commit to the branch of the task, if that is where it is expected in the relay. Empty: nowhere.
    async fn push(&self, origin: &Origin, commit: &str, expected: &str) -> Result<(), Error> {
        let branch = format!("refs/heads/{}", origin.relay.branch());
        let (lease, refspec) =
            (format!("--force-with-lease={branch}:{expected}"), format!("{commit}:{branch}"));
        let options =
            ["push", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags", "--no-recurse-submodules"];
        let arguments = [&options[..], &[&lease, "--", &origin.url, &refspec]].concat();
        let git = git(&self.settings);
        git.text(&arguments, LOCAL_TIMEOUT).await?;
        if origin.relay.head().await.as_deref() != Some(commit) {
            return Err(Error::NotReceived);
        }
        let tracked = format!("refs/remotes/origin/{}", origin.relay.branch());
        if git.text(&["config", "--get", "remote.origin.url"], LOCAL_TIMEOUT).await.is_ok() {
            let _ = git.text(&["update-ref", &tracked, commit], LOCAL_TIMEOUT).await;
        }
        Ok(())
    }
}

fn git(settings: &Settings) -> Git {
    git_in(&settings.root, settings)
}

/// In a directory of the workspace.
pub(super) fn git_in(directory: &Path, settings: &Settings) -> Git {
    Git::new(directory, &settings.launcher)
        .variables(settings.variables.iter().cloned())
        .setting("core.hooksPath", "/dev/null")
        .setting("core.fsmonitor", "false")
        .setting("commit.gpgSign", "false")
        .setting("gc.auto", "0")
}

async fn commit_of(git: &Git, name: &str) -> Option<String> {
    let name = format!("{name}^{{commit}}");
    git.text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], LOCAL_TIMEOUT).await.ok()
}

async fn is_ancestor(git: &Git, ancestor: &str, descendant: &str) -> bool {
    git.text(&["merge-base", "--is-ancestor", ancestor, descendant], LOCAL_TIMEOUT).await.is_ok()
}

/// Whether a reference of the workspace was at this commit before.
async fn had(git: &Git, reference: &str, commit: &str) -> bool {
    let log = git.text(&["rev-list", "--walk-reflogs", reference, "--"], LOCAL_TIMEOUT).await;
    log.is_ok_and(|log| log.lines().any(|line| line == commit))
}

fn is_locked(result: &Result<String, GitError>) -> bool {
    matches!(result, Err(GitError::Failed { stderr, .. }) if stderr.contains("index.lock"))
}

impl About {
    fn message(&self, occasion: Occasion) -> String {
        let title = self.title.as_deref().map(one_line).filter(|title| !title.is_empty());
        let subject = match (occasion, title) {
            (Occasion::Completed, Some(title)) => title,
            (Occasion::Completed, None) => format!("Task {}", self.id),
            (Occasion::Interrupted, title) => format!("wip: {}", title.unwrap_or_else(|| self.id.clone())),
        };
        self.with_trailers(&subject)
    }

    fn with_trailers(&self, subject: &str) -> String {
        let requested_by = self.requested_by.as_deref().map(|name| name.replace(['\r', '\n'], " "));
        let requested_by = requested_by.map(|name| {
            // Hosts show a co-author by the address.
            let has_address = name.contains('<') && name.contains('@') && name.ends_with('>');
            format!("{}: {name}\n", if has_address { "Co-authored-by" } else { "Requested-by" })
        });
        format!("{subject}\n\n{}Sunaba-Task: {}\n", requested_by.unwrap_or_default(), self.id)
    }
}

/// The beginning of a text, for the first line of a commit message.
fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(MAX_TITLE_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => {
            let cut = &line[..end];
            format!("{}…", cut.rsplit_once(' ').map_or(cut, |(words, _)| words))
        }
    }
}

#[cfg(test)]
#[path = "save_tests.rs"]
mod tests;
