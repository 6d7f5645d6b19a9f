//! Changes the owner of directories and their contents to the agent's user.
//!
//! **Invariant:** only what this worker or another agent has made is given away: regular files, directories and links, on the
//! mount of the directory, that belong to root or to the user of an agent. The rest stays as it is.

use super::reserved;
use crate::user::User;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chownat, fstat, openat2, statat,
};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

impl User {
    /// Fails if a directory must not be given to this user.
    pub(crate) fn check_tree(self, directory: &Path) -> io::Result<()> {
        self.open_tree(directory).map(drop)
    }

    /// Gives a directory and everything in it to this user, without following links. Files that have several names stay as
    /// they are: another name may be outside, where the user must not change them.
    pub(crate) fn change_owner_of_tree(self, directory: &Path) -> io::Result<()> {
        let root = self.open_tree(directory)?;
        self.grant_search_on_ancestors(directory)?;
        self.change_owner(&root, &fstat(&root)?)?;
        let mut pending = vec![PathBuf::from(".")];
        while let Some(path) = pending.pop() {
            self.chown_entries(&root, &path, &mut pending)?;
        }
        Ok(())
    }

    fn open_tree(self, directory: &Path) -> io::Result<OwnedFd> {
        let canonical = directory.canonicalize()?;
        let refused = |why: &str| {
            Err(io::Error::other(format!(
                "{} {why}; create a subdirectory for the agent and set CWD, AGENT_HOME, TMPDIR or the policy to it",
                canonical.display()
            )))
        };
        // Without accounts, only the fixed directories are known.
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        if let Some(why) = reserved::reason(&canonical, &accounts) {
            return refused(why);
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(CWD, &canonical, flags, Mode::empty(), resolve)?;
        let owner = fstat(&opened)?.st_uid;
        if owner != self.id && !self.may_chown_from(owner) {
            return refused(&format!("belongs to another user ({owner})"));
        }
        Ok(opened)
    }

    /// Changes the owner of the entries of the directory at `path` below `root`. Adds directories among them to `pending`.
    fn chown_entries(self, root: &OwnedFd, path: &Path, pending: &mut Vec<PathBuf>) -> io::Result<()> {
        let Ok(directory) = open_directory(root, path) else {
            // It was replaced or removed, or its path is too long. In any case a process of this user did it.
            return Ok(());
        };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if [".", ".."].map(OsStr::new).contains(&name) {
                continue;
            }
            let Ok(status) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
                let inner = path.join(name);
                // Another mount is not entered.
                let Ok(opened) = open_directory(root, &inner) else { continue };
                let status = fstat(&opened)?;
                if self.is_owned(&status) || self.may_chown_from(status.st_uid) {
                    self.change_owner(&opened, &status)?;
                    pending.push(inner);
                }
            } else if self.should_chown(&status) {
                self.chown_entry(&directory, name)?;
            }
        }
        Ok(())
    }

    /// Whether the owner of an entry that is not a directory should change.
    fn should_chown(self, status: &Stat) -> bool {
        let is_plain = [FileType::RegularFile, FileType::Symlink];
        is_plain.contains(&FileType::from_raw_mode(status.st_mode))
            && status.st_nlink == 1
            && !self.is_owned(status)
            && self.may_chown_from(status.st_uid)
    }

    /// What is checked is what changes its owner: the entry may be replaced at any time.
    fn chown_entry(self, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let Ok(file) = open_beneath(directory, Path::new(name), OFlags::PATH) else { return Ok(()) };
        if self.should_chown(&fstat(&file)?) {
            chownat(file.as_fd(), "", Some(self.uid()), Some(self.gid()), AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

fn open_directory(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    open_beneath(root, path, OFlags::DIRECTORY | OFlags::RDONLY)
}

/// Only on the same mount. The number of the device does not suffice: a bind mount has that of its source.
fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    use std::process::Command;

    const USER: User = User { id: 0x7000_0005, agents: 0x7000_0000 };

    fn owner(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().uid()
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    /// Whether this is a plain user, who gives nothing away. Says so, also if the output of tests is captured.
    fn lacks_root() -> bool {
        if !is_root() {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            let _ = writeln!(io::stderr(), "{test}: skipped: needs root");
        }
        !is_root()
    }

    fn run(program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    }

    #[test]
    fn only_files_of_root_and_of_agents_are_given_away() {
        if lacks_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for directory in ["own", "others", "agents"] {
            fs::create_dir(path(directory)).unwrap();
        }
        for file in ["own/file", "others/file", "agents/file", "private"] {
            fs::write(path(file), "").unwrap();
        }
        symlink("private", path("link")).unwrap();
        for (other, user) in
            [("others", 1000), ("private", 1000), ("agents", USER.id + 1), ("agents/file", 0)]
        {
            chown(path(other), Some(user), Some(user)).unwrap();
        }
        run("mkfifo", &[path("pipe").to_str().unwrap()]);
        run("mknod", &[path("device").to_str().unwrap(), "c", "1", "3"]);
        USER.change_owner_of_tree(folder.path()).unwrap();
        for given in ["", "own", "own/file", "agents", "agents/file", "link"] {
            assert_eq!(owner(&path(given)), USER.id, "{given:?}");
        }
        for (kept, user) in
            [("others", 1000), ("others/file", 0), ("private", 1000), ("pipe", 0), ("device", 0)]
        {
            assert_eq!(owner(&path(kept)), user, "{kept}");
        }
    }

    /// Set for a copy of the test below with mounts of its own.
    const OWN_MOUNTS: &str = "CONFINE_TEST_OWN_MOUNTS";

    #[test]
    fn other_mounts_in_the_directory_are_not_given_away() {
        if lacks_root() {
            return;
        }
        if std::env::var_os(OWN_MOUNTS).is_none() {
            let output = Command::new("unshare")
                .arg("--mount")
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "linux::tree::tests::other_mounts_in_the_directory_are_not_given_away"])
                .env(OWN_MOUNTS, "1")
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for directory in ["outside", "work/mounted"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        for file in ["outside/file", "work/file", "work/mounted-file"] {
            fs::write(path(file), "").unwrap();
        }
        let text = |name: &str| path(name).to_str().unwrap().to_owned();
        // The device is the same: only the mount differs.
        run("mount", &["--bind", &text("outside"), &text("work/mounted")]);
        run("mount", &["--bind", &text("outside/file"), &text("work/mounted-file")]);
        USER.change_owner_of_tree(&path("work")).unwrap();
        let kept = [owner(&path("outside")), owner(&path("outside/file"))];
        for mounted in ["work/mounted", "work/mounted-file"] {
            run("umount", &[&text(mounted)]);
        }
        assert_eq!(kept, [0, 0]);
        assert_eq!(owner(&path("work/file")), USER.id);
    }

    #[test]
    fn refused_directory_is_named_with_what_to_do() {
        for reserved in ["/", "/root", "/tmp", "/usr/lib"] {
            let refused = USER.check_tree(Path::new(reserved)).unwrap_err().to_string();
            assert!(refused.starts_with(reserved) && refused.contains("CWD"), "{refused}");
        }
        if is_root() {
            let folder = tempfile::tempdir().unwrap();
            chown(folder.path(), Some(1000), Some(1000)).unwrap();
            let refused = USER.change_owner_of_tree(folder.path()).unwrap_err().to_string();
            assert!(refused.contains("belongs to another user (1000)"), "{refused}");
            assert_eq!(owner(folder.path()), 1000);
        }
    }
}
