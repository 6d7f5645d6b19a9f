//! The upper bound of a policy.

use super::{
    Access, DEFAULT_FILE_MB, DEFAULT_PROCESSES, FilesystemRules, Host, LimitRules, NetworkRules, PolicyPath,
    RepositoryRules, Root, SandboxPolicy,
};

impl SandboxPolicy {
    /// What this policy and the maximum both allow.
    ///
    /// **Invariant:** the result allows nothing that the maximum denies. What the maximum does not mention has its default,
    /// so a maximum without `allowWrite` allows no further directory.
    #[must_use]
    pub fn restrict(&self, maximum: &Self) -> Self {
        let network = |policy: &Self| policy.network.clone().unwrap_or_default();
        Self {
            network: Some(network(self).restrict(&network(maximum))),
            filesystem: self.filesystem.restrict(&maximum.filesystem),
            repository: self.repository.restrict(maximum.repository),
            limits: self.limits.restrict(maximum.limits),
        }
    }
}

impl NetworkRules {
    fn restrict(&self, maximum: &Self) -> Self {
        let access = match (self.access, maximum.access) {
            (Access::None, _) | (_, Access::None) => return Self { access: Access::None, ..Self::default() },
            (Access::Public, Access::Public) => Access::Public,
            _ => Access::Allowlist,
        };
        let private =
            intersections(&self.allowed_private_hosts, &maximum.allowed_private_hosts, Host::intersection);
        let domains = match (self.access, maximum.access) {
            (Access::Allowlist, Access::Allowlist) => {
                intersections(&self.all_hosts(), &maximum.all_hosts(), Host::intersection)
            }
            (Access::Allowlist, _) => self.all_hosts(),
            (_, Access::Allowlist) => maximum.all_hosts(),
            _ => Vec::new(),
        };
        // A private host has no public address.
        let is_public = |host: &Host| !host.is_private() && !private.contains(host);
        let domains = domains.into_iter().filter(is_public).collect();
        Self { access, allowed_domains: domains, allowed_private_hosts: private }
    }

    /// The hosts that may be reached at public addresses.
    fn all_hosts(&self) -> Vec<Host> {
        self.allowed_domains.iter().chain(&self.allowed_private_hosts).cloned().collect()
    }
}

impl FilesystemRules {
    fn restrict(&self, maximum: &Self) -> Self {
        let deny_read = union(&maximum.deny_read, &self.deny_read);
        let mut allow_write =
            intersections(&self.allow_write, &maximum.allow_write, PolicyPath::intersection);
        // What is denied cannot be hidden from a program that can change the directory around it.
        allow_write
            .retain(|path| !deny_read.iter().any(|denied| denied.contains(path) || path.contains(denied)));
        let readable = union(&maximum.allow_read, &maximum.allow_write);
        let mut allow_read = intersections(&self.allow_read, &readable, PolicyPath::intersection);
        allow_read.retain(|path| !deny_read.iter().any(|denied| denied.contains(path)));
        // The workspace and the home are the agent's own.
        let own = |paths: &[PolicyPath]| -> Vec<PolicyPath> {
            paths.iter().filter(|path| path.root != Root::Absolute).cloned().collect()
        };
        Self {
            deny_read,
            allow_read: union(&own(&self.allow_read), &outermost(&allow_read)),
            allow_write: union(&own(&self.allow_write), &outermost(&allow_write)),
        }
    }
}

impl RepositoryRules {
    fn restrict(self, maximum: Self) -> Self {
        Self { allow_settings: self.allow_settings && maximum.allow_settings }
    }
}

impl LimitRules {
    /// The provider limits memory if neither does.
    fn restrict(self, maximum: Self) -> Self {
        let lower = |own: Option<u64>, bound: Option<u64>, default: Option<u64>| match own {
            Some(own) => bound.or(default).into_iter().chain([own]).min(),
            // The worker applies its default.
            None => bound,
        };
        Self {
            processes: lower(self.processes, maximum.processes, Some(DEFAULT_PROCESSES)),
            memory_mb: lower(self.memory_mb, maximum.memory_mb, None),
            file_mb: lower(self.file_mb, maximum.file_mb, Some(DEFAULT_FILE_MB)),
        }
    }
}

fn intersections<T: PartialEq>(own: &[T], bounds: &[T], of: impl Fn(&T, &T) -> Option<T>) -> Vec<T> {
    let mut found = Vec::new();
    for both in
        own.iter().flat_map(|one| bounds.iter().filter_map(|bound| of(one, bound)).collect::<Vec<_>>())
    {
        if !found.contains(&both) {
            found.push(both);
        }
    }
    found
}

/// Without those that are inside of another.
fn outermost(paths: &[PolicyPath]) -> Vec<PolicyPath> {
    let is_inner = |path: &&PolicyPath| paths.iter().any(|other| other != *path && other.contains(path));
    paths.iter().filter(|path| !is_inner(path)).cloned().collect()
}

fn union<T: PartialEq + Clone>(one: &[T], another: &[T]) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for item in one.iter().chain(another) {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}
