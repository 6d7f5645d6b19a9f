//! Comparisons.

use super::GitHub;
use super::branches::unexpected;
use super::http::{Call, in_path};
use crate::change::cut_patch;
use crate::{Comparison, Failure, FileChange, FileStatus, MAX_FILES};
use reqwest::Method;
use serde_json::Value;

impl GitHub {
    pub(super) async fn comparison(&self, base: &str, head: &str) -> Result<Comparison, Failure> {
        // The first page has all files that GitHub returns, whatever the number of commits per page.
        let path = self.path(&format!("/compare/{}...{}?per_page=1", in_path(base), in_path(head)));
        let doing = format!("comparing {head} with {base}");
        let body = self.http.send(&Call::new(Method::GET, &path, &doing)).await?.body;
        read(&body).ok_or_else(|| unexpected("a comparison"))
    }
}

fn read(body: &Value) -> Option<Comparison> {
    let listed = body["files"].as_array()?;
    let files: Option<Vec<FileChange>> = listed.iter().take(MAX_FILES).map(file).collect();
    let mut files = files?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Some(Comparison {
        ahead: body["ahead_by"].as_u64()?,
        behind: body["behind_by"].as_u64()?,
        files,
        // GitHub returns no more files and does not report how many there are.
        files_cut: listed.len() >= MAX_FILES,
    })
}

fn file(found: &Value) -> Option<FileChange> {
    let text = |name: &str| found[name].as_str().map(str::to_owned);
    let status = match found["status"].as_str()? {
        "added" => FileStatus::Added,
        "removed" => FileStatus::Removed,
        "renamed" => FileStatus::Renamed,
        "copied" => FileStatus::Copied,
        _ => FileStatus::Modified,
    };
    let (additions, deletions) = (found["additions"].as_u64()?, found["deletions"].as_u64()?);
    let patch = text("patch");
    // GitHub leaves out patches of binary files and large ones; only the latter count lines.
    let is_left_out = patch.is_none() && additions + deletions > 0;
    let (patch, is_cut) = patch.map_or((None, false), |patch| {
        let (patch, is_cut) = cut_patch(patch);
        (Some(patch), is_cut)
    });
    Some(FileChange {
        path: text("filename")?,
        previous_path: text("previous_filename"),
        status,
        additions,
        deletions,
        patch,
        patch_cut: is_cut || is_left_out,
    })
}
