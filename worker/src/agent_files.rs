//! Opens files in directories that the agent can change, for the worker, which may access more than the agent.
//!
//! **Invariant:** on Linux, a link that the agent puts into a path never leads the worker out of the directory, not even if it
//! does so between a check of the path and its use.

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

/// Creates or empties a regular file. Symbolic links below `root` are refused. Its directory must exist, and its owner
/// becomes that of the file: the user of the agent may be another than that of the worker.
///
/// # Errors
/// If it is something else, or cannot be created.
#[cfg(target_os = "linux")]
pub fn create(root: &Path, relative: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    let file = regular(open_with(root, relative, OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK)?)?;
    let parent = relative.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = open_with(root, parent.unwrap_or(Path::new(".")), OFlags::RDONLY | OFlags::DIRECTORY)?;
    inherit_owner(&file, &directory)?;
    // Not while opening: that would also empty what is refused.
    file.set_len(0)?;
    Ok(file)
}

/// Creates the directories of a path below `root` that are missing. Symbolic links are refused. Each belongs to the owner of
/// the one above it.
///
/// # Errors
/// If one cannot be created, or is something else.
#[cfg(target_os = "linux")]
pub fn create_directories(root: &Path, relative: &Path) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, mkdirat};
    use rustix::io::Errno;
    let mut existing = File::open(root)?;
    for part in relative.iter() {
        let is_new = match mkdirat(&existing, part, Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let next = open_in(&existing, Path::new(part), OFlags::RDONLY | OFlags::DIRECTORY)?;
        if is_new {
            inherit_owner(&next, &existing)?;
        }
        existing = next;
    }
    Ok(())
}

/// Gives what this process has created to the owner of its directory. Files with several names stay as they are: another
/// name may be elsewhere.
#[cfg(target_os = "linux")]
fn inherit_owner(created: &File, directory: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is_root = rustix::process::geteuid().is_root();
    let (own, of_directory) = (created.metadata()?, directory.metadata()?);
    let is_only_name = own.is_dir() || own.nlink() == 1;
    if is_root && is_only_name && own.uid() == 0 && of_directory.uid() != 0 {
        std::os::unix::fs::fchown(created, Some(of_directory.uid()), Some(of_directory.gid()))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn open_with(root: &Path, relative: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    open_in(&File::open(root)?, relative, flags)
}

#[cfg(target_os = "linux")]
fn open_in(root: &File, relative: &Path, flags: rustix::fs::OFlags) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
    Ok(openat2(root, relative, flags | OFlags::CLOEXEC, mode, resolve)?.into())
}

#[cfg(target_os = "linux")]
fn regular(file: File) -> io::Result<File> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    Ok(file)
}

/// Other systems have no such call: here the worker follows links of the agent, which `confine::Gap::Links` reports.
#[cfg(not(target_os = "linux"))]
pub fn open(root: &Path, relative: &Path) -> io::Result<File> {
    File::open(root.join(relative))
}

#[cfg(not(target_os = "linux"))]
pub fn create(root: &Path, relative: &Path) -> io::Result<File> {
    File::create(root.join(relative))
}

#[cfg(not(target_os = "linux"))]
pub fn create_directories(root: &Path, relative: &Path) -> io::Result<()> {
    std::fs::create_dir_all(root.join(relative))
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
        create_directories(&root, Path::new("inner/a/b")).unwrap();
        create_directories(&root, Path::new("inner/a/b")).unwrap();
        assert!(root.join("inner/a/b").is_dir());
        for refused in ["out/planted", "link/planted", "inner/file/planted"] {
            assert!(create_directories(&root, Path::new(refused)).is_err(), "{refused}");
        }
        assert!(!folder.path().join("planted").exists());
    }

    #[test]
    fn created_files_belong_to_the_owner_of_their_directory() {
        use std::os::unix::fs::{MetadataExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let own = root.metadata().unwrap().uid();
        // Only root can give files away.
        let agent = if own == 0 { 0x7000_0001 } else { own };
        chown(root, Some(agent), Some(agent)).unwrap();
        create_directories(root, Path::new("a/b")).unwrap();
        create(root, Path::new("a/b/file")).unwrap();
        create(root, Path::new("file")).unwrap();
        for created in ["a", "a/b", "a/b/file", "file"] {
            assert_eq!(root.join(created).metadata().unwrap().uid(), agent, "{created}");
        }
        fs::write(root.join("linked"), "").unwrap();
        fs::hard_link(root.join("linked"), root.join("other-name")).unwrap();
        create(root, Path::new("linked")).unwrap();
        assert_eq!(root.join("linked").metadata().unwrap().uid(), own, "another name may be outside");
    }
}
