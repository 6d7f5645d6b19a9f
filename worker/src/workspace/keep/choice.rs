//! Which files of a workspace are kept: small ones first, so that no large file takes the place of the work.

use confine::Launcher;
use domain::kept::LeftOut;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of all files together.
    pub bytes: u64,
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: u64::MAX, files: 20_000 }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// What is kept.
    pub names: Vec<Vec<u8>>,
    pub left_out: Vec<LeftOut>,
}

impl Choice {
    /// The metadata decides, so a sparse file counts with all of its size and is not read.
    pub(super) fn of(root: &Path, launcher: &Launcher, names: Vec<Vec<u8>>, limits: Limits) -> Self {
        let (mut choice, mut files) = (Self::default(), Vec::new());
        for name in names {
            let path = root.join(OsStr::from_bytes(&name));
            // It was removed meanwhile.
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            if metadata.is_symlink() {
                let target = std::fs::read_link(&path);
                match target.is_ok_and(|target| stays_inside(&name, &target)) {
                    true => files.push((0, name)),
                    false => choice.leave_out(&name, "a link that leads out of the workspace"),
                }
            } else if !metadata.is_file() {
                choice.leave_out(&name, "not a file");
            } else if !launcher.may_read(&metadata) || std::fs::File::open(&path).is_err() {
                choice.leave_out(&name, "it cannot be read");
            } else {
                files.push((metadata.len(), name));
            }
        }
        files.sort_unstable();
        let mut bytes = 0_u64;
        for (size, name) in files {
            if choice.names.len() >= limits.files {
                choice.leave_out(&name, &format!("there are more than {} files", limits.files));
            } else if bytes.saturating_add(size) > limits.bytes {
                let (size, limit) = (size.div_ceil(1_000_000), limits.bytes / 1_000_000);
                choice.leave_out(
                    &name,
                    &format!("too large: it has {size} MB, and {limit} MB are kept in all"),
                );
            } else {
                bytes += size;
                choice.names.push(name);
            }
        }
        choice
    }

    /// The names for git, each with a zero byte.
    pub(super) fn input(&self) -> Vec<u8> {
        self.names.iter().flat_map(|name| name.iter().copied().chain([0])).collect()
    }

    /// Names that git has not stored: it refuses some, such as those of its own directory.
    pub(super) fn not_in(&self, stored: &[u8]) -> Vec<LeftOut> {
        let stored: HashSet<&[u8]> = stored.split(|&byte| byte == 0).collect();
        let missing = self.names.iter().filter(|name| !stored.contains(name.as_slice()));
        missing.map(|name| left_out(name, "git does not store files of this name")).collect()
    }

    fn leave_out(&mut self, name: &[u8], reason: &str) {
        self.left_out.push(left_out(name, reason));
    }
}

fn left_out(name: &[u8], reason: &str) -> LeftOut {
    LeftOut { path: String::from_utf8_lossy(name).into_owned(), reason: reason.to_owned() }
}

/// Whether a link leads nowhere but into the workspace, through whatever other links of this kind: all steps up come first,
/// so they start in the directory of the link itself.
fn stays_inside(name: &[u8], target: &Path) -> bool {
    let mut depth = Path::new(OsStr::from_bytes(name)).components().count().saturating_sub(1);
    let mut descends = false;
    for component in target.components() {
        match component {
            Component::ParentDir if descends || depth == 0 => return false,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => descends = true,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::unconfined;

    #[test]
    fn only_links_that_stay_in_the_workspace_are_kept() {
        for (name, target, expected) in [
            ("link", "file", true),
            ("link", "a/b", true),
            ("link", "./a", true),
            ("a/link", "../file", true),
            ("a/b/link", "../..", true),
            ("link", "/etc/passwd", false),
            ("link", "..", false),
            ("a/link", "../../file", false),
            // `a` may be a link to another directory, whose parent is elsewhere.
            ("link", "a/../b", false),
        ] {
            assert_eq!(stays_inside(name.as_bytes(), Path::new(target)), expected, "{name} → {target}");
        }
    }

    #[test]
    fn small_files_are_kept_before_large_ones() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, size) in [("large", 60), ("middle", 30), ("small", 10)] {
            std::fs::write(root.join(name), vec![b'x'; size]).unwrap();
        }
        let sparse = std::fs::File::create(root.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let names = ["large", "middle", "small", "sparse", "gone"].map(|name| name.as_bytes().to_vec());
        let choose = |limits| Choice::of(root, &unconfined(), names.to_vec(), limits);
        let chosen = choose(Limits { bytes: 50, files: 10 });
        assert_eq!(chosen.input(), b"small\0middle\0");
        let left_out: Vec<&str> = chosen.left_out.iter().map(|part| part.path.as_str()).collect();
        assert_eq!(left_out, ["large", "sparse"]);
        assert_eq!(choose(Limits { bytes: 100, files: 2 }).names.len(), 2);
        assert_eq!(chosen.not_in(b"small\0").len(), 1);
    }
}
