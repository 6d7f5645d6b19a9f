//! Events about the directory in which an agent works.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceCloning {
    /// URL of the repository.
    pub repository: Option<String>,
    pub branch: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceReady {
    /// URL of the repository.
    pub repository: Option<String>,
    pub branch: Option<String>,
    /// The commit that is checked out.
    pub head: Option<String>,
    /// The branch did not exist and was created.
    pub created_branch: bool,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceFailed {
    /// URL of the repository.
    pub repository: Option<String>,
    pub error: String,
}

/// Too many files changed at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceChangesLeftOut {
    pub turn: u64,
    pub tool_use_id: Option<String>,
    /// Number of files without an event.
    pub count: u64,
}

/// Changes of files are no longer observed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceSnapshotsOff {
    pub reason: String,
}

/// The worker's proxy denied connections of the agent. Reported at most once a minute for each host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetworkDenied {
    pub host: String,
    pub port: u16,
    /// Why, and which setting decides.
    pub reason: String,
    /// Number of connections since the last report.
    pub count: u64,
}
