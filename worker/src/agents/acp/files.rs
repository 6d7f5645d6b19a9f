//! Files that an agent may read and write through the worker: those in its workspace.
//!
//! The agent can change the workspace between the check of a path and its use, so files are opened without following
//! links.

use crate::agent_files;
use agent_client_protocol_schema::v1::{Error, ErrorCode};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

/// Maximum size of a file that an agent can read. The content passes through the worker's memory and the model.
pub const MAX_READ_BYTES: u64 = 8 * 1024 * 1024;

/// A workspace, by its canonical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// # Errors
    /// When the directory does not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { root: path.canonicalize()? })
    }

    /// The text of a file, or `limit` lines starting at `line`, which counts from 1.
    ///
    /// # Errors
    /// When the file is outside of the workspace, missing, too large, or not UTF-8.
    pub fn read(&self, path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, Error> {
        let path = self.resolve(path)?;
        let file = agent_files::open(&self.root, self.inner(&path)).map_err(|error| failed(&path, &error))?;
        let metadata = file.metadata().map_err(|error| failed(&path, &error))?;
        if metadata.len() > MAX_READ_BYTES {
            return Err(invalid(format!("{} is larger than {MAX_READ_BYTES} bytes.", path.display())));
        }
        let text = io::read_to_string(file.take(MAX_READ_BYTES)).map_err(|error| failed(&path, &error))?;
        if line.is_none() && limit.is_none() {
            return Ok(text);
        }
        let first = line.map_or(0, |line| line.saturating_sub(1));
        let lines = text.split_inclusive('\n').skip(usize::try_from(first).unwrap_or(usize::MAX));
        Ok(lines
            .take(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
            .collect())
    }

    /// Writes a file and creates its parent directories.
    ///
    /// # Errors
    /// When the file is outside of the workspace or cannot be written.
    pub fn write(&self, path: &Path, content: &str) -> Result<(), Error> {
        let path = self.resolve(path)?;
        if let Some(parent) = path.parent() {
            let created = agent_files::create_directories(&self.root, self.inner(parent));
            created.map_err(|error| failed(parent, &error))?;
        }
        let file = agent_files::create(&self.root, self.inner(&path));
        file.and_then(|mut file| file.write_all(content.as_bytes())).map_err(|error| failed(&path, &error))
    }

    /// A working directory for a command. Defaults to the workspace itself.
    ///
    /// # Errors
    /// When it is outside of the workspace or not a directory.
    pub fn directory(&self, path: Option<&Path>) -> Result<PathBuf, Error> {
        let path = self.resolve(path.unwrap_or(&self.root))?;
        if !path.is_dir() {
            return Err(invalid(format!("{} is not a directory.", path.display())));
        }
        Ok(path)
    }

    /// A resolved path, relative to the workspace.
    fn inner<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).expect("a resolved path is inside of the workspace")
    }

    /// The canonical path of an existing or future file. Fails if it is outside of the workspace.
    fn resolve(&self, path: &Path) -> Result<PathBuf, Error> {
        let requested = self.root.join(path);
        let mut existing = requested.as_path();
        let mut missing: Vec<OsString> = Vec::new();
        // A dangling symbolic link counts as existing, and fails to resolve below.
        while fs::symlink_metadata(existing).is_err() {
            let (Some(parent), Some(Component::Normal(name))) =
                (existing.parent(), existing.components().next_back())
            else {
                return Err(invalid(format!("{} was not found.", path.display())));
            };
            missing.push(name.to_owned());
            existing = parent;
        }
        let mut real = existing.canonicalize().map_err(|error| failed(path, &error))?;
        real.extend(missing.iter().rev());
        if !real.starts_with(&self.root) {
            let root = self.root.display();
            return Err(invalid(format!("{} is outside of the workspace {root}.", path.display())));
        }
        Ok(real)
    }
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorCode::InvalidParams.into(), reason)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => ErrorCode::ResourceNotFound,
        io::ErrorKind::InvalidData => ErrorCode::InvalidParams,
        _ => ErrorCode::InternalError,
    };
    Error::new(code.into(), format!("{}: {error}.", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn workspace() -> (TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work/src")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(folder.path().join("work/src/a.txt"), "1\n2\n3\n4").unwrap();
        let workspace = Workspace::open(&folder.path().join("work")).unwrap();
        (folder, workspace)
    }

    #[test]
    fn files_are_read_completely_or_by_lines() {
        let (_folder, workspace) = workspace();
        let path = workspace.root.join("src/a.txt");
        let read = |line, limit| workspace.read(&path, line, limit).unwrap();
        assert_eq!(read(None, None), "1\n2\n3\n4");
        assert_eq!(read(Some(2), Some(2)), "2\n3\n");
        assert_eq!(read(Some(4), None), "4");
        assert_eq!(read(None, Some(1)), "1\n");
        assert_eq!(read(Some(9), None), "");
    }

    #[test]
    fn writing_a_file_creates_parent_directories() {
        let (_folder, workspace) = workspace();
        let path = workspace.root.join("new/deep/b.txt");
        workspace.write(&path, "b").unwrap();
        workspace.write(&path, "bb").unwrap();
        assert_eq!(workspace.read(&path, None, None).unwrap(), "bb");
    }

    #[test]
    fn paths_outside_of_the_workspace_are_rejected() {
        let (folder, workspace) = workspace();
        let root = &workspace.root;
        symlink(folder.path(), root.join("out")).unwrap();
        symlink(folder.path().join("secret"), root.join("link")).unwrap();
        symlink(folder.path().join("not-yet"), root.join("dangling")).unwrap();
        symlink(root.join("src"), root.join("within")).unwrap();
        for path in [
            folder.path().join("secret"),
            root.join("../secret"),
            root.join("src/../../secret"),
            root.join("out/secret"),
            root.join("out/new"),
            root.join("out/new/deep"),
            root.join("link"),
            root.join("dangling"),
            root.join("missing/../../secret"),
            PathBuf::from("../secret"),
            PathBuf::from("/etc/passwd"),
        ] {
            assert!(workspace.read(&path, None, None).is_err(), "read {}", path.display());
            assert!(workspace.write(&path, "x").is_err(), "wrote {}", path.display());
        }
        assert_eq!(fs::read_to_string(folder.path().join("secret")).unwrap(), "secret");
        assert!(!folder.path().join("not-yet").exists());
        let error = workspace.read(&root.join("link"), None, None).unwrap_err();
        assert!(error.message.contains("outside of the workspace"), "{error:?}");
        assert_eq!(workspace.read(&root.join("within/a.txt"), None, Some(1)).unwrap(), "1\n");
        assert!(workspace.directory(Some(&root.join("out"))).is_err());
        assert!(workspace.directory(Some(&root.join("src/a.txt"))).is_err());
    }

    #[test]
    fn files_that_are_not_utf8_are_rejected() {
        let (_folder, workspace) = workspace();
        fs::write(workspace.root.join("image"), [0xff, 0xfe]).unwrap();
        assert!(workspace.read(Path::new("image"), None, None).is_err());
        let missing = workspace.read(Path::new("missing"), None, None).unwrap_err();
        assert_eq!(missing.code, ErrorCode::ResourceNotFound);
    }
}
