//! A git repository of our own over the workspace: it sees the agent's files, and the agent's repository never sees it.
//!
//! Its objects and its index are in the worker's state folder. Files are added by name after a look at each, and not by
//! `git add -A`, which would copy files of any size and stops at a repository inside the workspace that has no commit.
//! Deliberately absent: what happens inside of such nested repositories; and tidying up, because a sandbox is thrown
//! away as a whole.

use super::git::{Git, GitError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::fs;

/// Larger files are seen to change, but not looked into.
pub(super) const LARGE_BYTES: u64 = 2 * 1024 * 1024;

/// Nothing here may take longer. Whoever calls has a shorter deadline.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// What programs make and nobody writes, whatever the workspace's own `.gitignore` says. `target`, `build` and `dist`
/// are not here: people give their own folders such names. Those that programs made have a mark of [`MARKS`] inside.
const GENERATED: &str = "node_modules/\n.venv/\n__pycache__/\n*.pyc\n.DS_Store\n";

/// Files that say that their folder is a cache (<https://bford.info/cachedir/>), or a Python environment.
const MARKS: [&str; 2] = ["CACHEDIR.TAG", "pyvenv.cfg"];

/// Content is stored as it is: no line ends changed, no filter of the workspace run.
const AS_IT_IS: &str = "* -text -eol -filter -ident -working-tree-encoding\n";

/// Our repository over a workspace.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    folder: PathBuf,
    root: PathBuf,
    pub git: Git,
}

/// What the workspace held at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Which workspace.
    pub root: PathBuf,
    /// Git's name for all files but the large ones.
    pub tree: String,
    /// The large ones, with length and time of the last change.
    pub large: BTreeMap<String, (u64, i64)>,
}

/// Why the workspace could not be looked at.
#[derive(Debug, thiserror::Error)]
pub(super) enum Blind {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Shadow {
    /// Makes it, if it is not there.
    pub async fn open(root: &Path, state: &Path) -> Result<Self, Blind> {
        let root = root.canonicalize()?;
        fs::create_dir_all(state).await?;
        let state = state.canonicalize()?;
        let folder = state.join("snapshots");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if fs::symlink_metadata(folder.join("HEAD")).await.is_err() {
            Git::new(&state).text(&["init", "--quiet", "--bare", &text(&folder)], LONGEST).await?;
        }
        let mut exclude = GENERATED.to_owned();
        if let Ok(inside) = state.strip_prefix(&root) {
            exclude.push_str(&pattern(inside.as_os_str().as_bytes()));
        }
        fs::create_dir_all(folder.join("info")).await?;
        fs::write(folder.join("info/exclude"), exclude).await?;
        fs::write(folder.join("info/attributes"), AS_IT_IS).await?;
        let places = [("GIT_DIR".to_owned(), text(&folder)), ("GIT_WORK_TREE".to_owned(), text(&root))];
        let git = Git::new(&root)
            .variables(places)
            .setting("core.bare", "false")
            .setting("core.autocrlf", "false")
            .setting("core.fsmonitor", "false")
            .setting("core.quotePath", "false")
            .setting("core.loosecompression", "1")
            .setting("core.fsync", "none");
        Ok(Self { folder, root, git })
    }

    /// What was seen last, if it was this workspace.
    pub async fn last(&self) -> Option<Seen> {
        let bytes = fs::read(self.folder.join("last.json")).await.ok()?;
        serde_json::from_slice(&bytes).ok().filter(|seen: &Seen| seen.root == self.root)
    }

    /// Remembers what was seen, for after a restart.
    pub async fn keep(&self, seen: &Seen) -> Result<(), Blind> {
        let next = self.folder.join("last.json.next");
        fs::write(&next, serde_json::to_vec(seen).map_err(io::Error::other)?).await?;
        Ok(fs::rename(next, self.folder.join("last.json")).await?)
    }

    /// Looks at the workspace. What the index cannot follow (a folder became a link, say) is looked at from scratch.
    pub async fn look(&self) -> Result<Seen, Blind> {
        match self.look_once().await {
            Err(Blind::Git(GitError::Refused { .. })) => {
                remove_if_there(&self.folder.join("index")).await?;
                self.look_once().await
            }
            looked => looked,
        }
    }

    async fn look_once(&self) -> Result<Seen, Blind> {
        // Nobody else uses this index: a lock is what a killed git left.
        remove_if_there(&self.folder.join("index.lock")).await?;
        let list = ["ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard"];
        let listed = self.git.bytes(&list, Vec::new(), LONGEST).await?;
        let root = self.root.clone();
        let sorted = tokio::task::spawn_blocking(move || Sorted::new(&root, &listed)).await;
        let sorted = sorted.map_err(io::Error::other)?;
        if !sorted.generated.is_empty() {
            let path = self.folder.join("info/exclude");
            fs::write(&path, fs::read_to_string(&path).await? + &sorted.generated).await?;
        }
        if !sorted.gone.is_empty() {
            let remove = ["update-index", "-z", "--force-remove", "--stdin"];
            self.git.bytes(&remove, sorted.gone, LONGEST).await?;
        }
        if !sorted.changed.is_empty() {
            let add = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
            self.git.bytes(&add, sorted.changed, LONGEST).await?;
        }
        let tree = self.git.text(&["write-tree"], LONGEST).await?;
        Ok(Seen { root: self.root.clone(), tree, large: sorted.large })
    }
}

/// Files that git listed, by what is to be done about them. Lists of names end each name with a zero.
#[derive(Default)]
struct Sorted {
    changed: Vec<u8>,
    gone: Vec<u8>,
    large: BTreeMap<String, (u64, i64)>,
    generated: String,
}

impl Sorted {
    fn new(root: &Path, listed: &[u8]) -> Self {
        let names = || listed.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let marked: Vec<&[u8]> = names().filter_map(marked_folder).collect();
        let mut sorted = Self::default();
        for folder in &marked {
            sorted.generated.push_str(&pattern(folder));
        }
        // A name that ends with a slash is a repository in the workspace.
        let made = |name: &[u8]| {
            marked.iter().any(|folder| name.strip_prefix(*folder).is_some_and(|rest| rest.starts_with(b"/")))
        };
        for name in names().filter(|name| !name.ends_with(b"/") && !made(name)) {
            sorted.sort(root, name);
        }
        sorted
    }

    fn sort(&mut self, root: &Path, name: &[u8]) {
        let path = root.join(OsStr::from_bytes(name));
        let list = match std::fs::symlink_metadata(&path) {
            Err(_) => &mut self.gone,
            Ok(metadata) if metadata.is_symlink() => &mut self.changed,
            Ok(metadata) if !metadata.is_file() => &mut self.gone,
            Ok(metadata) if metadata.len() > LARGE_BYTES => {
                use std::os::unix::fs::MetadataExt;
                let changed =
                    metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
                let name = String::from_utf8_lossy(name).into_owned();
                self.large.insert(name, (metadata.len(), changed));
                &mut self.gone
            }
            // What may not be read is not there for us: git would give up on all the others.
            Ok(_) if std::fs::File::open(&path).is_err() => &mut self.gone,
            Ok(_) => &mut self.changed,
        };
        list.extend_from_slice(name);
        list.push(0);
    }
}

/// The folder that this file marks as made by a program. The workspace itself is none, whatever lies there.
fn marked_folder(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().rposition(|&byte| byte == b'/')?;
    MARKS.iter().any(|mark| mark.as_bytes() == &name[end + 1..]).then_some(&name[..end])
}

/// The line of an exclude file that means exactly this folder.
fn pattern(folder: &[u8]) -> String {
    let mut line = "/".to_owned();
    for character in String::from_utf8_lossy(folder).chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | ' ') {
            line.push('\\');
        }
        line.push(character);
    }
    line + "/\n"
}

async fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
