//! What an agent may reach: the policy of a sandbox, and the operator's file of policies with their upper bound.
//!
//! The plane computes the policy of a task and passes it to the worker as JSON, in the variable `POLICY`. The worker enforces
//! it. Unlike other shapes of this crate, an unknown field is an error: a misspelled restriction must not be ignored.

mod address;
mod defaults;
mod fields;
mod file;
mod host;
mod path;
mod reader;
mod restrict;

pub use file::{EffectivePolicy, PolicyFile, Source};
pub use host::{Host, InvalidHost, SETS};
pub use path::{ForbiddenDirectory, InvalidPath, PolicyPath, Root};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::fmt;

/// A policy. Written as JSON:
///
/// ```json
/// {
///   "network": { "access": "allowlist", "allowedDomains": ["github.com", "*.npmjs.org", "set:registries"] },
///   "filesystem": { "allowRead": ["/srv/datasets"], "denyRead": ["/usr/share/licenses"], "allowWrite": ["/srv/cache"] },
///   "repository": { "allowSettings": false },
///   "limits": { "processes": 1000, "memoryMb": 4096, "fileMb": 2048 }
/// }
/// ```
///
/// Every field is optional. The defaults are those of a worker without a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxPolicy {
    /// `None` leaves the worker's own setting (`NETWORK`), which is `public` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRules>,
    #[serde(skip_serializing_if = "FilesystemRules::is_empty")]
    pub filesystem: FilesystemRules,
    pub repository: RepositoryRules,
    #[serde(skip_serializing_if = "LimitRules::is_empty")]
    pub limits: LimitRules,
}

/// What the agent may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkRules {
    pub access: Access,
    /// Hosts that may be reached at public addresses. Empty unless access is [`Access::Allowlist`].
    pub allowed_domains: Vec<Host>,
    /// Hosts that may be reached at addresses of private networks too; `localhost` and addresses also at those of this
    /// machine.
    pub allowed_private_hosts: Vec<Host>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Every host with a public address.
    #[default]
    Public,
    /// Only the hosts of the lists.
    Allowlist,
    /// No host.
    None,
}

/// Directories besides those of the system, the workspace and the agent's home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemRules {
    /// Absent for the agent, also within what it may read otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_read: Vec<PolicyPath>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_read: Vec<PolicyPath>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_write: Vec<PolicyPath>,
}

/// What the agent takes from the repository that it works on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryRules {
    /// Whether settings in the repository apply to the agent: hooks, MCP servers, permissions, commands. Their authors can
    /// run programs with them. Its instructions (`CLAUDE.md`, `AGENTS.md`) are read in any case.
    pub allow_settings: bool,
}

/// Processes and threads, unless the policy says otherwise.
pub const DEFAULT_PROCESSES: u64 = 4096;

/// Largest file, unless the policy says otherwise.
pub const DEFAULT_FILE_MB: u64 = 16 * 1024;

/// Limits of the agent and its child processes. `None` leaves that of the worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitRules {
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Memory of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Size of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mb: Option<u64>,
}

/// An error in a policy, with the path of its field: `maximum.network.access`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyError {
    pub field: String,
    pub message: String,
}

impl SandboxPolicy {
    /// Parses the value of `POLICY`.
    ///
    /// # Errors
    /// All errors in it.
    pub fn parse(text: &str) -> Result<Self, Vec<PolicyError>> {
        let value = reader::json(text)?;
        let mut errors = Vec::new();
        let policy = reader::policy(&value, "", &mut errors);
        if errors.is_empty() { Ok(policy) } else { Err(errors) }
    }

    /// The value of `POLICY`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a policy has only strings, numbers and booleans")
    }
}

impl Serialize for NetworkRules {
    /// An allowlist is written even if it is empty: without a list it would be an error.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("access", &self.access)?;
        if self.access == Access::Allowlist {
            map.serialize_entry("allowedDomains", &self.allowed_domains)?;
        }
        if !self.allowed_private_hosts.is_empty() {
            map.serialize_entry("allowedPrivateHosts", &self.allowed_private_hosts)?;
        }
        map.end()
    }
}

impl FilesystemRules {
    pub fn is_empty(&self) -> bool {
        self.deny_read.is_empty() && self.allow_read.is_empty() && self.allow_write.is_empty()
    }
}

impl LimitRules {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Access {
    pub const ALL: [Self; 3] = [Self::Public, Self::Allowlist, Self::None];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Allowlist => "allowlist",
            Self::None => "none",
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

impl PolicyError {
    /// All errors in one sentence, for a log or a setting.
    pub fn join(errors: &[Self]) -> String {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests;
