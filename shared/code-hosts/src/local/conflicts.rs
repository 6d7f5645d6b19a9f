//! Conflicts, found by trial merges in the object database. No branch and no file changes.

use super::merge::Tree;
use super::repository::Repository;
use crate::change::{ConflictingFile, ConflictingPair, Conflicts};
use crate::{Failure, MAX_FILES};
use std::fmt::Write;

/// Maximum number of files of a conflict whose hunks are read.
const MAX_FILES_WITH_HUNKS: usize = 20;
/// Maximum size of the hunks of one file.
const MAX_HUNK_BYTES: usize = 4 * 1024;
/// Maximum size of a file that is searched for hunks.
const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;

impl Repository {
    pub(super) async fn conflicts(&self, base: &str, heads: &[String]) -> Result<Conflicts, Failure> {
        let base = self.commit(base).await?;
        let mut commits = Vec::new();
        for head in heads {
            commits.push(self.commit(head).await?);
        }
        let mut pairs = Vec::new();
        for (one, commit) in commits.iter().enumerate() {
            let files = self.conflicting_files(&base, commit, true).await?;
            pairs.push(ConflictingPair { one, other: None, files });
            for (other, other_commit) in commits.iter().enumerate().skip(one + 1) {
                let files = self.conflicting_files(commit, other_commit, false).await?;
                pairs.push(ConflictingPair { one, other: Some(other), files });
            }
        }
        pairs.retain(|pair| !pair.files.is_empty());
        Ok(Conflicts { estimated: false, pairs })
    }

    async fn conflicting_files(
        &self,
        ours: &str,
        theirs: &str,
        with_hunks: bool,
    ) -> Result<Vec<ConflictingFile>, Failure> {
        let (tree, mut files) = match self.merged_tree([ours, theirs]).await? {
            Tree::Clean(_) => return Ok(Vec::new()),
            Tree::Conflict { tree, files } => (tree, files),
        };
        files.truncate(MAX_FILES);
        let mut found = Vec::new();
        for (index, path) in files.into_iter().enumerate() {
            let hunks = match with_hunks && index < MAX_FILES_WITH_HUNKS {
                true => self.hunks(&tree, &path).await?,
                false => None,
            };
            found.push(ConflictingFile { path, hunks });
        }
        Ok(found)
    }

    /// What contradicts each other in a file of a tree that a trial merge has made. `None` if the file is not text, or if
    /// one side has deleted or renamed it.
    async fn hunks(&self, tree: &str, path: &str) -> Result<Option<String>, Failure> {
        let output = self.git.run(&["cat-file", "blob", &format!("{tree}:{path}")], &[], &[]).await?;
        if output.code != 0 || output.stdout.len() > MAX_FILE_BYTES {
            return Ok(None);
        }
        Ok(std::str::from_utf8(&output.stdout).ok().and_then(hunks_of))
    }
}

/// The parts between the marks of a merge, each with its line.
fn hunks_of(text: &str) -> Option<String> {
    let (mut found, mut is_inside) = (String::new(), false);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("<<<<<<< ") {
            is_inside = true;
            let _ = writeln!(found, "@@ line {} @@", index + 1);
        }
        if is_inside {
            if found.len() + line.len() > MAX_HUNK_BYTES {
                found.push_str("…\n");
                break;
            }
            let _ = writeln!(found, "{line}");
        }
        is_inside &= !line.starts_with(">>>>>>> ");
    }
    Some(found).filter(|found| !found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_the_parts_between_the_marks() {
        let text =
            "a\n<<<<<<< one\nmine\n=======\ntheirs\n>>>>>>> two\nb\n<<<<<<< one\n=======\nx\n>>>>>>> two\n";
        let expected = "@@ line 2 @@\n<<<<<<< one\nmine\n=======\ntheirs\n>>>>>>> two\n\
                        @@ line 8 @@\n<<<<<<< one\n=======\nx\n>>>>>>> two\n";
        assert_eq!(hunks_of(text).as_deref(), Some(expected));
        assert_eq!(hunks_of("plain\n"), None);
        let long = format!("<<<<<<< one\n{}>>>>>>> two\n", "line\n".repeat(5_000));
        let cut = hunks_of(&long).unwrap();
        assert!(cut.len() <= MAX_HUNK_BYTES + 8 && cut.ends_with("…\n"), "{}", cut.len());
    }
}
