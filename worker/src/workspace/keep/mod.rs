//! Files in which the work of the agent outlives the sandbox: an archive of the workspace, a patch, a bundle of commits.
//!
//! The content of the archive goes through a git repository of the worker, like snapshots: git reads the workspace with the
//! permissions of the agent, stores links as links, and follows none.
//!
//! **Invariant:** the archive contains regular files of the workspace, and links that stay in it; nothing else.
//!
//! Deliberately absent: what the ignore rules of the repository exclude, generated directories such as `node_modules`,
//! empty directories, and the history of repositories in the workspace.

mod choice;
mod file;

pub use file::KeptFile;

use super::Settings;
use super::git::{Git, GitError};
use super::shadow_repository::{
    GIT_TIMEOUT, ScanError, ShadowRepository, cache_dir, remove_if_exists, write,
};
use choice::{Choice, Limits};
use domain::kept::{Format, LeftOut};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tokio::fs;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;

/// In the state directory of the worker: the repository.
const REPOSITORY: &str = "kept-objects";
/// In the state directory of the worker, out of the agent's reach: the files.
const DIRECTORY: &str = "kept";

/// In the archive.
const PREFIX: &str = "--prefix=workspace/";

/// Names of files that are read of a listing. An agent can create any number of files.
const MAX_LISTING_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of repositories in the workspace whose files are kept.
const MAX_REPOSITORIES: usize = 50;
/// A larger patch is of no use: the archive has the files.
pub const MAX_PATCH_BYTES: u64 = 8 * 1024 * 1024;

/// Attributes of the workspace change neither what is stored, nor what the archive contains, nor how changes are shown.
const ATTRIBUTES: &str =
    "* -text -eol -filter -ident -working-tree-encoding -export-ignore -export-subst !diff !merge\n";

/// Which part of the workspace is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    All,
    /// Only these directories.
    Directories(Vec<Vec<u8>>),
}

/// The files of a workspace at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The id of a git tree: equal for equal files.
    pub tree: String,
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<ScanError> for Error {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Git(error) => Self::Git(error),
            ScanError::Io(error) => Self::Io(error),
        }
    }
}

/// Writes the files into the state directory of the worker.
#[derive(Debug)]
pub struct Keeper {
    shadow: ShadowRepository,
    directory: PathBuf,
    limits: Limits,
}

impl Keeper {
    /// `max_bytes` limits the files in the archive, before compression.
    pub async fn open(settings: &Settings, max_bytes: u64) -> Result<Self, Error> {
        let Settings { root, state, launcher, .. } = settings;
        let directory = directory(settings).await?;
        let shadow = ShadowRepository::open_in(root, state, launcher, REPOSITORY).await?;
        write(&shadow.dir, "info/attributes", ATTRIBUTES.as_bytes())?;
        Ok(Self { shadow, directory, limits: Limits { bytes: max_bytes, ..Limits::default() } })
    }

    /// Stores the current files of the workspace in the repository.
    pub async fn content(&self, part: &Part) -> Result<Content, Error> {
        let git = &self.shadow.git;
        for name in ["index", "index.lock"] {
            remove_if_exists(&self.shadow.dir.join(name)).await?;
        }
        let (names, mut left_out) = self.list(part).await?;
        let (root, launcher, limits) = (self.shadow.root.clone(), self.shadow.launcher.clone(), self.limits);
        let choice = tokio::task::spawn_blocking(move || Choice::of(&root, &launcher, names, limits));
        let choice = choice.await.map_err(io::Error::other)?;
        // Processes of the agent may delete a file meanwhile.
        let add = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
        if !choice.names.is_empty() {
            git.bytes(&add, choice.input(), GIT_TIMEOUT).await?;
        }
        let stored = git.bytes(&["ls-files", "-z"], Vec::new(), GIT_TIMEOUT).await?;
        left_out.extend(choice.not_in(&stored));
        left_out.extend(choice.left_out);
        let tree = git.text(&["write-tree"], GIT_TIMEOUT).await?;
        Ok(Content { tree, left_out })
    }

    /// The files as tar, compressed with zstd.
    pub async fn archive(&self, content: &Content) -> Result<KeptFile, Error> {
        let git = self.shadow.git.clone().setting("tar.umask", "0022");
        let arguments = ["archive", "--format=tar", PREFIX, &content.tree];
        let path = self.directory.join("archive");
        Ok(git
            .read(&arguments, Vec::new(), GIT_TIMEOUT, |tar| file::compress(tar, path, Format::Archive))
            .await?)
    }

    /// Whether there is nothing, not even something that is left out.
    pub async fn is_empty(&self, content: &Content) -> Result<bool, Error> {
        Ok(content.left_out.is_empty() && content.tree == self.empty_tree().await?)
    }

    /// The changes since the workspace was empty. `None` if there are too many.
    pub async fn patch(&self, content: &Content) -> Result<Option<KeptFile>, Error> {
        let empty = self.empty_tree().await?;
        let options = ["diff-tree", "-p", "-r", "--binary", "--full-index", "--no-ext-diff", "--no-textconv"];
        let arguments = [&options[..], &[&empty, &content.tree]].concat();
        let path = self.directory.join("patch");
        let copy = |diff| file::copy(diff, path, Format::Patch, MAX_PATCH_BYTES);
        Ok(self.shadow.git.read(&arguments, Vec::new(), GIT_TIMEOUT, copy).await?)
    }

    async fn empty_tree(&self) -> Result<String, GitError> {
        self.shadow.git.text(&["hash-object", "-t", "tree", "/dev/null"], GIT_TIMEOUT).await
    }

    /// Names of all files that are not ignored, also those in repositories. A name is relative to the workspace.
    async fn list(&self, part: &Part) -> Result<(Vec<Vec<u8>>, Vec<LeftOut>), Error> {
        let mut waiting: Vec<Vec<u8>> = match part {
            Part::All => vec![Vec::new()],
            Part::Directories(directories) => directories.clone(),
        };
        let (mut names, mut left_out) = (Vec::new(), Vec::new());
        let mut repositories = 0;
        while let Some(directory) = waiting.pop() {
            let is_root = directory.is_empty();
            let path = self.shadow.root.join(OsStr::from_bytes(&directory));
            if !is_root {
                repositories += 1;
                let shown = String::from_utf8_lossy(&directory).into_owned();
                if repositories > MAX_REPOSITORIES {
                    left_out
                        .push(LeftOut { path: shown, reason: "there are too many repositories".to_owned() });
                    continue;
                }
                let reason = "the history of this repository; its files are kept".to_owned();
                left_out.push(LeftOut { path: format!("{shown}/.git"), reason });
            }
            let (listed, is_complete) = match list_others(&self.shadow.within(&path)).await {
                Ok(listed) => listed,
                Err(error) if is_root => return Err(error.into()),
                Err(error) => {
                    let path = String::from_utf8_lossy(&directory).into_owned();
                    left_out.push(LeftOut { path, reason: format!("its files cannot be listed: {error}") });
                    continue;
                }
            };
            if !is_complete {
                let path =
                    if is_root { ".".into() } else { String::from_utf8_lossy(&directory).into_owned() };
                left_out.push(LeftOut { path, reason: "further files: there are too many".to_owned() });
            }
            let listed = || listed.split(|&byte| byte == 0).filter(|name| !name.is_empty());
            let caches: Vec<&[u8]> = listed().filter_map(cache_dir).collect();
            for name in listed() {
                let in_cache = caches
                    .iter()
                    .any(|cache| name.strip_prefix(*cache).is_some_and(|rest| rest.starts_with(b"/")));
                if in_cache {
                    continue;
                }
                let separator: &[u8] = if is_root { b"" } else { b"/" };
                let full = [&directory[..], separator, name].concat();
                match full.strip_suffix(b"/") {
                    Some(repository) => waiting.push(repository.to_vec()),
                    None => names.push(full),
                }
            }
        }
        Ok((names, left_out))
    }
}

/// Where kept files are written.
pub(crate) async fn directory(settings: &Settings) -> io::Result<PathBuf> {
    let directory = settings.state.join(DIRECTORY);
    fs::create_dir_all(&directory).await?;
    Ok(directory)
}

/// All files that are neither ignored nor in the index, which is empty. A repository is listed as a directory. The second
/// value is whether that is all.
async fn list_others(git: &Git) -> Result<(Vec<u8>, bool), GitError> {
    let arguments = ["ls-files", "-z", "--others", "--exclude-standard"];
    let read = async |mut output: ChildStdout| {
        let (mut listed, mut chunk, mut is_complete) = (Vec::new(), vec![0; 64 * 1024], true);
        loop {
            match output.read(&mut chunk).await? {
                0 => break,
                read if listed.len() + read <= MAX_LISTING_BYTES => listed.extend_from_slice(&chunk[..read]),
                _ => is_complete = false,
            }
        }
        if !is_complete {
            let end = listed.iter().rposition(|&byte| byte == 0).map_or(0, |end| end + 1);
            listed.truncate(end);
        }
        Ok((listed, is_complete))
    };
    git.read(&arguments, Vec::new(), GIT_TIMEOUT, read).await
}

#[cfg(test)]
mod tests;
