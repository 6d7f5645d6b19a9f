//! What changed between two looks at the workspace, as git says it.

use super::diff::{Change, FileChange};
use super::git::GitError;
use super::shadow::{LONGEST, Seen, Shadow};
use crate::event::MAX_FIELD_BYTES;
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Changes that are told after one tool. A checkout of another branch is no edit of ten thousand files.
const MOST_CHANGES: usize = 1_000;
/// Bytes of all diffs after one tool. Further changes are told without theirs.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// What is kept of a diff that cannot be kept whole: enough for a preview.
const BEGINNING: usize = 32 * 1024;

/// A change, and which content it ends in.
pub(super) struct Found {
    pub change: FileChange,
    /// Git's name for the content, unless the file is gone or large.
    pub blob: Option<String>,
    /// How many parts of git's patch are about it.
    parts: usize,
}

/// What changed from `old` to `new`, and how many more changes there are than are told.
pub(super) async fn between(
    shadow: &Shadow,
    old: &Seen,
    new: &Seen,
) -> Result<(Vec<Found>, usize), GitError> {
    let mut found = Vec::new();
    if old.tree != new.tree {
        let trees = [old.tree.as_str(), new.tree.as_str()];
        let list = ["diff-tree", "-r", "-M", "-z", "--raw", "--numstat", "--no-abbrev"];
        let listed = shadow.git.bytes(&[&list[..], &trees].concat(), Vec::new(), LONGEST).await?;
        found = changes(&listed);
        let patch = ["diff-tree", "-r", "-M", "-p", "--no-color", "--no-ext-diff", "--no-textconv"];
        let parts: Vec<usize> = found.iter().map(|found| found.parts).collect();
        let read = |output| async move { texts(output, &parts).await };
        let texts = shadow.git.read(&[&patch[..], &trees].concat(), Vec::new(), LONGEST, read).await?;
        for (found, (text, bytes)) in found.iter_mut().zip(texts) {
            (found.change.unified, found.change.unified_bytes) = (text, bytes);
        }
    }
    add_large(&mut found, &old.large, &new.large);
    let left_out = found.len().saturating_sub(MOST_CHANGES);
    found.truncate(MOST_CHANGES);
    Ok((found, left_out))
}

/// Git's list of changes: first all as `:modes names status`, path, then all with their counts.
fn changes(listed: &[u8]) -> Vec<Found> {
    let mut fields = listed.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let mut next = || fields.next().map(std::borrow::Cow::into_owned).unwrap_or_default();
    let mut found: Vec<Found> = Vec::new();
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
        // A file that becomes a link is one removed and one added to git's patch.
        let parts = if status.starts_with('T') { 2 } else { 1 };
        found.push(Found { change: FileChange::bare(&path, change), blob, parts });
        field = next();
    }
    for found in &mut found {
        let mut counts = field.splitn(3, '\t');
        let (added, removed) = (counts.next().unwrap_or_default(), counts.next().unwrap_or_default());
        if counts.next().is_none_or(str::is_empty) {
            // The names of a renamed file follow as fields of their own.
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

/// The diffs in a patch, each from its `---` line on, and how long each is. `parts` says how many of git's belong
/// together.
async fn texts(patch: impl AsyncRead + Unpin, parts: &[usize]) -> io::Result<Vec<(String, usize)>> {
    let mut patch = BufReader::new(patch);
    let mut texts: Vec<(Vec<u8>, usize)> = vec![(Vec::new(), 0); parts.len()];
    let owners: Vec<usize> =
        parts.iter().enumerate().flat_map(|(index, &parts)| std::iter::repeat_n(index, parts)).collect();
    let (mut owners, mut owner, mut begun, mut kept) = (owners.into_iter(), None, false, 0);
    let mut line = Vec::new();
    while patch.read_until(b'\n', &mut line).await? > 0 {
        if line.starts_with(b"diff --git ") {
            (owner, begun) = (owners.next(), false);
        }
        begun |= line.starts_with(b"--- ");
        if let Some(owner) = owner.filter(|_| begun) {
            let (text, bytes) = &mut texts[owner];
            let whole = *bytes == text.len();
            let fits = *bytes + line.len() <= MAX_FIELD_BYTES && kept + line.len() <= MOST_BYTES;
            if whole && (fits || *bytes < BEGINNING) {
                let part = if fits { &line[..] } else { &line[..line.len().min(BEGINNING)] };
                text.extend_from_slice(part);
                kept += part.len();
            }
            *bytes += line.len();
            if *bytes > text.len() && text.len() > BEGINNING {
                kept -= text.len() - BEGINNING;
                text.truncate(BEGINNING);
                text.shrink_to_fit();
            }
        }
        line.clear();
    }
    Ok(texts.into_iter().map(|(text, bytes)| as_text(&text, bytes)).collect())
}

/// A diff may hold other encodings. Its length is that of what is told.
fn as_text(text: &[u8], bytes: usize) -> (String, usize) {
    let whole = text.len() == bytes;
    let text = String::from_utf8_lossy(text).into_owned();
    let bytes = if whole { text.len() } else { bytes.max(text.len() + 1) };
    (text, bytes)
}

/// Large files. One that was small before is, for git, gone; one that is small now is new.
fn add_large(found: &mut Vec<Found>, old: &BTreeMap<String, (u64, i64)>, new: &BTreeMap<String, (u64, i64)>) {
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
        let binary = FileChange { binary: true, ..FileChange::bare(path, change) };
        match found.iter_mut().find(|found| found.change.path == *path) {
            Some(found) => {
                found.change = FileChange { change: Change::Modified, ..binary };
            }
            None => found.push(Found { change: binary, blob: None, parts: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_git_is_read() {
        let (none, one, two) = ("0".repeat(40), "1".repeat(40), "2".repeat(40));
        let listed = format!(
            ":000000 100644 {none} {one} A\0new file\0:100644 000000 {one} {none} D\0old\0\
             :100644 100644 {one} {two} R090\0from\0to\0:100644 120000 {one} {two} T\0link\0\
             3\t0\tnew file\00\t2\told\01\t1\t\0from\0to\0-\t-\tlink\0"
        );
        let found = changes(listed.as_bytes());
        let short: Vec<_> = found
            .iter()
            .map(|Found { change, parts, .. }| {
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
        assert_eq!((found[1].blob.as_ref(), found[2].blob.as_ref()), (None, Some(&two)));
    }

    #[tokio::test]
    async fn a_very_long_diff_keeps_its_beginning_and_its_length() {
        let head = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n";
        let long = format!("{head}{}", "+a line\n".repeat(MAX_FIELD_BYTES / 4));
        let short = "diff --git a/y b/y\nsimilarity index 100%\nrename from z\nrename to y\n";
        let patch = format!("{long}{short}{head}+z\n");
        let texts = texts(patch.as_bytes(), &[1, 1, 1]).await.unwrap();
        assert_eq!(texts[0].0.len(), BEGINNING);
        assert_eq!(texts[0].1, long.len() - "diff --git a/x b/x\nindex 1..2\n".len());
        assert_eq!(texts[1], (String::new(), 0));
        assert_eq!(texts[2].0, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n+z\n");
    }

    #[test]
    fn a_file_that_grew_large_is_changed_and_not_gone() {
        let gone = Found { change: FileChange::bare("a", Change::Deleted), blob: None, parts: 1 };
        let mut found = vec![gone];
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
