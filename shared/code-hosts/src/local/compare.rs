//! Comparisons.

use super::repository::Repository;
use crate::{Comparison, Failure, FileChange, FileStatus, MAX_FILES, Reason};
use std::collections::BTreeMap;

/// The same for each list of one comparison, so that their entries have the same order.
const DIFF: [&str; 8] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
    "--ignore-submodules=none",
    "-O/dev/null",
    "-z",
];

/// An entry of `git diff --name-status`.
#[derive(Debug)]
pub(super) struct Entry {
    pub letter: char,
    pub path: String,
    pub previous_path: Option<String>,
}

impl Repository {
    pub(super) async fn compare(&self, base: &str, head: &str) -> Result<Comparison, Failure> {
        let (base, head) = (self.commit(base).await?, self.commit(head).await?);
        let common = self.git.find(&["merge-base", &base, &head]).await?.ok_or_else(|| {
            Failure::new(Reason::NotFound, format!("{base} and {head} have no common commit"))
        })?;
        let both = format!("{base}...{head}");
        let counts = self.git.text(&["rev-list", "--left-right", "--count", &both]).await?;
        let counts =
            counts.split_once('\t').and_then(|(left, right)| Some((left.parse().ok()?, right.parse().ok()?)));
        let (behind, ahead) =
            counts.ok_or_else(|| Failure::new(Reason::Unreachable, "git rev-list printed no numbers"))?;
        let listed = self.git.text(&[&DIFF[..], &["--name-status", &common, &head]].concat()).await?;
        let mut entries = entries(&listed);
        let files_cut = entries.len() > MAX_FILES;
        entries.truncate(MAX_FILES);
        let counted = self.git.text(&[&DIFF[..], &["--numstat", &common, &head]].concat()).await?;
        let counted = line_counts(&counted);
        let patches = self.patches(&entries, &common, &head).await?;
        let files = entries.into_iter().zip(patches);
        let mut files: Vec<FileChange> = files
            .map(|(entry, (patch, patch_cut))| {
                let (additions, deletions) = counted.get(&entry.path).copied().unwrap_or_default();
                let Entry { letter, path, previous_path } = entry;
                FileChange {
                    path,
                    previous_path,
                    status: status(letter),
                    additions,
                    deletions,
                    patch,
                    patch_cut,
                }
            })
            .collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Comparison { ahead, behind, files, files_cut })
    }
}

fn status(letter: char) -> FileStatus {
    match letter {
        'A' => FileStatus::Added,
        'D' => FileStatus::Removed,
        'R' => FileStatus::Renamed,
        'C' => FileStatus::Copied,
        _ => FileStatus::Modified,
    }
}

/// Each entry is `M`, a path; or `R086`, the old path, the new path. All parts end with a zero byte.
fn entries(listed: &str) -> Vec<Entry> {
    let mut parts = listed.split('\0');
    let mut found = Vec::new();
    while let Some(letter) = parts.next().and_then(|part| part.chars().next()) {
        let previous_path = ['R', 'C'].contains(&letter).then(|| parts.next().unwrap_or_default().to_owned());
        let Some(path) = parts.next() else { break };
        found.push(Entry { letter, path: path.to_owned(), previous_path });
    }
    found
}

/// Each entry is `1<tab>2<tab>path`; or for a renamed file `1<tab>2<tab>`, the old path, the new path. Binary
/// files have `-` for numbers.
fn line_counts(listed: &str) -> BTreeMap<String, (u64, u64)> {
    let mut parts = listed.split('\0');
    let mut found = BTreeMap::new();
    while let Some(part) = parts.next() {
        let fields: Vec<&str> = part.splitn(3, '\t').collect();
        let [additions, deletions, path] = fields[..] else { break };
        let path = if path.is_empty() { parts.nth(1).unwrap_or_default() } else { path };
        let number = |text: &str| text.parse().unwrap_or(0);
        found.insert(path.to_owned(), (number(additions), number(deletions)));
    }
    found
}
