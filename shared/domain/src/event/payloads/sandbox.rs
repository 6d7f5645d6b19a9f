//! Events about a sandbox, emitted by the plane.

use crate::message::Sender;
use crate::resources::ActualResources;
use crate::{SandboxId, TaskId, TicketId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The attempt that a sandbox is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxAttempt {
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub ticket_id: Option<TicketId>,
    /// Number of the attempt, from 1.
    pub attempt: Option<u32>,
    /// Name of the provider.
    pub provider: Option<String>,
}

/// A stage of provisioning begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxStage {
    #[serde(flatten)]
    pub attempt: SandboxAttempt,
    /// What the sandbox really has. May differ from the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_resources: Option<ActualResources>,
}

impl SandboxStage {
    pub fn new(attempt: SandboxAttempt) -> Self {
        Self { attempt, actual_resources: None }
    }
}

/// The sandbox is stored; the provider has not been called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPending(pub SandboxStage);

/// Work before the sandbox is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPreparing(pub SandboxStage);

/// The provider creates the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxCreating(pub SandboxStage);

/// The worker's program is uploaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxUploading(pub SandboxStage);

/// The worker is being started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxStarting(pub SandboxStage);

/// The worker is started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSpawned(pub SandboxStage);

/// The worker has reported for the first time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxRunning(pub SandboxAttempt);

/// A stage of provisioning failed and is retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxRetrying {
    #[serde(flatten)]
    pub attempt: SandboxAttempt,
    /// The stage, named like its event: `creating`.
    pub stage: String,
    pub error: String,
    /// How often this stage has failed.
    pub stage_attempt: u32,
    /// When it is retried.
    pub not_before: Timestamp,
}

/// The agent has finished; the sandbox is being shut down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxCompleting {}

/// The sandbox has ended after its task was completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxCompleted {
    pub task_id: Option<TaskId>,
}

/// The provider has deleted the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxReleased {
    pub task_id: Option<TaskId>,
}

/// Why the plane ended a sandbox, and what it found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxEnd {
    /// The reason as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the worker or the agent was silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_duration_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<TicketId>,
    /// Whether the agent's transcript is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript_saved: Option<bool>,
    /// The last output of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_log: Option<String>,
}

/// The sandbox could not be provisioned, its worker reported a failure, or it has disappeared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxFailed {
    /// A code such as `provisioning_failed` or `dead`, or the error that the worker reported.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(flatten)]
    pub end: SandboxEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Number of the attempt, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Name of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// A caller ended the sandbox, or the plane did because it is not needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxTerminated {
    /// The caller's reason, or a code.
    pub reason: String,
    /// The caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
    #[serde(flatten)]
    pub end: SandboxEnd,
}

/// The worker tokens that were issued before are revoked, and a new one was issued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxTokenRotated {
    /// The generation of the new token.
    pub generation: u32,
    /// The caller, who has the new token.
    pub by: Sender,
}

/// The plane ended a sandbox that did nothing for too long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxTerminatedIdle {
    /// A code such as `idle_timeout`.
    pub reason: String,
    #[serde(flatten)]
    pub end: SandboxEnd,
}
