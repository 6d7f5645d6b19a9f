//! A change of a file, as an event.

use crate::event::{Event, MAX_FIELD_BYTES, first_chars};
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

const PREVIEW_LINES: usize = 100;
const PREVIEW_CHARS: usize = 5_000;

/// How long the smallest difference may be looked for. After that a larger one will do.
const PATIENCE: Duration = Duration::from_millis(200);

/// `agent.file_edited`, without `turn` and `tool_use_id`. `None` is a file that is not there.
pub fn file_edited(path: &str, old: Option<&str>, new: Option<&str>) -> Event {
    let change_type = match (old, new) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "modified",
    };
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old.unwrap_or(""), new.unwrap_or(""));
    let (mut added, mut removed) = (0_u64, 0_u64);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    let name = path.trim_start_matches('/');
    let before = old.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{name}"));
    let after = new.map_or_else(|| "/dev/null".to_owned(), |_| format!("b/{name}"));
    let full = diff.unified_diff().header(&before, &after).to_string();
    let preview: String = full.split_inclusive('\n').take(PREVIEW_LINES).collect();
    let size = full.len();
    let kept = (size <= MAX_FIELD_BYTES).then_some(full);
    Event::agent("agent.file_edited")
        .with("file_path", path)
        .with("change_type", change_type)
        .with("lines_added", added)
        .with("lines_removed", removed)
        .with("diff_preview", first_chars(&preview, PREVIEW_CHARS))
        .with("full_diff_available", kept.is_some())
        .with("full_diff_size", size)
        .with("full_diff", kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_counted_and_shown() {
        let edited = file_edited("/w/a.txt", Some("1\n2\n3\n"), Some("1\ntwo\n3\n4\n"));
        assert_eq!(edited.data["change_type"], "modified");
        assert_eq!((&edited.data["lines_added"], &edited.data["lines_removed"]), (&2.into(), &1.into()));
        let expected = "--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1,3 +1,4 @@\n 1\n-2\n+two\n 3\n+4\n";
        assert_eq!(edited.data["full_diff"], expected);
        assert_eq!(edited.data["full_diff_available"], true);
    }

    #[test]
    fn a_long_change_is_shown_in_part_and_a_very_long_one_is_not_sent() {
        let long = "line\n".repeat(200);
        let created = file_edited("/w/a.txt", None, Some(&long));
        assert_eq!(created.data["change_type"], "created");
        assert_eq!(created.data["diff_preview"].as_str().unwrap().lines().count(), PREVIEW_LINES);
        assert_eq!(created.data["full_diff"].as_str().unwrap().lines().count(), 203);
        let deleted = file_edited("/w/a.txt", Some(&"line\n".repeat(100_000)), None);
        assert_eq!(deleted.data["change_type"], "deleted");
        assert!(deleted.data["full_diff"].is_null());
        assert_eq!(deleted.data["full_diff_available"], false);
    }
}
