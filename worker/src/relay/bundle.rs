//! Commits that the host did not get, as files: a bundle for `git fetch`, and a patch.

use super::git::LOCAL_TIMEOUT;
use super::{Error, Relay, host};
use std::path::Path;

impl Relay {
    /// Writes the commits of the branch of the task that the host does not have.
    pub async fn write_bundle(&self, path: &Path) -> Result<(), Error> {
        let (path, branches) = (path.to_string_lossy(), branches_of_host());
        let arguments = ["bundle", "create", "--quiet", &path, &self.head_ref(), "--not", &branches];
        self.0.git.text(&arguments, LOCAL_TIMEOUT).await?;
        Ok(())
    }

    /// Writes what these commits change.
    pub async fn write_patch(&self, path: &Path) -> Result<(), Error> {
        let git = &self.0.git;
        let branches = branches_of_host();
        let list = ["rev-list", "--first-parent", &self.head_ref(), "--not", &branches];
        let commits = git.text(&list, LOCAL_TIMEOUT).await?;
        let Some(first) = commits.lines().last() else { return Ok(()) };
        let parent = git.commit(&format!("{first}^")).await;
        let base = match parent {
            Some(parent) => parent,
            None => git.text(&["hash-object", "-t", "tree", "/dev/null"], LOCAL_TIMEOUT).await?,
        };
        let output = format!("--output={}", path.to_string_lossy());
        let options =
            ["diff-tree", "-p", "-r", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", &output];
        git.text(&[&options[..], &[&base, &self.head_ref()]].concat(), LOCAL_TIMEOUT).await?;
        Ok(())
    }
}

/// All branches of the host, after `--not`.
fn branches_of_host() -> String {
    format!("--glob={}*", host::MIRROR)
}
