//! Working trees of people: they are only fast-forwarded, and only if no local change is in the way.

use super::git::Git;
use super::merge::named;
use super::repository::Repository;
use crate::{Failure, Reason};
use std::path::{Path, PathBuf};

/// In the git directory, while attributes are read.
const INDEX_FILE: &str = "sunaba.index";

impl Repository {
    /// The working tree in which a branch is checked out.
    pub(super) async fn checked_out_in(&self, branch: &str) -> Result<Option<PathBuf>, Failure> {
        let listed = self.git.text(&["worktree", "list", "--porcelain", "-z"]).await?;
        let reference = format!("branch refs/heads/{branch}");
        for entry in listed.split("\0\0") {
            let mut fields = entry.trim_start_matches('\0').split('\0');
            let Some(path) = fields.next().and_then(|field| field.strip_prefix("worktree ")) else {
                continue;
            };
            // A directory that was removed has no files to update.
            if fields.any(|field| field == reference) && tokio::fs::metadata(path).await.is_ok() {
                return Ok(Some(path.into()));
            }
        }
        Ok(None)
    }

    /// Whether the files that change can be written without a filter of the repository, such as Git LFS: filters
    /// are programs, which do not run here, and without them the files would have other contents.
    pub(super) async fn check_working_tree(
        &self,
        directory: &Path,
        old: &str,
        new: &str,
    ) -> Result<(), Failure> {
        let git = self.git.within(directory);
        let diff = ["diff", "--name-only", "--no-ext-diff", "--no-textconv", "-z", old, new];
        let changed = git.run(&diff, &[], &[]).await?;
        if changed.code != 0 {
            return Err(changed.failure(&diff));
        }
        let attributes = self.filters(&git, new, &changed.stdout).await?;
        let fields: Vec<&str> = attributes.split('\0').collect();
        let filtered =
            fields.chunks_exact(3).filter(|triple| !["unspecified", "unset", "set"].contains(&triple[2]));
        let files: Vec<String> = filtered.map(|triple| triple[0].to_owned()).collect();
        if files.is_empty() {
            return Ok(());
        }
        let message = format!(
            "filters such as Git LFS apply to files that change in {}: {}. Merge the branch there yourself",
            directory.display(),
            named(&files)
        );
        Err(Failure::new(Reason::NotMergeable, message))
    }

    /// The attribute `filter` of files of a commit: path, `filter` and the value, each followed by a zero byte.
    async fn filters(&self, git: &Git, commit: &str, paths: &[u8]) -> Result<String, Failure> {
        // An index of our own, because git before 2.40 reads attributes only from an index. The lock keeps others
        // away.
        let index = self.git_directory.join(INDEX_FILE);
        let path = index.to_string_lossy();
        let variables = [("GIT_INDEX_FILE", path.as_ref())];
        let mut found = git.run(&["read-tree", "--no-sparse-checkout", commit], &[], &variables).await?;
        if found.code == 0 {
            let check = ["check-attr", "--cached", "--stdin", "-z", "filter"];
            found = git.run(&check, paths, &variables).await?;
        }
        // The next call replaces it.
        let _ = tokio::fs::remove_file(&index).await;
        if found.code == 0 { Ok(found.text()) } else { Err(found.failure(&["check-attr"])) }
    }

    /// Moves the branch of a working tree, with its files, to a commit that follows the current one.
    pub(super) async fn fast_forward(&self, directory: &Path, commit: &str) -> Result<(), Failure> {
        let arguments = ["merge", "--ff-only", "--quiet", "--no-stat", commit];
        let output = self.git.within(directory).run(&arguments, &[], &[]).await?;
        if output.code == 0 {
            return Ok(());
        }
        let place = directory.display();
        // git lists the files below a sentence, each after a tab.
        let files: Vec<String> =
            output.stderr.lines().filter_map(|line| line.strip_prefix('\t')).map(str::to_owned).collect();
        if !files.is_empty() {
            let message = format!("local changes in {place} would be overwritten: {}", named(&files));
            return Err(Failure::new(Reason::Conflict, message));
        }
        if ["not concluded your merge", "unmerged files", "CHERRY_PICK_HEAD exists"]
            .iter()
            .any(|text| output.stderr.contains(text))
        {
            let message = format!("an unfinished merge in {place} is in the way");
            return Err(Failure::new(Reason::Conflict, message));
        }
        if output.stderr.contains("Not possible to fast-forward") {
            let reason = Reason::Busy { retry_after_secs: None };
            return Err(Failure::new(reason, "the base was changed at the same time"));
        }
        Err(output.failure(&arguments))
    }
}
