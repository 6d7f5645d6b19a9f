//! A repository that was found.

use super::Local;
use super::git::Git;
use super::lock::Lock;
use crate::{Failure, Reason, names};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Repository {
    pub git: Git,
    /// The top of the working tree, or the bare repository.
    pub directory: PathBuf,
    /// The git directory that all working trees share.
    pub git_directory: PathBuf,
    timeout: Duration,
}

impl Local {
    pub(super) async fn open(&self) -> Result<Repository, Failure> {
        let not_found = || {
            let message = format!("{} is not a git repository", self.directory.display());
            Failure::new(Reason::NotFound, message)
        };
        if !tokio::fs::metadata(&self.directory).await.is_ok_and(|found| found.is_dir()) {
            return Err(not_found());
        }
        let git = Git::new(&self.directory, self.timeout);
        let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir", "--is-bare-repository"];
        let output = git.run(&arguments, &[], &[]).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (git_directory, is_bare) = match text.trim_end().rsplit_once('\n') {
            Some(found) if output.code == 0 => found,
            _ if output.stderr.contains("not a git repository") => return Err(not_found()),
            _ => return Err(output.failure(&arguments)),
        };
        // There is none if the repository is bare, or if the address is its git directory.
        let top = git.run(&["rev-parse", "--path-format=absolute", "--show-toplevel"], &[], &[]).await?;
        let directory = match (is_bare, top.code) {
            ("false", 0) => String::from_utf8_lossy(&top.stdout).trim_end_matches('\n').to_owned(),
            _ => git_directory.to_owned(),
        };
        let git = git.within(directory.as_ref()).without_programs().await?;
        let (directory, git_directory) = (directory.into(), git_directory.into());
        Ok(Repository { git, directory, git_directory, timeout: self.timeout })
    }
}

impl Repository {
    /// One of our writers at a time. People and workers write without it, so refs are changed only from the value
    /// that was read.
    pub(super) async fn lock(&self) -> Result<Lock, Failure> {
        Lock::acquire(&self.git_directory, self.timeout).await
    }

    /// The commit of a branch.
    pub(super) async fn branch(&self, name: &str) -> Result<Option<String>, Failure> {
        self.reference(&format!("refs/heads/{name}")).await
    }

    /// What a ref points to.
    pub(super) async fn reference(&self, name: &str) -> Result<Option<String>, Failure> {
        self.git.find(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]).await
    }

    /// The commit of a branch or of a full id.
    pub(super) async fn commit(&self, revision: &str) -> Result<String, Failure> {
        if let Some(commit) = self.branch(revision).await? {
            return Ok(commit);
        }
        if names::is_commit(revision) && self.has_commit(revision).await? {
            return Ok(revision.to_owned());
        }
        let message = format!("{} has no branch and no commit {revision}", self.directory.display());
        Err(Failure::new(Reason::NotFound, message))
    }

    pub(super) async fn has_commit(&self, commit: &str) -> Result<bool, Failure> {
        let object = format!("{commit}^{{commit}}");
        let output = self.git.run(&["cat-file", "-e", &object], &[], &[]).await?;
        Ok(output.code == 0)
    }

    /// Whether `commit` is in the history of `other`. A commit that does not exist is not.
    pub(super) async fn is_ancestor(&self, commit: &str, other: &str) -> Result<bool, Failure> {
        let output = self.git.run(&["merge-base", "--is-ancestor", commit, other], &[], &[]).await?;
        Ok(output.code == 0)
    }

    /// Number of commits of `head` that `base` does not have.
    pub(super) async fn commits_ahead(&self, base: &str, head: &str) -> Result<u64, Failure> {
        let count = self.git.text(&["rev-list", "--count", &format!("{base}..{head}")]).await?;
        count.parse().map_err(|_| Failure::new(Reason::Unreachable, "git rev-list printed no number"))
    }

    /// Stores content and returns its id.
    pub(super) async fn store_blob(&self, content: &[u8]) -> Result<String, Failure> {
        self.git.text_of(&["hash-object", "-w", "--stdin"], content).await
    }

    /// Changes refs, all or none. Each line is a command of `git update-ref --stdin`.
    pub(super) async fn update_refs(&self, commands: &[String]) -> Result<(), Failure> {
        let input = commands.join("\n") + "\n";
        let output = self.git.run(&["update-ref", "--stdin"], input.as_bytes(), &[]).await?;
        match output.code {
            0 => Ok(()),
            _ if output.stderr.contains("cannot lock ref") => {
                let reason = Reason::Busy { retry_after_secs: None };
                Err(Failure::new(reason, "a branch was changed at the same time"))
            }
            _ => Err(output.failure(&["update-ref"])),
        }
    }
}
