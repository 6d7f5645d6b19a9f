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

/// Commits of the task branch have reached the repository's host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspacePushed {
    pub branch: String,
    /// The last commit of the branch.
    pub commit: String,
    /// The last commit before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_commit: Option<String>,
    /// Number of commits that are new at the host.
    pub commits: u64,
    /// The branch was rewritten: it does not contain `previous_commit` any more.
    pub forced: bool,
}

/// The agent tried to push something else than its task branch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspacePushRejected {
    /// Such as `refs/heads/main`.
    pub ref_name: String,
    pub reason: String,
}

/// Commits of the task branch could not be sent to the repository's host. The worker still has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspacePushFailed {
    pub branch: String,
    pub commit: String,
    pub error: String,
    /// Otherwise the worker tries again when the branch has further commits.
    pub will_retry: bool,
}

/// Work of the agent that no code host has was uploaded to the plane, from which it can be downloaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceKept {
    pub files: Vec<WorkspaceKeptFile>,
    /// The first parts of the workspace that are not kept, or not on the branch.
    pub left_out: Vec<WorkspacePart>,
    /// Number of these parts.
    pub left_out_count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceKeptFile {
    /// `archive`, `patch` or `bundle`.
    pub format: String,
    pub size_bytes: u64,
}

/// A part of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspacePart {
    pub path: String,
    pub reason: String,
}

/// Work of the agent could not be uploaded to the plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceKeepFailed {
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
