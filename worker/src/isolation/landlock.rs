//! The rules that Linux enforces.

use super::Walls;
use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
};
use std::path::{Path, PathBuf};

/// Where systems keep what everybody may read and run. Which of them are there differs.
const SYSTEM: [&str; 13] = [
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
    // Where names are looked up: /etc/resolv.conf is a link to it.
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// What the kernel must be able to do for files: also to keep from truncating and moving, which the first versions
/// could not. Linux 6.2.
const FILES: ABI = ABI::V3;

impl Walls {
    /// Keeps this thread inside, and everything that it starts from now on.
    ///
    /// # Errors
    /// When the kernel cannot do all of it, or a folder of its own cannot be made.
    pub fn enter(&self, program: &Path) -> anyhow::Result<RestrictionStatus> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let mut ruleset = ruleset
            .handle_access(AccessFs::from_all(FILES))
            .context("this kernel has no Landlock, or an old one")?;
        if self.ports.is_some() {
            ruleset = ruleset
                .handle_access(AccessNet::ConnectTcp)
                .context("this kernel cannot keep from connecting")?;
        }
        // More where there is more: no signals to whoever is outside.
        let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).scope(Scope::from_all(ABI::V6))?;
        let mut ruleset = ruleset.create().context("this kernel has no Landlock, or it is switched off")?;
        let read = AccessFs::from_read(FILES);
        for path in SYSTEM.iter().map(Path::new).chain(self.readable.iter().map(PathBuf::as_path)) {
            // What is not there cannot be read anyway.
            if let Ok(folder) = PathFd::new(path) {
                ruleset = ruleset.add_rule(PathBeneath::new(folder, read))?;
            }
        }
        if let Ok(file) = PathFd::new(program) {
            ruleset = ruleset.add_rule(PathBeneath::new(file, AccessFs::Execute | AccessFs::ReadFile))?;
        }
        if let Ok(devices) = PathFd::new("/dev") {
            ruleset = ruleset.add_rule(PathBeneath::new(devices, read | AccessFs::WriteFile))?;
        }
        for folder in &self.own {
            let made = std::fs::create_dir_all(folder).map_err(anyhow::Error::from);
            let opened = made.and_then(|()| Ok(PathFd::new(folder)?));
            let opened = opened.with_context(|| format!("{} cannot be its own", folder.display()))?;
            ruleset = ruleset.add_rule(PathBeneath::new(opened, AccessFs::from_all(FILES)))?;
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

    /// Only the thread that asks is kept inside: the other tests do not notice.
    #[test]
    fn whoever_is_inside_can_use_its_own_and_the_systems_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [own, outside] = ["own", "outside"].map(|name| folder.path().join(name));
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "text").unwrap();
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [allowed, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let walls = Walls { own: vec![own.clone()], readable: Vec::new(), ports: Some(vec![allowed.port()]) };
        let inside = thread::spawn(move || {
            if let Err(why) = walls.enter(Path::new("/bin/sh")) {
                // Then nobody runs.
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
            assert!(!child.unwrap().status.success(), "what it starts is inside too");
        });
        inside.join().unwrap();
        assert!(fs::read(folder.path().join("outside/file")).is_ok(), "nobody else is");
    }
}
