//! The files that an agent may read and write through the worker: those of its workspace.
//!
//! This keeps an agent from reaching out by mistake; it is no wall. Whoever can change the workspace between the look
//! at a path and its use could lead out of it, but could just as well write there without the worker.

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Largest file that is handed to an agent: it goes through a model, and through the worker's memory.
pub const MAX_READ_BYTES: u64 = 8 * 1024 * 1024;

/// A workspace, by its real path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The folder at this path.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { root: path.canonicalize()? })
    }

    /// The text of a file, or some lines of it: `limit` lines from `line`, which counts from 1.
    ///
    /// # Errors
    /// When it is outside, missing, too large, or no text.
    pub fn read(&self, path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, Error> {
        let path = self.inside(path)?;
        let metadata = fs::metadata(&path).map_err(|error| failed(&path, &error))?;
        if !metadata.is_file() {
            return Err(refused(format!("{} is not a file.", path.display())));
        }
        if metadata.len() > MAX_READ_BYTES {
            return Err(refused(format!("{} is larger than {MAX_READ_BYTES} bytes.", path.display())));
        }
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        if line.is_none() && limit.is_none() {
            return Ok(text);
        }
        let first = line.map_or(0, |line| line.saturating_sub(1));
        let lines = text.split_inclusive('\n').skip(usize::try_from(first).unwrap_or(usize::MAX));
        Ok(lines
            .take(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)))
            .collect())
    }

    /// Writes a file, with the folders that it is in.
    ///
    /// # Errors
    /// When it is outside, or cannot be written.
    pub fn write(&self, path: &Path, content: &str) -> Result<(), Error> {
        let path = self.inside(path)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        }
        fs::write(&path, content).map_err(|error| failed(&path, &error))
    }

    /// A folder to run something in: the workspace itself if nothing is said.
    ///
    /// # Errors
    /// When it is outside, or no folder.
    pub fn folder(&self, path: Option<&Path>) -> Result<PathBuf, Error> {
        let path = self.inside(path.unwrap_or(&self.root))?;
        if !path.is_dir() {
            return Err(refused(format!("{} is not a folder.", path.display())));
        }
        Ok(path)
    }

    /// The real path of what is there, or will be; refused if that is outside.
    fn inside(&self, path: &Path) -> Result<PathBuf, Error> {
        let asked = self.root.join(path);
        let mut existing = asked.as_path();
        let mut missing: Vec<OsString> = Vec::new();
        // A link that leads nowhere is there too: it is followed below, and fails.
        while fs::symlink_metadata(existing).is_err() {
            let (Some(parent), Some(Component::Normal(name))) =
                (existing.parent(), existing.components().next_back())
            else {
                return Err(refused(format!("{} cannot be found.", path.display())));
            };
            missing.push(name.to_owned());
            existing = parent;
        }
        let mut real = existing.canonicalize().map_err(|error| failed(path, &error))?;
        real.extend(missing.iter().rev());
        if !real.starts_with(&self.root) {
            let root = self.root.display();
            return Err(refused(format!("{} is outside of the workspace {root}.", path.display())));
        }
        Ok(real)
    }
}

fn refused(why: String) -> Error {
    Error::new(ErrorCode::InvalidParams.into(), why)
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
    fn files_of_the_workspace_are_read_whole_or_in_part() {
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
    fn files_are_written_with_their_folders() {
        let (_folder, workspace) = workspace();
        let path = workspace.root.join("new/deep/b.txt");
        workspace.write(&path, "b").unwrap();
        workspace.write(&path, "bb").unwrap();
        assert_eq!(workspace.read(&path, None, None).unwrap(), "bb");
    }

    #[test]
    fn whatever_leads_out_is_refused() {
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
        let why = workspace.read(&root.join("link"), None, None).unwrap_err();
        assert!(why.message.contains("outside of the workspace"), "{why:?}");
        assert_eq!(workspace.read(&root.join("within/a.txt"), None, Some(1)).unwrap(), "1\n");
        assert!(workspace.folder(Some(&root.join("out"))).is_err());
        assert!(workspace.folder(Some(&root.join("src/a.txt"))).is_err());
    }

    #[test]
    fn what_is_no_text_is_not_passed_off_as_such() {
        let (_folder, workspace) = workspace();
        fs::write(workspace.root.join("image"), [0xff, 0xfe]).unwrap();
        assert!(workspace.read(Path::new("image"), None, None).is_err());
        let missing = workspace.read(Path::new("missing"), None, None).unwrap_err();
        assert_eq!(missing.code, ErrorCode::ResourceNotFound);
    }
}
