//! Git repositories in temporary directories.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A repository with a working tree, as a user has it. Deleted on drop.
#[derive(Debug)]
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    /// With the branch `main`, which has one commit with a `README.md`.
    pub fn with_one_commit() -> Self {
        let repository = Self { folder: TempDir::new().expect("a temporary directory") };
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.write("README.md", "begin\n");
        repository.commit_all("begin");
        repository
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, file: &str, content: &str) -> PathBuf {
        let path = self.path().join(file);
        std::fs::write(&path, content).expect("a file in the working tree");
        path
    }

    pub fn commit_all(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits a file on a branch that is not checked out, as a push does.
    pub fn commit_on(&self, branch: &str, file: &str, content: &str) -> String {
        let copy = TempDir::new().expect("a temporary directory");
        let (from, to) = (self.path().display().to_string(), copy.path().join("copy"));
        git(copy.path(), &["clone", "--quiet", "--branch", branch, &from, "copy"]);
        std::fs::write(to.join(file), content).expect("a file in the working tree");
        git(&to, &["add", "--all"]);
        git(&to, &["commit", "--quiet", "--message", &format!("Change {file}")]);
        git(&to, &["push", "--quiet", "origin", "HEAD"]);
        git(&to, &["rev-parse", "HEAD"])
    }

    /// Names of all branches, sorted.
    pub fn branches(&self) -> Vec<String> {
        let list = self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        list.lines().map(str::to_owned).collect()
    }

    /// The content of a file on a branch, if it exists there.
    pub fn file_on(&self, branch: &str, file: &str) -> Option<String> {
        let shown = command(self.path(), &["show", &format!("{branch}:{file}")]).output().expect("git runs");
        shown.status.success().then(|| String::from_utf8_lossy(&shown.stdout).into_owned())
    }

    /// Runs git in the repository. Returns its output.
    ///
    /// # Panics
    /// If git fails.
    pub fn git(&self, arguments: &[&str]) -> String {
        git(self.path(), arguments)
    }
}

/// Runs git with a fixed author and without settings of this machine. Returns its output.
///
/// # Panics
/// If git fails.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = command(directory, arguments).output().expect("git runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} failed: {errors}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(directory).args(arguments).env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Test");
        command.env(format!("GIT_{role}_EMAIL"), "test@example.org");
    }
    command
}
