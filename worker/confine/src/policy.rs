//! What a confined program may access.

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Every directory is at the same path as outside: agents derive names from the path of their workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Directories with full access.
    pub writable: Vec<PathBuf>,
    /// Files and directories, besides the system's, with read and execute access.
    pub readable: Vec<PathBuf>,
    /// Files and directories that are absent, even if they are within a readable one.
    pub hidden: Vec<PathBuf>,
    pub limits: Limits,
}

/// Limits of the program and its child processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads. The kernel does not apply it to the real root user.
    pub processes: u64,
    /// Size of a file.
    pub file_bytes: u64,
    /// Memory of one process, if the worker has no lower limit.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processes: 4096, file_bytes: 16 << 30, memory_bytes: None }
    }
}

/// Files and directories of the system, with read and execute access. Missing ones are skipped. Absent are those with data
/// of users and services: `/home`, `/root`, `/var`, `/run`, `/srv`.
pub(crate) const SYSTEM: [&str; 14] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    // Programs size their thread pools and memory with these.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

/// Device files that every program may use.
#[cfg(target_os = "linux")]
pub(crate) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

impl Policy {
    /// Whether something outside of the writable directories is at this path inside.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        let system = SYSTEM.iter().map(Path::new);
        let mut shown = system.chain(self.readable.iter().chain(&self.writable).map(PathBuf::as_path));
        shown.any(|directory| path.starts_with(directory))
    }

    /// Removes what is within a writable directory: it is accessible anyway, and the program could replace it by a link to
    /// something that is not.
    pub(crate) fn remove_nested(&mut self) {
        let all = self.writable.clone();
        let is_nested = |path: &PathBuf| all.iter().any(|other| path != other && path.starts_with(other));
        self.writable.retain(|path| !is_nested(path));
        self.readable.retain(|path| !is_nested(path));
    }

    /// Fails if a hidden path is within a writable directory. It could not be hidden for long: the program could rename a
    /// directory above it, and Landlock has no exceptions.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for hidden in &self.hidden {
            // One that is below a hidden path itself is meant as an exception from it.
            let writable = self.writable.iter().find(|writable| hidden.starts_with(writable));
            if let Some(writable) = writable {
                ensure!(
                    writable.starts_with(hidden),
                    "{} must not be inside of {}, which the agent can change",
                    hidden.display(),
                    writable.display()
                );
            }
        }
        Ok(())
    }
}

/// Files and directories in `/etc` that are only for root. A worker that runs as root could read them.
#[cfg(target_os = "linux")]
pub(crate) fn private_files_of_the_system() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect_private(Path::new("/etc"), 3, &mut found);
    found
}

#[cfg(target_os = "linux")]
fn collect_private(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // Does not follow links.
        let Ok(metadata) = entry.metadata() else { continue };
        let (path, mode) = (entry.path(), metadata.permissions().mode());
        if metadata.is_symlink() {
            continue;
        }
        if mode & 0o004 == 0 {
            found.push(path);
        } else if metadata.is_dir() && depth > 1 {
            collect_private(&path, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_of_a_writable_directory_are_not_resolved_again() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let mut policy = Policy {
            writable: paths(&["/box/home/.agent", "/box/home", "/box/work"]),
            readable: paths(&["/box/work/node_modules", "/box/workshop"]),
            ..Policy::default()
        };
        policy.remove_nested();
        assert_eq!(policy.writable, paths(&["/box/home", "/box/work"]));
        assert_eq!(policy.readable, paths(&["/box/workshop"]));
    }

    #[test]
    fn hidden_path_inside_of_a_writable_directory_is_rejected() {
        let with = |hidden: &str, writable: &str| Policy {
            hidden: vec![hidden.into()],
            writable: vec![writable.into()],
            ..Policy::default()
        };
        assert!(with("/box/work/state", "/box/work").check().is_err());
        assert!(with("/box/state", "/box/state/home").check().is_ok(), "an exception");
        assert!(with("/box/state", "/box/work").check().is_ok());
    }
}
