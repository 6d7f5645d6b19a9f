//! A change to one file, and its event.
//!
//! Results of the agent's edit tools become changes without reading the disk. All other changes are detected by
//! `snapshot`, which drops those that were emitted already, identified by [`EmittedChange`].

use crate::event::{Event, MAX_FIELD_BYTES, PREVIEW_CHARS, first_chars};
use contract::payloads::AgentFileEdited;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::path::Path;
use std::time::Duration;

/// Number of diff lines in the preview.
const PREVIEW_LINES: usize = 100;
/// After this time the diff algorithm returns an approximate result.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the workspace, or absolute if it is outside.
    pub path: String,
    pub change: Change,
    pub lines_added: u64,
    pub lines_removed: u64,
    /// Unified diff from `---` on, or its beginning if it is very long. Empty for binary and very large files.
    pub unified: String,
    /// Size of the full diff.
    pub unified_bytes: usize,
    /// Binary, or too large to diff.
    pub binary: bool,
    /// Fingerprint of the new content, if known.
    pub fingerprint: Option<Fingerprint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Created,
    /// Content or mode changed.
    Modified,
    Deleted,
    /// Content may have changed too.
    Renamed {
        from: String,
    },
}

/// Hash of a file's content. Carriage returns are ignored, because some agents convert line endings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

/// A change that was emitted already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmittedChange {
    pub path: String,
    pub fingerprint: Fingerprint,
    /// The file did not exist before.
    pub created: bool,
}

impl EmittedChange {
    /// Whether a change that was detected before this one was emitted is part of it. A file may be scanned while a tool writes it;
    /// the tool then reports the creation of the whole file.
    pub fn includes(&self, detected: &FileChange) -> bool {
        let is_equal = detected.fingerprint.as_ref() == Some(&self.fingerprint);
        detected.path == self.path && (is_equal || self.created && detected.change == Change::Created)
    }
}

impl FileChange {
    /// Compares a file's text before and after. `None` if they are equal.
    pub fn from_texts(path: &str, old: Option<&str>, new: Option<&str>) -> Option<Self> {
        let change = match (old, new) {
            (None, None) => return None,
            (None, Some(_)) => Change::Created,
            (Some(_), None) => Change::Deleted,
            (Some(old), Some(new)) if old == new => return None,
            (Some(_), Some(_)) => Change::Modified,
        };
        let empty = Self {
            fingerprint: new.map(|new| Fingerprint::of(new.as_bytes())),
            ..Self::without_diff(path, change)
        };
        let (before, after) = (old.unwrap_or_default(), new.unwrap_or_default());
        if before.contains('\0') || after.contains('\0') {
            return Some(Self { binary: true, ..empty });
        }
        let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before, after);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        let header = (header('a', path, old.is_some()), header('b', path, new.is_some()));
        let unified = diff.unified_diff().context_radius(3).header(&header.0, &header.1).to_string();
        Some(Self { lines_added: added, lines_removed: removed, ..empty.with_unified(unified) })
    }

    /// Parses the `tool_use_result` of Claude Code's Write and Edit. `None` for other tools, or if nothing changed.
    ///
    /// Prefers the texts over the included patch, which is formatted for display.
    pub fn from_claude(tool_use_result: &Value, root: &Path) -> Option<Self> {
        let text = |field: &str| tool_use_result.get(field).and_then(Value::as_str);
        let path = relative(text("filePath")?, root);
        let (original, content) = (text("originalFile"), text("content"));
        if original.is_none() && text("type") == Some("create") {
            return Self::from_texts(&path, None, Some(content?));
        }
        let edited = || {
            let (old, new) = (text("oldString")?, text("newString")?);
            let replace_all = tool_use_result.get("replaceAll").and_then(Value::as_bool).unwrap_or(false);
            replaced(original?, old, new, replace_all)
        };
        // If the user modified the edit before allowing it, only the patch contains the result.
        let user_modified = tool_use_result.get("userModified").and_then(Value::as_bool).unwrap_or(false);
        let new = if user_modified { None } else { content.map(str::to_owned).or_else(edited) };
        match (original, new) {
            (Some(original), Some(new)) => Self::from_texts(&path, Some(original), Some(&new)),
            _ => Self::from_hunks(&path, tool_use_result.get("structuredPatch")?),
        }
    }

    /// Identifies this change after it was emitted. `None` if the new content is unknown.
    pub fn emitted(&self) -> Option<EmittedChange> {
        let created = self.change == Change::Created;
        Some(EmittedChange { path: self.path.clone(), fingerprint: self.fingerprint.clone()?, created })
    }

    pub fn into_event(self, turn: u64, tool_use_id: Option<&str>) -> Event {
        let (change_type, previous) = match self.change {
            Change::Created => ("created", None),
            Change::Modified => ("modified", None),
            Change::Deleted => ("deleted", None),
            Change::Renamed { from } => ("renamed", Some(from)),
        };
        let lines: String = self.unified.split_inclusive('\n').take(PREVIEW_LINES).collect();
        let is_complete = self.unified.len() == self.unified_bytes && self.unified_bytes <= MAX_FIELD_BYTES;
        Event::agent(AgentFileEdited {
            turn,
            tool_use_id: tool_use_id.map(str::to_owned),
            file_path: self.path,
            change_type: change_type.to_owned(),
            previous_path: previous,
            lines_added: self.lines_added,
            lines_removed: self.lines_removed,
            diff_preview: first_chars(&lines, PREVIEW_CHARS).to_owned(),
            full_diff: is_complete.then_some(self.unified),
            full_diff_available: is_complete,
            full_diff_size: self.unified_bytes as u64,
            binary: self.binary,
        })
    }

    pub(super) fn without_diff(path: &str, change: Change) -> Self {
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
        let change = Self::without_diff(path, Change::Modified).with_unified(unified);
        Some(Self { lines_added: added, lines_removed: removed, ..change })
    }
}

impl Fingerprint {
    /// FNV-1a and the length: enough to detect another edit. Not cryptographic.
    pub(super) fn of(content: &[u8]) -> Self {
        let (mut hash, mut length) = (0xcbf2_9ce4_8422_2325_u64, 0_u64);
        for byte in content.iter().filter(|&&byte| byte != b'\r') {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            length += 1;
        }
        Self(format!("{length:x}-{hash:016x}"))
    }
}

/// Path relative to the workspace if it is inside; otherwise unchanged.
pub fn relative(path: &str, root: &Path) -> String {
    let inside = Path::new(path).strip_prefix(root).ok().map(Path::to_owned);
    // The agent may use the canonical path while `root` contains symbolic links.
    let canonical = || Path::new(path).strip_prefix(root.canonicalize().ok()?).ok().map(Path::to_owned);
    let found = inside.or_else(canonical).map(|path| path.to_string_lossy().into_owned());
    found.filter(|path| !path.is_empty()).unwrap_or_else(|| path.to_owned())
}

fn replaced(original: &str, old: &str, new: &str, replace_all: bool) -> Option<String> {
    match (old.is_empty(), replace_all) {
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
