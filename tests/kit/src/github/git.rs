//! Git in the bare repositories of the fake.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The author of commits that the fake makes.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "GitHub"),
    ("GIT_AUTHOR_EMAIL", "noreply@github.example"),
    ("GIT_COMMITTER_NAME", "GitHub"),
    ("GIT_COMMITTER_EMAIL", "noreply@github.example"),
];

#[derive(Debug, Clone)]
pub(super) struct Git {
    directory: PathBuf,
}

/// Creates an empty bare repository with the default branch `main`.
pub(super) fn create(directory: &Path) {
    fs::create_dir_all(directory).expect("a folder for the repository");
    let created = Git::new(directory.to_owned()).run(&["init", "--quiet", "--bare", "--initial-branch=main"]);
    created.expect("git creates a repository");
}

impl Git {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The output of a command, or its error message.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.run_in(&self.directory, arguments)
    }

    pub(super) fn run_in(&self, directory: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(directory).envs(IDENTITY).stdin(Stdio::null());
        let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().expect("git starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub(super) fn default_branch(&self) -> String {
        self.run(&["symbolic-ref", "--short", "HEAD"]).expect("a bare repository has a HEAD")
    }

    /// The commit of a branch.
    pub(super) fn branch(&self, name: &str) -> Option<String> {
        self.run(&["rev-parse", "--verify", "--quiet", &format!("refs/heads/{name}")]).ok()
    }

    /// Branches with their commits.
    pub(super) fn branches(&self) -> Vec<(String, String)> {
        let listed = self.run(&["for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads/"]);
        let listed = listed.expect("a repository lists its branches");
        let entry =
            |line: &str| line.split_once(' ').map(|(commit, name)| (name.to_owned(), commit.to_owned()));
        listed.lines().filter_map(entry).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.branches().is_empty()
    }

    /// The commit of a branch or an id.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        let by_id =
            || self.run(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")]).ok();
        self.branch(revision).or_else(by_id)
    }

    pub(super) fn is_ancestor(&self, commit: &str, other: &str) -> bool {
        self.run(&["merge-base", "--is-ancestor", commit, other]).is_ok()
    }

    /// Number of commits of `head` that `base` does not have.
    pub(super) fn ahead(&self, base: &str, head: &str) -> u64 {
        let count = self.run(&["rev-list", "--count", &format!("{base}..{head}")]);
        count.ok().and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// The merged tree; `None` if there are conflicts.
    pub(super) fn merged_tree(&self, base: &str, head: &str) -> Option<String> {
        let output = self.run(&["merge-tree", "--write-tree", "--no-messages", base, head]).ok()?;
        output.lines().next().map(str::to_owned)
    }

    pub(super) fn new_commit(&self, tree: &str, parents: &[&str], message: &str) -> String {
        let mut arguments = vec!["commit-tree", tree, "-m", message];
        arguments.extend(parents.iter().flat_map(|parent| ["-p", parent]));
        self.run(&arguments).expect("git makes a commit of an existing tree")
    }

    /// The newest of the commits of `head` after they were applied on top of `base`; `None` if there are
    /// conflicts.
    pub(super) fn rebased(&self, base: &str, head: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tree = folder.path().join("tree");
        let path = tree.display().to_string();
        self.run(&["worktree", "add", "--quiet", "--detach", &path, base]).ok()?;
        let picked = self.run_in(&tree, &["cherry-pick", "--no-gpg-sign", &format!("{base}..{head}")]);
        let commit = self.run_in(&tree, &["rev-parse", "HEAD"]);
        self.run(&["worktree", "remove", "--force", &path]).expect("git removes its own working tree");
        picked.and(commit).ok()
    }
}
