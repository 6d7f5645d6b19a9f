//! The Landlock implementation of [`SandboxPolicy`].

use super::SandboxPolicy;
use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use std::path::{Path, PathBuf};

/// System directories with read and execute access. Missing ones are skipped.
const SYSTEM_DIRS: [&str; 13] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    "/proc",
    "/sys",
    // DNS: /etc/resolv.conf links here.
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// Required file restrictions. Earlier versions cannot restrict truncating (Linux 6.2) and moving files.
const FILE_ABI: ABI = ABI::V3;

impl SandboxPolicy {
    /// Restricts this thread and all processes that it starts from now on.
    ///
    /// # Errors
    /// If the kernel cannot enforce the whole policy, or a writable directory cannot be created.
    pub fn apply(&self, program: &Path) -> anyhow::Result<RestrictionStatus> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let mut ruleset = ruleset
            .handle_access(AccessFs::from_all(FILE_ABI))
            .context("this kernel does not support Landlock ABI 3")?;
        if self.ports.is_some() {
            ruleset = ruleset
                .handle_access(AccessNet::ConnectTcp)
                .context("this kernel cannot restrict TCP connections")?;
        }
        // Best effort: newer kernels also block signals to processes outside of the sandbox.
        let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).scope(Scope::from_all(ABI::V6))?;
        let mut ruleset =
            ruleset.create().context("this kernel does not support Landlock, or it is disabled")?;
        let read = AccessFs::from_read(FILE_ABI);
        for path in SYSTEM_DIRS.iter().map(Path::new).chain(self.readable.iter().map(PathBuf::as_path)) {
            // Skip directories that do not exist.
            if let Ok(directory) = PathFd::new(path) {
                ruleset = ruleset.add_rule(PathBeneath::new(directory, read))?;
            }
        }
        if let Ok(file) = PathFd::new(program) {
            ruleset = ruleset.add_rule(PathBeneath::new(file, AccessFs::Execute | AccessFs::ReadFile))?;
        }
        if let Ok(devices) = PathFd::new("/dev") {
            ruleset = ruleset.add_rule(PathBeneath::new(devices, read | AccessFs::WriteFile))?;
        }
        for directory in &self.writable {
            let created = std::fs::create_dir_all(directory).map_err(anyhow::Error::from);
            let opened = created.and_then(|()| Ok(PathFd::new(directory)?));
            let opened = opened.with_context(|| format!("cannot use directory {}", directory.display()))?;
            ruleset = ruleset.add_rule(PathBeneath::new(opened, AccessFs::from_all(FILE_ABI)))?;
        }
        for &port in self.ports.iter().flatten() {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
        Ok(ruleset.restrict_self()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::{fs, thread};

    /// Only the spawned thread is restricted; other tests are not affected.
    #[test]
    fn restricted_thread_accesses_only_allowed_files_and_ports() {
        let dir = tempfile::tempdir().unwrap();
        let [own, outside] = ["own", "outside"].map(|name| dir.path().join(name));
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "text").unwrap();
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [allowed, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let policy = SandboxPolicy {
            writable: vec![own.clone()],
            readable: Vec::new(),
            ports: Some(vec![allowed.port()]),
        };
        let restricted = thread::spawn(move || {
            if let Err(why) = policy.apply(Path::new("/bin/sh")) {
                // Kernels without Landlock cannot run this test.
                assert!(format!("{why:#}").contains("this kernel"), "{why:#}");
                return;
            }
            fs::write(own.join("file"), "text").unwrap();
            fs::rename(own.join("file"), own.join("other")).unwrap();
            fs::write("/dev/null", "text").unwrap();
            assert!(fs::read("/etc/passwd").is_ok());
            let denied = ErrorKind::PermissionDenied;
            assert_eq!(fs::read(outside.join("file")).unwrap_err().kind(), denied);
            assert_eq!(fs::write(outside.join("new"), "text").unwrap_err().kind(), denied);
            assert_eq!(fs::read_dir(&outside).unwrap_err().kind(), denied);
            assert!(TcpStream::connect(allowed).is_ok());
            assert_eq!(TcpStream::connect(other).unwrap_err().kind(), denied);
            let child = Command::new("/bin/sh").args(["-c", "cat \"$0\""]).arg(outside.join("file")).output();
            assert!(!child.unwrap().status.success(), "child processes are restricted too");
        });
        restricted.join().unwrap();
        assert!(fs::read(dir.path().join("outside/file")).is_ok(), "other threads are not restricted");
    }
}
