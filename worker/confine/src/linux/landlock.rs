//! Restricts access to files, and connections and signals to processes outside.

use crate::gap::LandlockSupport;
use crate::helper::Restrictions;
use crate::policy::{DEVICES, SYSTEM};
use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use std::path::{Path, PathBuf};

/// Required restrictions. Earlier versions cannot restrict truncating (Linux 6.2) and moving files.
const REQUIRED: ABI = ABI::V3;

/// What this kernel can enforce. Fails if that is less than required.
pub(crate) fn probe() -> anyhow::Result<LandlockSupport> {
    ruleset()?;
    let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    Ok(LandlockSupport {
        scopes: strict().scope(scopes()).is_ok(),
        unix_socket_paths: strict().handle_access(AccessFs::ResolveUnix).is_ok(),
    })
}

/// Signals and abstract Unix sockets.
fn scopes() -> BitFlags<Scope> {
    Scope::from_all(ABI::V6)
}

fn ruleset() -> anyhow::Result<RulesetCreated> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset
        .handle_access(AccessFs::from_all(REQUIRED))
        .context("this kernel does not support Landlock ABI 3")?;
    // Newer kernels also restrict signals and abstract sockets (6.12), and connections to Unix sockets by path (7.1).
    let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).scope(scopes())?;
    let ruleset = ruleset.handle_access(AccessFs::ResolveUnix)?;
    ruleset.create().context("this kernel does not support Landlock, or it is disabled")
}

pub(super) fn restrict(restrictions: &Restrictions) -> anyhow::Result<()> {
    // With its own mounts the process is confined without Landlock too. The worker reports that it is missing.
    if restrictions.own_mounts && !restrictions.landlock {
        return Ok(());
    }
    let ruleset = ruleset()?;
    let read = AccessFs::from_read(REQUIRED) | AccessFs::ResolveUnix;
    let write = AccessFs::from_all(REQUIRED) | AccessFs::ResolveUnix;
    let mut rules = Rules { ruleset, hidden: hidden(restrictions) };
    for path in SYSTEM.iter().map(Path::new).chain([Path::new("/proc"), Path::new("/sys/devices/system")]) {
        rules.allow(path, read)?;
    }
    if let Ok(resolver) = Path::new("/etc/resolv.conf").canonicalize() {
        rules.allow(&resolver, read)?;
    }
    for device in DEVICES.iter().chain(&["/dev/pts", "/dev/ptmx"]) {
        rules.allow(Path::new(device), read | AccessFs::WriteFile)?;
    }
    if restrictions.own_mounts {
        for path in ["/tmp", "/var/tmp", "/dev/shm"] {
            rules.allow(Path::new(path), write)?;
        }
    }
    for path in &restrictions.policy.readable {
        rules.allow(path, read)?;
    }
    for path in &restrictions.policy.writable {
        rules.allow(path, write)?;
    }
    rules.ruleset.restrict_self().context("cannot restrict access to files")?;
    Ok(())
}

/// Hidden paths that are not exceptions themselves: those above a writable directory hide only what is beside it.
fn hidden(restrictions: &Restrictions) -> Vec<PathBuf> {
    // With own mounts, the paths that remain are not those of the machine.
    if restrictions.own_mounts {
        return Vec::new();
    }
    restrictions.policy.hidden.iter().chain(&restrictions.private).cloned().collect()
}

struct Rules {
    ruleset: RulesetCreated,
    hidden: Vec<PathBuf>,
}

impl Rules {
    /// Allows access to a path, except for hidden ones within it. Landlock has no exceptions, so its other entries are
    /// allowed one by one. Missing paths are skipped.
    fn allow(&mut self, path: &Path, access: BitFlags<AccessFs>) -> anyhow::Result<()> {
        // An exception from a hidden directory is allowed as a whole.
        if !self.hidden.iter().any(|hidden| hidden.starts_with(path)) {
            return self.add(path, access);
        }
        if self.hidden.iter().any(|hidden| hidden == path) {
            return Ok(());
        }
        self.add(path, AccessFs::ReadDir.into())?;
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            self.allow(&entry.path(), access)?;
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, access: BitFlags<AccessFs>) -> anyhow::Result<()> {
        let Ok(opened) = PathFd::new(path) else { return Ok(()) };
        let is_directory = path.is_dir();
        let of_files = AccessFs::from_file(ABI::V9);
        let access = if is_directory { access } else { access & of_files };
        if access.is_empty() {
            return Ok(());
        }
        (&mut self.ruleset)
            .add_rule(PathBeneath::new(opened, access))
            .with_context(|| format!("cannot allow access to {}", path.display()))?;
        Ok(())
    }
}
