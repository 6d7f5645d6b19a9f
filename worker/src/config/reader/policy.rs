//! The policy of the sandbox: directories, limits, and settings of the repository.

use super::Reader;
use confine::Policy;
use contract::policy::{ForbiddenDirectory, PolicyError, PolicyPath, SandboxPolicy};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const MB: u64 = 1 << 20;

impl Reader<'_> {
    /// The policy in `POLICY`. An invalid one is an error, and the built-in one in its place.
    pub(super) fn sandbox_policy(&mut self) -> SandboxPolicy {
        let Some(text) = self.text("POLICY") else { return SandboxPolicy::default() };
        SandboxPolicy::parse(&text).unwrap_or_else(|errors| {
            self.error("POLICY", PolicyError::join(&errors));
            SandboxPolicy::default()
        })
    }

    /// Whether settings in the repository apply to the agent.
    pub fn allows_repository_settings(&self) -> bool {
        self.policy.repository.allow_settings
    }

    /// Adds the directories and limits of the policy. Those that would open what is not the agent's are errors.
    pub(super) fn apply_to(&mut self, policy: &mut Policy) {
        if self.policy.filesystem.is_empty() && self.policy.limits.is_empty() {
            return;
        }
        if !self.is_isolated() {
            self.warn("POLICY", "directories and limits are not enforced with ISOLATION=none");
        }
        let (filesystem, limits) = (self.policy.filesystem.clone(), self.policy.limits);
        let absolute =
            |paths: &[PolicyPath]| paths.iter().filter_map(PolicyPath::absolute).collect::<Vec<_>>();
        // Those in the workspace and the home are the agent's anyway.
        for path in absolute(&filesystem.allow_read) {
            let real = real_path(&path);
            match self.not_readable(&real, policy).or_else(|| through_link(&path, &real)) {
                Some(why) => self.error("POLICY", format!("filesystem.allowRead: {}: {why}", path.display())),
                None => policy.readable.push(real),
            }
        }
        for path in absolute(&filesystem.allow_write) {
            let real = real_path(&path);
            match self.not_writable(&real, policy).or_else(|| through_link(&path, &real)) {
                Some(why) => {
                    self.error("POLICY", format!("filesystem.allowWrite: {}: {why}", path.display()));
                }
                None => policy.writable.push(real),
            }
        }
        for path in absolute(&filesystem.deny_read) {
            let real = real_path(&path);
            match through_link(&path, &real) {
                Some(why) => self.error("POLICY", format!("filesystem.denyRead: {}: {why}", path.display())),
                // A link in `/` is a directory of its own in the agent's view.
                None if real != path => policy.hidden.extend([path, real]),
                None => policy.hidden.push(path),
            }
        }
        policy.limits.processes = limits.processes.unwrap_or(policy.limits.processes);
        policy.limits.file_bytes = limits.file_mb.map_or(policy.limits.file_bytes, |mb| mb * MB);
        policy.limits.memory_bytes = limits.memory_mb.map(|mb| mb * MB).or(policy.limits.memory_bytes);
    }

    fn not_readable(&self, real: &Path, policy: &Policy) -> Option<String> {
        if let Some(why) = ForbiddenDirectory::for_reading(real) {
            return Some(why.to_string());
        }
        let is_hidden = |hidden: &PathBuf| real.starts_with(real_path(hidden));
        policy.hidden.iter().any(is_hidden).then(|| HIDDEN.to_owned())
    }

    fn not_writable(&self, real: &Path, policy: &Policy) -> Option<String> {
        if let Some(why) = ForbiddenDirectory::for_writing(real) {
            return Some(why.to_string());
        }
        let overlaps = |hidden: &PathBuf| {
            let hidden = real_path(hidden);
            real.starts_with(&hidden) || hidden.starts_with(real)
        };
        if policy.hidden.iter().any(overlaps) {
            return Some(HIDDEN.to_owned());
        }
        if real_path(&self.user_home()).starts_with(real) {
            return Some("it would open the home directory of the worker's user".to_owned());
        }
        (real.exists() && !real.is_dir()).then(|| "it is not a directory".to_owned())
    }
}

const HIDDEN: &str = "it would open the state of the worker or of the plane, which is hidden from agents";

/// The path without links. What does not exist yet is kept as it is.
fn real_path(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    for existing in path.ancestors() {
        if let Ok(mut real) = existing.canonicalize() {
            real.extend(missing.iter().rev());
            return real;
        }
        missing.extend(existing.file_name().map(ToOwned::to_owned));
    }
    path.to_owned()
}

/// Why the path is not accepted as it is written, if a link is on its way. Another agent that may write to the link's
/// directory could have made it, and would choose what this policy opens. Links in `/` are accepted, such as `/bin`, or `/var`
/// on macOS: no policy makes `/` writable.
fn through_link(path: &Path, real: &Path) -> Option<String> {
    let followed = follow_link_in_root(path);
    if let Some(link) = followed.ancestors().find(|above| above.is_symlink()) {
        return Some(format!("it leads through the link {}; write the real path", link.display()));
    }
    // Also if a link was replaced just now.
    (followed != real).then(|| format!("it leads to {}; write the real path", real.display()))
}

/// The path with the target of its first directory, if that is a link. The target is taken as it is written.
fn follow_link_in_root(path: &Path) -> PathBuf {
    let mut components = path.components();
    let first: PathBuf = components.by_ref().take(2).collect();
    match first.read_link() {
        Ok(target) => Path::new("/").join(target).join(components.as_path()),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests;
