//! Directories that are never given to the user of an agent: others need them too.

use crate::policy::SYSTEM;
use std::path::Path;

/// Directories with directories of several users or services. What is in them can be given away.
const SHARED: [&str; 23] = [
    "/home",
    "/root",
    "/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/mail",
    "/var/opt",
    "/var/spool",
    "/var/tmp",
    "/srv",
    "/opt",
    "/usr",
    "/usr/local",
    "/usr/local/src",
    "/usr/src",
    "/etc",
    "/run",
    "/run/user",
    "/mnt",
    "/media",
    "/dev/shm",
];

/// Parts of the system in which there are directories of projects.
const WITH_PROJECTS: [&str; 4] = ["/opt", "/usr/src", "/usr/local/src", "/dev/shm"];

/// Like [`SYSTEM`], but agents see less of them.
const OF_THE_KERNEL: [&str; 4] = ["/boot", "/dev", "/proc", "/sys"];

/// Why a directory, at its real path, cannot be given away. `accounts` is the content of `/etc/passwd`.
pub(super) fn reason(directory: &Path, accounts: &str) -> Option<&'static str> {
    let contains = |inner: &Path| inner.starts_with(directory);
    if SHARED.iter().any(|shared| contains(Path::new(shared))) {
        return Some("is shared by users of the machine");
    }
    let has_projects = WITH_PROJECTS.iter().any(|path| directory.starts_with(path));
    let of_the_system = |system: &&str| contains(Path::new(system)) || directory.starts_with(system);
    if !has_projects && SYSTEM.iter().chain(&OF_THE_KERNEL).any(of_the_system) {
        return Some("belongs to the system");
    }
    let is_home = |home: &str| {
        let home = Path::new(home);
        contains(home) || home.canonicalize().is_ok_and(|real| contains(&real))
    };
    let mut homes = accounts.lines().filter_map(|account| account.split(':').nth(5));
    homes.any(is_home).then_some("is or contains the home directory of an account")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_others_are_reserved_and_those_of_projects_are_not() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nbob:x:1000:1000::/people/bob:/bin/sh\nbroken\n";
        let is_reserved = |path: &str| reason(Path::new(path), accounts).is_some();
        for reserved in [
            "/",
            "/home",
            "/root",
            "/tmp",
            "/var",
            "/var/lib",
            "/srv",
            "/opt",
            "/usr",
            "/etc",
            "/run",
            "/mnt",
            "/media",
            "/bin",
            "/nix",
            "/usr/lib/python3",
            "/etc/ssh",
            "/boot",
            "/dev",
            "/proc/1",
            "/sys/fs",
            "/people",
            "/people/bob",
            "/dev/shm",
            "/usr/local/bin",
        ] {
            assert!(is_reserved(reserved), "{reserved}");
        }
        for project in [
            "/root/project",
            "/home/bob/project",
            "/people/bob/project",
            "/tmp/one",
            "/var/lib/sunaba/box",
            "/opt/project",
            "/usr/src/app",
            "/workspace",
            "/app",
            "/srv/project",
            "/dev/shm/one",
        ] {
            assert!(!is_reserved(project), "{project}");
        }
    }

    #[test]
    fn home_directory_is_found_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
        let accounts = format!("bob:x:1000:1000::{}:/bin/sh\n", folder.path().join("link").display());
        assert!(reason(&real, &accounts).is_some());
        assert!(reason(&real.join("project"), &accounts).is_none());
    }
}
