//! Repositories in the workspace. Git would commit only the name of their last commit, which exists nowhere else.

use super::Settings;
use super::clone::LOCAL_TIMEOUT;
use super::git::Git;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Maximum number of repositories that are added. An agent can create any number.
const MAX_REPOSITORIES: usize = 50;

/// Repositories that are not in the index.
#[derive(Debug, Default)]
pub(super) struct NotAdded {
    /// They have a remote, or git cannot add them.
    pub left_out: Vec<Vec<u8>>,
    /// They have no file, and git cannot add them.
    pub empty: Vec<Vec<u8>>,
}

/// Adds the files of repositories in the workspace to the index, without their history.
pub(super) async fn add(git: &Git, settings: &Settings) -> NotAdded {
    let mut waiting: Vec<Vec<u8>> = find(git).await.into_iter().collect();
    let (mut not_added, mut count) = (NotAdded::default(), 0);
    while let Some(directory) = waiting.pop() {
        count += 1;
        let added = match count {
            ..=MAX_REPOSITORIES => add_one(git, settings, &directory).await,
            _ => None,
        };
        match added {
            Some(Added { files, repositories }) => {
                waiting.extend(repositories);
                if !files {
                    not_added.empty.push(directory);
                }
            }
            None => not_added.left_out.push(directory),
        }
    }
    not_added.left_out.sort();
    not_added
}

struct Added {
    /// Whether there are any.
    files: bool,
    /// Those in this one.
    repositories: Vec<Vec<u8>>,
}

/// `None` if it is left out.
async fn add_one(git: &Git, settings: &Settings, directory: &[u8]) -> Option<Added> {
    let inner = super::save::git_in(&settings.root.join(OsStr::from_bytes(directory)), settings);
    if !inner.text(&["remote"], LOCAL_TIMEOUT).await.ok()?.is_empty() {
        return None;
    }
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = inner.bytes(&list, Vec::new(), LOCAL_TIMEOUT).await.ok()?;
    let (mut names, mut repositories) = (Vec::new(), Vec::new());
    for name in listed.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let full = [directory, b"/", name.strip_suffix(b"/").unwrap_or(name)].concat();
        match std::fs::symlink_metadata(settings.root.join(OsStr::from_bytes(&full))) {
            Ok(metadata) if metadata.is_dir() => repositories.push(full),
            Ok(metadata) if metadata.is_file() || metadata.is_symlink() => {
                names.extend(full);
                names.push(0);
            }
            _ => {}
        }
    }
    let files = !names.is_empty();
    if files {
        let add = ["update-index", "-z", "--add", "--replace", "--stdin"];
        git.bytes(&add, names, LOCAL_TIMEOUT).await.ok()?;
    }
    Some(Added { files, repositories })
}

/// The argument of `git add` that leaves out a directory. `None` if its name is not UTF-8.
pub(super) fn exclusion(directory: &[u8]) -> Option<String> {
    Some(format!(":(exclude,literal){}", std::str::from_utf8(directory).ok()?))
}

/// Repositories that are not submodules of the workspace: untracked ones, and those that the agent has added.
async fn find(git: &Git) -> BTreeSet<Vec<u8>> {
    let others = ["ls-files", "-z", "--others", "--exclude-standard"];
    // Fails if there are too many files. Then git adds what it can.
    let listed = git.bytes(&others, Vec::new(), LOCAL_TIMEOUT).await.unwrap_or_default();
    let untracked = listed.split(|&byte| byte == 0).filter_map(|name| name.strip_suffix(b"/"));
    let mut found: BTreeSet<Vec<u8>> = untracked.map(<[u8]>::to_vec).collect();
    let stage = ["ls-files", "-z", "--stage"];
    let staged = git.bytes(&stage, Vec::new(), LOCAL_TIMEOUT).await.unwrap_or_default();
    let links: Vec<&[u8]> = staged
        .split(|&byte| byte == 0)
        .filter(|entry| entry.starts_with(b"160000 "))
        .filter_map(|entry| Some(&entry[entry.iter().position(|&byte| byte == b'\t')? + 1..]))
        .collect();
    if !links.is_empty() {
        let paths = ["config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"];
        let submodules = git.bytes(&paths, Vec::new(), LOCAL_TIMEOUT).await.unwrap_or_default();
        let submodules: Vec<&[u8]> = submodules
            .split(|&byte| byte == 0)
            .filter_map(|entry| Some(&entry[entry.iter().position(|&byte| byte == b'\n')? + 1..]))
            .collect();
        found.extend(links.into_iter().filter(|link| !submodules.contains(link)).map(<[u8]>::to_vec));
    }
    found
}
