//! Events about continuous runs.

use super::report::RunState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A continuous run begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContinuousStarted {
    /// The beginning of the task.
    pub goal: String,
    pub limits: ContinuousLimits,
    /// Text with which the agent signals that the task is done.
    pub completion_signal: String,
    /// Number of consecutive iterations that must contain the signal.
    pub completion_threshold: u64,
    pub validation_requirements: ValidationRequirements,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContinuousLimits {
    pub max_iterations: u64,
    pub max_cost_usd: f64,
    pub max_duration_seconds: u64,
    pub max_consecutive_errors: u64,
}

/// Conditions for a task to count as done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ValidationRequirements {
    /// All changes are committed.
    pub clean: bool,
    /// All commits are pushed.
    pub pushed: bool,
    /// A pull request exists.
    pub pull_request: bool,
    /// Test command that must succeed.
    pub tests: Option<String>,
}

/// A continuous run has ended. A final report of OmoiOS's worker; ours sends `agent.completed` or `agent.failed` after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContinuousCompleted {
    pub stop_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_session_id: Option<String>,
    /// Cost of the run.
    pub total_cost_usd: f64,
    #[serde(flatten)]
    pub state: RunState,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IterationStarted {
    pub prompt_preview: String,
    /// Cost of the run so far.
    pub total_cost_usd: f64,
    #[serde(flatten)]
    pub state: RunState,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IterationCompleted {
    /// Cost of this iteration.
    pub cost_usd: f64,
    pub output_preview: String,
    /// Cost of the run so far.
    pub total_cost_usd: f64,
    #[serde(flatten)]
    pub state: RunState,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IterationFailed {
    pub iteration_num: u64,
    pub error: String,
    /// The limit that ended the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// Number of consecutive failed iterations.
    pub error_count: u64,
}

/// The agent says that the task is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IterationCompletionSignal {
    pub iteration_num: u64,
    /// Number of consecutive iterations with the signal.
    pub signal_count: u64,
    /// How many are needed.
    pub threshold: u64,
}

/// The worker has checked the requirements.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IterationValidation {
    pub iteration_num: u64,
    pub passed: bool,
    /// What is missing, as a text for the agent.
    pub feedback: String,
    pub git_status: GitStatus,
    pub errors: Vec<String>,
}

/// State of the repository. `null` means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GitStatus {
    pub is_clean: Option<bool>,
    pub is_pushed: Option<bool>,
    pub has_pr: Option<bool>,
    pub branch_name: Option<String>,
}
