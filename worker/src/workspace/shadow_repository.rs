//! A shadow git repository over the workspace, which takes snapshots without touching the agent's own repository.
//!
//! Its objects and index are in the worker's state directory. They belong to the agent's user, if it has one of its own, so
//! that git needs no more permissions than the agent: the worker writes there without following links. The last snapshot is
//! outside of it. Files are inspected and added by name, not with
//! `git add -A`, which would copy files of any size and fails on a nested repository without a commit. Deliberately
//! absent: changes inside nested repositories; and garbage collection, because sandboxes are ephemeral.

use super::git::{Git, GitError};
use crate::agent_files;
use confine::Launcher;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;

/// Changes of larger files are detected, but their content is not read.
pub(super) const LARGE_BYTES: u64 = 2 * 1024 * 1024;

/// Timeout of each git command. Callers have shorter timeouts.
pub(super) const GIT_TIMEOUT: Duration = Duration::from_secs(120);

/// In the worker's state directory.
const DIRECTORY: &str = "snapshots";
/// In the worker's state directory: the last snapshot, for the time after a restart.
const LAST: &str = "last-snapshot.json";
/// In the repository.
const EXCLUDE: &str = "info/exclude";

/// Generated files that are always ignored, whatever the workspace's `.gitignore` says. `target`, `build` and `dist`
/// are not included, because people use these names for source directories. Generated ones are recognized by
/// [`CACHE_MARKERS`].
const GENERATED: &str = "node_modules/\n.venv/\n__pycache__/\n*.pyc\n.DS_Store\n";

/// Files that mark their directory as a cache (<https://bford.info/cachedir/>) or a Python environment.
const CACHE_MARKERS: [&str; 2] = ["CACHEDIR.TAG", "pyvenv.cfg"];

/// Store content unchanged: no line ending conversion and no filters of the workspace.
const UNCHANGED_ATTRIBUTES: &str = "* -text -eol -filter -ident -working-tree-encoding\n";

#[derive(Debug, Clone)]
pub(super) struct ShadowRepository {
    pub dir: PathBuf,
    state: PathBuf,
    pub root: PathBuf,
    pub launcher: Launcher,
    pub git: Git,
}

/// Content of the workspace at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub root: PathBuf,
    /// Git tree id of all files except large ones.
    pub tree: String,
    /// Large files with size and modification time.
    pub large: BTreeMap<String, (u64, i64)>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ScanError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl ShadowRepository {
    /// Creates the repository of snapshots if it does not exist.
    pub async fn open(root: &Path, state: &Path, launcher: &Launcher) -> Result<Self, ScanError> {
        Self::open_in(root, state, launcher, DIRECTORY).await
    }

    /// With another directory below the state directory.
    pub async fn open_in(
        root: &Path,
        state: &Path,
        launcher: &Launcher,
        directory: &str,
    ) -> Result<Self, ScanError> {
        let root = root.canonicalize()?;
        fs::create_dir_all(state).await?;
        let state = state.canonicalize()?;
        let dir = state.join(directory);
        // Git reads what the agent wrote, so it gets no more than the agent and its own objects.
        let launcher = launcher.with_writable([dir.clone()]);
        let is_new = fs::symlink_metadata(dir.join("HEAD")).await.is_err();
        agent_files::create_directories(&state, Path::new(directory))?;
        let (owner, owned) = (launcher.clone(), dir.clone());
        tokio::task::spawn_blocking(move || owner.change_owner_of_tree(&owned))
            .await
            .map_err(io::Error::other)??;
        if is_new {
            Git::new(&dir, &launcher).text(&["init", "--quiet", "--bare"], GIT_TIMEOUT).await?;
        }
        let mut exclude = GENERATED.to_owned();
        if let Ok(inside) = state.strip_prefix(&root) {
            exclude.push_str(&pattern(inside.as_os_str().as_bytes()));
        }
        agent_files::create_directories(&dir, Path::new("info"))?;
        write(&dir, EXCLUDE, exclude.as_bytes())?;
        write(&dir, "info/attributes", UNCHANGED_ATTRIBUTES.as_bytes())?;
        let git = git(&dir, &root, &launcher);
        Ok(Self { dir, state, root, launcher, git })
    }

    /// Git with another work tree, but the same index.
    pub fn within(&self, directory: &Path) -> Git {
        git(&self.dir, directory, &self.launcher)
    }

    /// The last saved snapshot, if it is of this workspace.
    pub async fn last(&self) -> Option<Snapshot> {
        let bytes = fs::read(self.state.join(LAST)).await.ok()?;
        serde_json::from_slice(&bytes).ok().filter(|snapshot: &Snapshot| snapshot.root == self.root)
    }

    /// Saves a snapshot for the time after a restart.
    pub async fn save(&self, snapshot: &Snapshot) -> Result<(), ScanError> {
        let next = format!("{LAST}.next");
        write(&self.state, &next, &serde_json::to_vec(snapshot).map_err(io::Error::other)?)?;
        Ok(fs::rename(self.state.join(next), self.state.join(LAST)).await?)
    }

    /// Takes a snapshot. If git cannot update the index (for example, a directory became a link), it starts from
    /// scratch.
    pub async fn scan(&self) -> Result<Snapshot, ScanError> {
        match self.scan_once().await {
            Err(ScanError::Git(GitError::Failed { .. })) => {
                remove_if_exists(&self.dir.join("index")).await?;
                self.scan_once().await
            }
            result => result,
        }
    }

    async fn scan_once(&self) -> Result<Snapshot, ScanError> {
        // No other process uses this index, so a lock was left by a killed git.
        remove_if_exists(&self.dir.join("index.lock")).await?;
        let list = ["ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard"];
        let listed = self.git.bytes(&list, Vec::new(), GIT_TIMEOUT).await?;
        let (root, launcher) = (self.root.clone(), self.launcher.clone());
        let files = tokio::task::spawn_blocking(move || FileLists::new(&root, &launcher, &listed)).await;
        let files = files.map_err(io::Error::other)?;
        if !files.generated.is_empty() {
            let exclude = io::read_to_string(agent_files::open(&self.dir, Path::new(EXCLUDE))?)?;
            write(&self.dir, EXCLUDE, (exclude + &files.generated).as_bytes())?;
        }
        if !files.removed.is_empty() {
            let remove = ["update-index", "-z", "--force-remove", "--stdin"];
            self.git.bytes(&remove, files.removed, GIT_TIMEOUT).await?;
        }
        if !files.changed.is_empty() {
            let add = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
            self.git.bytes(&add, files.changed, GIT_TIMEOUT).await?;
        }
        let tree = self.git.text(&["write-tree"], GIT_TIMEOUT).await?;
        Ok(Snapshot { root: self.root.clone(), tree, large: files.large })
    }
}

fn git(dir: &Path, root: &Path, launcher: &Launcher) -> Git {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    Git::new(root, launcher)
        .variables([("GIT_DIR".to_owned(), text(dir)), ("GIT_WORK_TREE".to_owned(), text(root))])
        .setting("core.bare", "false")
        .setting("core.autocrlf", "false")
        .setting("core.fsmonitor", "false")
        .setting("core.quotePath", "false")
        .setting("core.loosecompression", "1")
        .setting("core.fsync", "none")
}

/// Files listed by git, by the action that they need. Names in lists are terminated by zero bytes.
#[derive(Default)]
struct FileLists {
    changed: Vec<u8>,
    removed: Vec<u8>,
    large: BTreeMap<String, (u64, i64)>,
    generated: String,
}

impl FileLists {
    fn new(root: &Path, launcher: &Launcher, listed: &[u8]) -> Self {
        let names = || listed.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let cache_dirs: Vec<&[u8]> = names().filter_map(cache_dir).collect();
        let mut files = Self::default();
        for dir in &cache_dirs {
            files.generated.push_str(&pattern(dir));
        }
        // A name that ends with a slash is a nested repository.
        let is_generated = |name: &[u8]| {
            cache_dirs.iter().any(|dir| name.strip_prefix(*dir).is_some_and(|rest| rest.starts_with(b"/")))
        };
        for name in names().filter(|name| !name.ends_with(b"/") && !is_generated(name)) {
            files.add(root, launcher, name);
        }
        files
    }

    fn add(&mut self, root: &Path, launcher: &Launcher, name: &[u8]) {
        let path = root.join(OsStr::from_bytes(name));
        let list = match std::fs::symlink_metadata(&path) {
            Err(_) => &mut self.removed,
            Ok(metadata) if metadata.is_symlink() => &mut self.changed,
            Ok(metadata) if !metadata.is_file() => &mut self.removed,
            Ok(metadata) if metadata.len() > LARGE_BYTES => {
                use std::os::unix::fs::MetadataExt;
                let changed =
                    metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
                let name = String::from_utf8_lossy(name).into_owned();
                self.large.insert(name, (metadata.len(), changed));
                &mut self.removed
            }
            // Skip unreadable files: git, with the agent's user, would fail for all others too.
            Ok(metadata) if !launcher.may_read(&metadata) => &mut self.removed,
            Ok(_) if std::fs::File::open(&path).is_err() => &mut self.removed,
            Ok(_) => &mut self.changed,
        };
        list.extend_from_slice(name);
        list.push(0);
    }
}

/// The directory that this file marks as generated. Never the workspace itself.
pub(super) fn cache_dir(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().rposition(|&byte| byte == b'/')?;
    CACHE_MARKERS.iter().any(|marker| marker.as_bytes() == &name[end + 1..]).then_some(&name[..end])
}

/// A gitignore line that matches exactly this directory.
fn pattern(dir: &[u8]) -> String {
    let mut line = "/".to_owned();
    for character in String::from_utf8_lossy(dir).chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | ' ') {
            line.push('\\');
        }
        line.push(character);
    }
    line + "/\n"
}

/// The agent may have put links into the directory.
pub(super) fn write(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    agent_files::create(directory, Path::new(name))?.write_all(content)
}

pub(super) async fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
