//! Opens files in directories that the agent can change, for the worker, which may access more than the agent.
//!
//! **Invariant:** a link that the agent puts into a path never leads the worker out of the directory, not even if it does so
//! between a check of the path and its use.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a regular file for reading. Symbolic links below `root` are refused.
///
/// # Errors
/// If it does not exist, or is something else.
#[cfg(target_os = "linux")]
pub fn open(root: &Path, relative: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    // Without waiting for a writer, if it is a pipe.
    regular(open_with(root, relative, OFlags::RDONLY | OFlags::NONBLOCK)?)
}

/// Creates or empties a regular file. Symbolic links below `root` are refused. Its directory must exist.
///
/// # Errors
/// If it is something else, or cannot be created.
#[cfg(target_os = "linux")]
pub fn create(root: &Path, relative: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    let file = regular(open_with(root, relative, OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK)?)?;
    // Not while opening: that would also empty what is refused.
    file.set_len(0)?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn open_with(root: &Path, relative: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    let root = File::open(root)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
    Ok(openat2(&root, relative, flags | OFlags::CLOEXEC, mode, resolve)?.into())
}

#[cfg(target_os = "linux")]
fn regular(file: File) -> io::Result<File> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    Ok(file)
}

/// Other systems do not isolate the agent.
#[cfg(not(target_os = "linux"))]
pub fn open(root: &Path, relative: &Path) -> io::Result<File> {
    File::open(root.join(relative))
}

#[cfg(not(target_os = "linux"))]
pub fn create(root: &Path, relative: &Path) -> io::Result<File> {
    File::create(root.join(relative))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_pipes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(root.join("inner/file"), "text").unwrap();
        symlink("../secret", root.join("link")).unwrap();
        symlink(folder.path(), root.join("out")).unwrap();
        let status = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
        assert!(status.success());
        assert_eq!(io::read_to_string(open(&root, Path::new("inner/file")).unwrap()).unwrap(), "text");
        for refused in ["link", "out/secret", "../secret", "pipe", "inner"] {
            assert!(open(&root, Path::new(refused)).is_err(), "{refused}");
            assert!(create(&root, Path::new(refused)).is_err(), "{refused}");
        }
        assert_eq!(fs::read_to_string(folder.path().join("secret")).unwrap(), "secret");
        create(&root, Path::new("inner/file")).unwrap();
        assert_eq!(fs::read_to_string(root.join("inner/file")).unwrap(), "");
    }
}
