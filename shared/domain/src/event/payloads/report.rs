//! What several events report about a run: its cost, its progress, and the state of its repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tokens of what an event is about: a turn, or the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TokenCounts {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
}

/// Progress of a run, and the state of its repository at the last inspection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunState {
    /// Current iteration, from 1. A single run is one iteration.
    pub iteration_num: u64,
    pub successful_iterations: u64,
    /// Number of consecutive failed iterations.
    pub error_count: u64,
    /// Number of consecutive iterations with the completion signal.
    pub completion_signal_count: u64,
    pub elapsed_seconds: u64,
    /// Whether all requirements were met at the last validation.
    pub validation_passed: bool,
    /// `null` if there is no test command.
    pub tests_passed: Option<bool>,
    pub code_committed: Option<bool>,
    pub code_pushed: Option<bool>,
    pub pr_created: Option<bool>,
    pub pr_url: Option<String>,
    pub pr_number: Option<u64>,
    pub files_changed: Option<u64>,
    pub ci_status: Option<String>,
}

/// What a final report says about the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunReport {
    #[serde(flatten)]
    pub state: RunState,
    /// Number of model responses.
    pub turns: u64,
    /// Cost of the run.
    pub cost_usd: f64,
    /// Tokens of the run.
    #[serde(flatten)]
    pub tokens: TokenCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The agent's last text.
    pub final_output: String,
    #[serde(skip_serializing_if = "Option::is_none", alias = "branch")]
    pub branch_name: Option<String>,
    /// The last commit of the branch at the repository's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// From other workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// From other workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Value>,
}

impl RunReport {
    /// Whether there was no run.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Fields that the worker adds to every event of its log. Ephemeral events do not have them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkerContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_id: Option<String>,
    pub sandbox_id: String,
}
