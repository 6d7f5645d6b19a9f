//! Directories of this machine below those that the operator allows: repositories by a part of their path, or the content
//! of a directory, for a person who types a path.
//!
//! **Invariant:** no entry is outside of the allowed directories, and links are not followed.

use crate::catalogue::{Catalogue, Entry, Listing};
use crate::{Failure, HostFuture, Reason};
use std::collections::VecDeque;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

/// Maximum number of directories that one search reads.
const MAX_DIRECTORIES: usize = 2_000;
/// How deep below an allowed directory a search looks.
const MAX_DEPTH: usize = 4;
/// Maximum number of entries in a response.
const MAX_ENTRIES: usize = 100;

/// Directories with many others and no work of people.
const SKIPPED: [&str; 3] = ["node_modules", "target", "vendor"];

#[derive(Debug)]
pub(super) struct Folders {
    pub allowed: Vec<PathBuf>,
}

impl Catalogue for Folders {
    fn list<'a>(&'a self, query: &'a str, _cursor: Option<&'a str>) -> HostFuture<'a, Listing> {
        let (allowed, query) = (self.allowed.clone(), query.to_owned());
        Box::pin(async move {
            let listed = tokio::task::spawn_blocking(move || list(&allowed, &query)).await;
            let entries = listed.map_err(|_| Failure::new(Reason::Unreachable, "a search was stopped"))?;
            Ok(Listing { entries, next: None })
        })
    }
}

fn list(allowed: &[PathBuf], query: &str) -> Vec<Entry> {
    let allowed: Vec<PathBuf> = allowed.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let mut found = if query.starts_with('/') { content(&allowed, query) } else { search(&allowed, query) };
    found.truncate(MAX_ENTRIES);
    found.into_iter().filter_map(|path| entry(&path)).collect()
}

/// The directories whose path begins with what a person has typed.
fn content(allowed: &[PathBuf], typed: &str) -> Vec<PathBuf> {
    let (directory, beginning) = typed.rsplit_once('/').unwrap_or(("", typed));
    let parent = Path::new(if directory.is_empty() { "/" } else { directory }).canonicalize();
    let Some(parent) = parent.ok().filter(|parent| allowed.iter().any(|folder| parent.starts_with(folder)))
    else {
        // On the way to an allowed directory.
        let is_on_the_way = |folder: &&PathBuf| folder.to_string_lossy().starts_with(typed);
        return allowed.iter().filter(is_on_the_way).cloned().collect();
    };
    let itself = (beginning.is_empty() && is_repository(&parent)).then(|| parent.clone());
    let beginning = beginning.to_lowercase();
    let matches = |name: &str| {
        name.to_lowercase().starts_with(&beginning) && (beginning.starts_with('.') || !name.starts_with('.'))
    };
    itself.into_iter().chain(directories_in(&parent, matches)).collect()
}

/// Repositories whose path below an allowed directory contains the query, the least deep first.
fn search(allowed: &[PathBuf], query: &str) -> Vec<PathBuf> {
    let query = query.to_lowercase();
    let mut found = Vec::new();
    let mut waiting: VecDeque<(PathBuf, &Path, usize)> =
        allowed.iter().map(|folder| (folder.clone(), folder.as_path(), 0)).collect();
    for _ in 0..MAX_DIRECTORIES {
        let Some((directory, folder, depth)) = waiting.pop_front() else { break };
        if is_repository(&directory) {
            let shown = directory.strip_prefix(folder).ok().filter(|below| !below.as_os_str().is_empty());
            let shown = shown.unwrap_or(&directory).to_string_lossy().to_lowercase();
            if shown.contains(&query) && !found.contains(&directory) {
                found.push(directory);
            }
            if found.len() >= MAX_ENTRIES {
                break;
            }
        } else if depth < MAX_DEPTH {
            let is_of_people = |name: &str| !name.starts_with('.') && !SKIPPED.contains(&name);
            let below = directories_in(&directory, is_of_people);
            waiting.extend(below.into_iter().map(|below| (below, folder, depth + 1)));
        }
    }
    found
}

/// The directories in a directory, sorted, without links. A directory that cannot be read has none.
fn directories_in(directory: &Path, matches: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let is_directory = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().filter(is_directory);
    let wanted = entries.filter(|entry| entry.file_name().to_str().is_some_and(&matches));
    let mut found: Vec<PathBuf> = wanted.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Whether it has a working tree, or is bare.
fn is_repository(directory: &Path) -> bool {
    let has = |name: &str| directory.join(name).exists();
    has(".git") || has("HEAD") && has("objects") && has("refs")
}

fn entry(directory: &Path) -> Option<Entry> {
    let name = directory.to_str()?.to_owned();
    Some(Entry {
        address: name.clone(),
        name,
        description: None,
        default_branch: None,
        is_repository: is_repository(directory),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// `home` with repositories and other directories, and `outside` beside it.
    fn machine() -> (tempfile::TempDir, PathBuf) {
        let machine = tempfile::tempdir().unwrap();
        let home = machine.path().canonicalize().unwrap().join("home");
        for directory in [
            "code/shop/.git",
            "code/shop/src/nested/.git",
            "code/Shop-two/.git",
            "code/notes",
            "code/node_modules/x/.git",
            "code/.hidden/.git",
            "bare.git/objects",
            "bare.git/refs",
            "../outside/secret/.git",
        ] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        fs::write(home.join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        symlink(home.join("../outside"), home.join("code/link")).unwrap();
        (machine, home)
    }

    fn names(home: &Path, query: &str) -> Vec<(String, bool)> {
        let listed = list(&[home.to_owned()], query).into_iter();
        let below = |name: &str| name.strip_prefix(home.to_str().unwrap()).unwrap().to_owned();
        listed.map(|entry| (below(&entry.name), entry.is_repository)).collect()
    }

    fn repositories(home: &Path, query: &str) -> Vec<String> {
        names(home, query).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn repositories_are_found_by_a_part_of_their_path() {
        let (_machine, home) = machine();
        assert_eq!(repositories(&home, ""), ["/bare.git", "/code/Shop-two", "/code/shop"]);
        assert_eq!(repositories(&home, "shop"), ["/code/Shop-two", "/code/shop"]);
        assert_eq!(repositories(&home, "secret"), [""; 0]);
    }

    #[test]
    fn typed_path_lists_the_directories_that_it_can_become() {
        let (_machine, home) = machine();
        let typed = |end: &str| names(&home, &format!("{}{end}", home.display()));
        let listed = |names: &[(&str, bool)]| -> Vec<(String, bool)> {
            names.iter().map(|(name, is_repository)| ((*name).to_owned(), *is_repository)).collect()
        };
        assert_eq!(typed("/c"), listed(&[("/code", false)]));
        assert_eq!(typed("/code/sh"), listed(&[("/code/Shop-two", true), ("/code/shop", true)]));
        assert_eq!(typed("/code/.h"), listed(&[("/code/.hidden", true)]));
        assert_eq!(typed("/code/shop/"), listed(&[("/code/shop", true), ("/code/shop/src", false)]));
        assert_eq!(names(&home, &home.to_str().unwrap()[..4]), listed(&[("", false)]), "on the way");
    }

    #[test]
    fn nothing_outside_of_the_allowed_directories_is_listed() {
        let (_machine, home) = machine();
        for end in ["/../outside/", "/code/link/", "/code/../../outside/s", "/../../"] {
            assert_eq!(names(&home, &format!("{}{end}", home.display())), [], "{end}");
        }
        assert_eq!(names(&home, "/etc/"), []);
        assert_eq!(list(&[], "/"), []);
    }
}
