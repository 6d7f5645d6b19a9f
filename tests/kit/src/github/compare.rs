//! Comparisons.

use super::git::Git;
use super::rest::{Reply, Repository};
use serde_json::{Value, json};

/// GitHub returns no more files, and no larger patches.
const MAX_FILES: usize = 300;
const MAX_PATCH_BYTES: usize = 1024 * 1024;

impl Repository {
    /// `base...head`.
    pub(super) fn compare(&self, range: &str) -> Reply {
        let not_found = || Reply::refusal(404, "Not Found");
        let Some((base, head)) = range.split_once("...") else { return not_found() };
        let (Some(base), Some(head)) = (self.git.commit(base), self.git.commit(head)) else {
            return not_found();
        };
        let Ok(common) = self.git.run(&["merge-base", &base, &head]) else {
            return Reply::refusal(404, "No common ancestor between the two");
        };
        let listed = self.git.run(&["diff", "--name-status", "--find-renames", "-z", &common, &head]);
        let listed = listed.expect("git compares existing commits");
        let mut parts = listed.split('\0').filter(|part| !part.is_empty());
        let mut files = Vec::new();
        while let (Some(letter), true) = (parts.next(), files.len() < MAX_FILES) {
            let previous = letter.starts_with('R').then(|| parts.next().unwrap_or_default());
            files.push(file(&self.git, &common, &head, letter, previous, parts.next().unwrap_or_default()));
        }
        let (ahead, behind) = (self.git.ahead(&base, &head), self.git.ahead(&head, &base));
        Reply::new(200, json!({"ahead_by": ahead, "behind_by": behind, "files": files}))
    }
}

fn file(git: &Git, common: &str, head: &str, letter: &str, previous: Option<&str>, path: &str) -> Value {
    let status = match &letter[..1] {
        "A" => "added",
        "D" => "removed",
        "R" => "renamed",
        _ => "modified",
    };
    let paths = [previous.unwrap_or(path), path];
    let diff = |arguments: &[&str]| {
        let all = [&["diff", "--find-renames"], arguments, &[common, head, "--"], &paths].concat();
        git.run(&all).expect("git compares existing commits")
    };
    let counts = diff(&["--numstat"]);
    let mut numbers = counts.split('\t').map(|number| number.parse::<u64>().unwrap_or(0));
    let (additions, deletions) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let patch = diff(&["--patch"]);
    let hunks = patch.find("\n@@").map(|position| &patch[position + 1..]);
    let mut shown = json!({
        "filename": path, "status": status, "additions": additions, "deletions": deletions,
        "changes": additions + deletions,
    });
    if let Some(hunks) = hunks.filter(|hunks| hunks.len() <= MAX_PATCH_BYTES) {
        shown["patch"] = json!(hunks);
    }
    if let Some(previous) = previous {
        shown["previous_filename"] = json!(previous);
    }
    shown
}
