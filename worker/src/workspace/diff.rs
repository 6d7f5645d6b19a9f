//! A change to one file, and how it is told.
//!
//! What an agent's edit tools say about their own edits becomes a change without a look at the disk. Whatever else
//! changes files is found by `snapshot`, which drops what was told already: a [`Told`] names a file and what it holds.

use crate::event::{Event, MAX_FIELD_BYTES, PREVIEW_CHARS, first_chars};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::path::Path;
use std::time::Duration;

/// Lines of a diff that are shown at once.
const PREVIEW_LINES: usize = 100;
/// How long the smallest diff is looked for before a larger one will do.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the workspace, or absolute if it is outside.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// How many lines are new.
    pub lines_added: u64,
    /// How many are gone.
    pub lines_removed: u64,
    /// The diff from `---` on, or its first part if it is very long. Empty for binary and very large files.
    pub unified: String,
    /// How long the whole diff is.
    pub unified_bytes: usize,
    /// Whether it is no text, or too large to be looked at.
    pub binary: bool,
    /// What the file holds now, if that is known.
    pub fingerprint: Option<Fingerprint>,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Created,
    /// It holds something else, or has another mode.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another name, and may hold something else.
    Renamed {
        /// The name it had.
        from: String,
    },
}

/// What a file holds, in short. Line ends do not count: some agents change them on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

/// A change that the plane was told of already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The file.
    pub path: String,
    /// What it held then.
    pub fingerprint: Fingerprint,
}

impl FileChange {
    /// From a file's text before and after. Nothing if they are the same.
    pub fn from_texts(path: &str, old: Option<&str>, new: Option<&str>) -> Option<Self> {
        let change = match (old, new) {
            (None, None) => return None,
            (None, Some(_)) => Change::Created,
            (Some(_), None) => Change::Deleted,
            (Some(old), Some(new)) if old == new => return None,
            (Some(_), Some(_)) => Change::Modified,
        };
        let empty =
            Self { fingerprint: new.map(|new| Fingerprint::of(new.as_bytes())), ..Self::bare(path, change) };
        let (before, after) = (old.unwrap_or_default(), new.unwrap_or_default());
        if before.contains('\0') || after.contains('\0') {
            return Some(Self { binary: true, ..empty });
        }
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(before, after);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        let header = (header('a', path, old.is_some()), header('b', path, new.is_some()));
        let unified = diff.unified_diff().context_radius(3).header(&header.0, &header.1).to_string();
        Some(Self { lines_added: added, lines_removed: removed, ..empty.with_unified(unified) })
    }

    /// From the `tool_use_result` of Claude Code's Write and Edit. Nothing if it is another tool's, or nothing changed.
    ///
    /// The texts are preferred to the patch that comes with them: that one is made to be shown.
    pub fn from_claude(tool_use_result: &Value, root: &Path) -> Option<Self> {
        let text = |field: &str| tool_use_result.get(field).and_then(Value::as_str);
        let path = relative(text("filePath")?, root);
        let (original, content) = (text("originalFile"), text("content"));
        if original.is_none() && text("type") == Some("create") {
            return Self::from_texts(&path, None, Some(content?));
        }
        let edited = || {
            let (old, new) = (text("oldString")?, text("newString")?);
            let everywhere = tool_use_result.get("replaceAll").and_then(Value::as_bool).unwrap_or(false);
            replaced(original?, old, new, everywhere)
        };
        // What a person changed in the edit before allowing it is in the patch only.
        let by_person = tool_use_result.get("userModified").and_then(Value::as_bool).unwrap_or(false);
        let new = if by_person { None } else { content.map(str::to_owned).or_else(edited) };
        match (original, new) {
            (Some(original), Some(new)) => Self::from_texts(&path, Some(original), Some(&new)),
            _ => Self::from_hunks(&path, tool_use_result.get("structuredPatch")?),
        }
    }

    /// What to remember of it once it is told, if it is known what the file holds now.
    pub fn told(&self) -> Option<Told> {
        Some(Told { path: self.path.clone(), fingerprint: self.fingerprint.clone()? })
    }

    /// As the plane is told.
    pub fn into_event(self, turn: u64, tool_use_id: Option<&str>) -> Event {
        let (change_type, previous) = match self.change {
            Change::Created => ("created", None),
            Change::Modified => ("modified", None),
            Change::Deleted => ("deleted", None),
            Change::Renamed { from } => ("renamed", Some(from)),
        };
        let lines: String = self.unified.split_inclusive('\n').take(PREVIEW_LINES).collect();
        let whole = self.unified.len() == self.unified_bytes && self.unified_bytes <= MAX_FIELD_BYTES;
        Event::agent("agent.file_edited")
            .with("turn", turn)
            .with("tool_use_id", tool_use_id)
            .with("file_path", self.path)
            .with("change_type", change_type)
            .with_some("previous_path", previous)
            .with("lines_added", self.lines_added)
            .with("lines_removed", self.lines_removed)
            .with("diff_preview", first_chars(&lines, PREVIEW_CHARS))
            .with("full_diff", whole.then_some(self.unified))
            .with("full_diff_available", whole)
            .with("full_diff_size", self.unified_bytes)
            .with("binary", self.binary)
    }

    /// Without a diff.
    pub(super) fn bare(path: &str, change: Change) -> Self {
        Self {
            path: path.to_owned(),
            change,
            lines_added: 0,
            lines_removed: 0,
            unified: String::new(),
            unified_bytes: 0,
            binary: false,
            fingerprint: None,
        }
    }

    fn with_unified(self, unified: String) -> Self {
        Self { unified_bytes: unified.len(), unified, ..self }
    }

    fn from_hunks(path: &str, patch: &Value) -> Option<Self> {
        let mut unified = format!("{}\n{}\n", headline("---", 'a', path), headline("+++", 'b', path));
        let (mut added, mut removed) = (0, 0);
        for hunk in patch.as_array().filter(|hunks| !hunks.is_empty())? {
            let number = |field: &str| hunk.get(field).and_then(Value::as_u64);
            let (old, old_lines) = (number("oldStart")?, number("oldLines")?);
            let (new, new_lines) = (number("newStart")?, number("newLines")?);
            unified.push_str(&format!("@@ -{old},{old_lines} +{new},{new_lines} @@\n"));
            for line in hunk.get("lines")?.as_array()?.iter().filter_map(Value::as_str) {
                added += u64::from(line.starts_with('+'));
                removed += u64::from(line.starts_with('-'));
                unified.push_str(line);
                unified.push('\n');
            }
        }
        let change = Self::bare(path, Change::Modified).with_unified(unified);
        Some(Self { lines_added: added, lines_removed: removed, ..change })
    }
}

impl Fingerprint {
    /// Of what a file holds. FNV-1a and the length: it tells a file from itself after another edit, and keeps no secret.
    pub(super) fn of(content: &[u8]) -> Self {
        let (mut hash, mut length) = (0xcbf2_9ce4_8422_2325_u64, 0_u64);
        for byte in content.iter().filter(|&&byte| byte != b'\r') {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            length += 1;
        }
        Self(format!("{length:x}-{hash:016x}"))
    }
}

/// How a path is told: relative to the workspace if it is inside.
pub fn relative(path: &str, root: &Path) -> String {
    let inside = Path::new(path).strip_prefix(root).ok().map(Path::to_owned);
    // An agent may name its folder as the system does, where we name it as the user did.
    let real = || Path::new(path).strip_prefix(root.canonicalize().ok()?).ok().map(Path::to_owned);
    let found = inside.or_else(real).map(|path| path.to_string_lossy().into_owned());
    found.filter(|path| !path.is_empty()).unwrap_or_else(|| path.to_owned())
}

fn replaced(original: &str, old: &str, new: &str, everywhere: bool) -> Option<String> {
    match (old.is_empty(), everywhere) {
        (true, _) => original.is_empty().then(|| new.to_owned()),
        (false, true) => original.contains(old).then(|| original.replace(old, new)),
        (false, false) => original.contains(old).then(|| original.replacen(old, new, 1)),
    }
}

fn header(side: char, path: &str, exists: bool) -> String {
    if exists { format!("{side}/{}", path.trim_start_matches('/')) } else { "/dev/null".to_owned() }
}

fn headline(mark: &str, side: char, path: &str) -> String {
    format!("{mark} {}", header(side, path, true))
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
