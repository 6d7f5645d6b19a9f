//! Changes between two snapshots of the workspace, computed by git.

use super::diff::{Change, FileChange};
use super::git::GitError;
use super::shadow_repository::{GIT_TIMEOUT, ShadowRepository, Snapshot};
use crate::event::MAX_FIELD_BYTES;
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum number of changes reported after one tool. A branch checkout may change ten thousand files.
const MAX_CHANGES: usize = 1_000;
/// Maximum total size of the diffs after one tool. Further changes are reported without a diff.
const MAX_DIFF_BYTES: usize = 4 * 1024 * 1024;
/// Size to which a diff is truncated that exceeds the limits. Enough for a preview.
const TRUNCATED_BYTES: usize = 32 * 1024;

/// A change and its new content.
pub(super) struct DetectedChange {
    pub change: FileChange,
    /// Git object id of the content, unless the file was deleted or is large.
    pub blob: Option<String>,
    /// Number of sections of git's patch that belong to it.
    parts: usize,
}

/// Changes from `old` to `new`, and the number of further changes that are omitted.
pub(super) async fn between(
    shadow: &ShadowRepository,
    old: &Snapshot,
    new: &Snapshot,
) -> Result<(Vec<DetectedChange>, usize), GitError> {
    let mut found = Vec::new();
    if old.tree != new.tree {
        let trees = [old.tree.as_str(), new.tree.as_str()];
        let list = ["diff-tree", "-r", "-M", "-z", "--raw", "--numstat", "--no-abbrev"];
        let listed = shadow.git.bytes(&[&list[..], &trees].concat(), Vec::new(), GIT_TIMEOUT).await?;
        found = changes(&listed);
        let patch = ["diff-tree", "-r", "-M", "-p", "--no-color", "--no-ext-diff", "--no-textconv"];
        let parts: Vec<usize> = found.iter().map(|found| found.parts).collect();
        let read = |output| async move { texts(output, &parts).await };
        let texts = shadow.git.read(&[&patch[..], &trees].concat(), Vec::new(), GIT_TIMEOUT, read).await?;
        for (found, (text, bytes)) in found.iter_mut().zip(texts) {
            (found.change.unified, found.change.unified_bytes) = (text, bytes);
        }
    }
    add_large(&mut found, &old.large, &new.large);
    let omitted = found.len().saturating_sub(MAX_CHANGES);
    found.truncate(MAX_CHANGES);
    Ok((found, omitted))
}

/// Parses `--raw --numstat -z`: first all changes as `:modes ids status`, path; then all with their line counts.
fn changes(listed: &[u8]) -> Vec<DetectedChange> {
    let mut fields = listed.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let mut next = || fields.next().map(std::borrow::Cow::into_owned).unwrap_or_default();
    let mut found: Vec<DetectedChange> = Vec::new();
    let mut field = next();
    while let Some(entry) = field.strip_prefix(':') {
        let words: Vec<&str> = entry.split(' ').collect();
        let [_, _, _, blob, status] = words[..] else { break };
        let path = next();
        let (path, change) = match status.chars().next() {
            Some('A') => (path, Change::Created),
            Some('D') => (path, Change::Deleted),
            Some('R') => (next(), Change::Renamed { from: path }),
            _ => (path, Change::Modified),
        };
        let blob = (change != Change::Deleted).then(|| blob.to_owned());
        // A file that becomes a symbolic link is a deletion and an addition in git's patch.
        let parts = if status.starts_with('T') { 2 } else { 1 };
        found.push(DetectedChange { change: FileChange::without_diff(&path, change), blob, parts });
        field = next();
    }
    for found in &mut found {
        let mut counts = field.splitn(3, '\t');
        let (added, removed) = (counts.next().unwrap_or_default(), counts.next().unwrap_or_default());
        if counts.next().is_none_or(str::is_empty) {
            // The paths of a renamed file follow as separate fields.
            next();
            next();
        }
        found.change.binary = added == "-";
        found.change.lines_added = added.parse().unwrap_or(0);
        found.change.lines_removed = removed.parse().unwrap_or(0);
        field = next();
    }
    found
}

/// Splits a patch into diffs, each from its `---` line on, with their full sizes. `parts` is the number of sections of
/// each change.
async fn texts(patch: impl AsyncRead + Unpin, parts: &[usize]) -> io::Result<Vec<(String, usize)>> {
    let mut patch = BufReader::new(patch);
    let mut texts: Vec<(Vec<u8>, usize)> = vec![(Vec::new(), 0); parts.len()];
    let owners: Vec<usize> =
        parts.iter().enumerate().flat_map(|(index, &parts)| std::iter::repeat_n(index, parts)).collect();
    let (mut owners, mut owner, mut started, mut total) = (owners.into_iter(), None, false, 0);
    let mut line = Vec::new();
    while patch.read_until(b'\n', &mut line).await? > 0 {
        if line.starts_with(b"diff --git ") {
            (owner, started) = (owners.next(), false);
        }
        started |= line.starts_with(b"--- ");
        if let Some(owner) = owner.filter(|_| started) {
            let (text, bytes) = &mut texts[owner];
            let is_complete = *bytes == text.len();
            let fits = *bytes + line.len() <= MAX_FIELD_BYTES && total + line.len() <= MAX_DIFF_BYTES;
            if is_complete && (fits || *bytes < TRUNCATED_BYTES) {
                let part = if fits { &line[..] } else { &line[..line.len().min(TRUNCATED_BYTES)] };
                text.extend_from_slice(part);
                total += part.len();
            }
            *bytes += line.len();
            if *bytes > text.len() && text.len() > TRUNCATED_BYTES {
                total -= text.len() - TRUNCATED_BYTES;
                text.truncate(TRUNCATED_BYTES);
                text.shrink_to_fit();
            }
        }
        line.clear();
    }
    Ok(texts.into_iter().map(|(text, bytes)| as_text(&text, bytes)).collect())
}

/// A diff may contain invalid UTF-8. The returned size refers to the converted text.
fn as_text(text: &[u8], bytes: usize) -> (String, usize) {
    let is_complete = text.len() == bytes;
    let text = String::from_utf8_lossy(text).into_owned();
    let bytes = if is_complete { text.len() } else { bytes.max(text.len() + 1) };
    (text, bytes)
}

/// Adds changes of large files. To git, a file that became large was deleted, and one that became small was created.
fn add_large(
    found: &mut Vec<DetectedChange>,
    old: &BTreeMap<String, (u64, i64)>,
    new: &BTreeMap<String, (u64, i64)>,
) {
    let mut large = Vec::new();
    for (path, size) in new {
        match old.get(path) {
            Some(before) if before == size => {}
            Some(_) => large.push((path, Change::Modified)),
            None => large.push((path, Change::Created)),
        }
    }
    large.extend(old.keys().filter(|path| !new.contains_key(*path)).map(|path| (path, Change::Deleted)));
    for (path, change) in large {
        let binary = FileChange { binary: true, ..FileChange::without_diff(path, change) };
        match found.iter_mut().find(|found| found.change.path == *path) {
            Some(found) => {
                found.change = FileChange { change: Change::Modified, ..binary };
            }
            None => found.push(DetectedChange { change: binary, blob: None, parts: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_change_list_is_parsed() {
        let (zero, old, new) = ("0".repeat(40), "1".repeat(40), "2".repeat(40));
        let listed = format!(
            ":000000 100644 {zero} {old} A\0new file\0:100644 000000 {old} {zero} D\0old\0\
             :100644 100644 {old} {new} R090\0from\0to\0:100644 120000 {old} {new} T\0link\0\
             3\t0\tnew file\00\t2\told\01\t1\t\0from\0to\0-\t-\tlink\0"
        );
        let found = changes(listed.as_bytes());
        let short: Vec<_> = found
            .iter()
            .map(|DetectedChange { change, parts, .. }| {
                (change.path.as_str(), change.lines_added, change.lines_removed, change.binary, *parts)
            })
            .collect();
        assert_eq!(
            short,
            [
                ("new file", 3, 0, false, 1),
                ("old", 0, 2, false, 1),
                ("to", 1, 1, false, 1),
                ("link", 0, 0, true, 2)
            ]
        );
        assert_eq!(found[2].change.change, Change::Renamed { from: "from".to_owned() });
        assert_eq!((found[1].blob.as_ref(), found[2].blob.as_ref()), (None, Some(&new)));
    }

    #[tokio::test]
    async fn long_diff_is_truncated_and_keeps_its_size() {
        let header = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n";
        let long = format!("{header}{}", "+a line\n".repeat(MAX_FIELD_BYTES / 4));
        let short = "diff --git a/y b/y\nsimilarity index 100%\nrename from z\nrename to y\n";
        let patch = format!("{long}{short}{header}+z\n");
        let texts = texts(patch.as_bytes(), &[1, 1, 1]).await.unwrap();
        assert_eq!(texts[0].0.len(), TRUNCATED_BYTES);
        assert_eq!(texts[0].1, long.len() - "diff --git a/x b/x\nindex 1..2\n".len());
        assert_eq!(texts[1], (String::new(), 0));
        assert_eq!(texts[2].0, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n+z\n");
    }

    #[test]
    fn file_that_became_large_is_modified() {
        let deleted =
            DetectedChange { change: FileChange::without_diff("a", Change::Deleted), blob: None, parts: 1 };
        let mut found = vec![deleted];
        let (old, new) = (
            BTreeMap::from([("b".to_owned(), (9, 1)), ("c".to_owned(), (9, 1)), ("e".to_owned(), (9, 1))]),
            BTreeMap::from([("a".to_owned(), (9, 1)), ("b".to_owned(), (9, 1)), ("c".to_owned(), (9, 2))]),
        );
        add_large(&mut found, &old, &new);
        let short: Vec<_> =
            found.iter().map(|found| (found.change.path.as_str(), &found.change.change)).collect();
        assert_eq!(short, [("a", &Change::Modified), ("c", &Change::Modified), ("e", &Change::Deleted)]);
        assert!(found.iter().all(|found| found.change.binary));
    }
}
