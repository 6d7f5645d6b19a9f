//! Events about an agent: its conversation, its turns, and the end of its run.

use super::report::{RunReport, TokenCounts};
use crate::message::{MessageType, Sender};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where in the conversation a block of the agent's message belongs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlockPlace {
    /// Number of the model's response, from 1.
    pub turn: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The call of the sub-agent that this belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// The response was cut off by an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aborted: Option<bool>,
}

/// An agent is about to be started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentStarted {
    /// The kind of agent: `claude`, `acp`, `scripted`.
    pub sdk: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The first line of the task.
    pub task: String,
    pub task_description_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_session_id: Option<String>,
    pub is_resuming: bool,
    pub fork_session: bool,
    pub worker_version: String,
}

/// A note of the agent's program about its session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSystemMessage {
    pub turn: u64,
    pub subtype: String,
    /// What the agent's program reported, as it was.
    pub metadata: Value,
    /// From other workers.
    #[serde(skip_serializing_if = "Option::is_none", alias = "content")]
    pub message: Option<String>,
}

/// Text input to the model: from a user, the agent's program, or the parent of a sub-agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentUserMessage {
    pub turn: u64,
    pub content_length: u64,
    pub content: String,
    pub message_uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// A note of the agent's program, such as "interrupted by user".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<bool>,
}

/// A text of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentMessage {
    pub content: String,
    pub content_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_truncated: Option<bool>,
    /// From other workers: the text of which `content` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_content: Option<String>,
    /// Index of the block within the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    #[serde(flatten)]
    pub place: BlockPlace,
}

/// A thought of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentThinking {
    pub content: String,
    /// `extended_thinking`, or `redacted` without content.
    pub thinking_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_truncated: Option<bool>,
    /// From other workers: the text of which `content` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_content: Option<String>,
    /// Index of the block within the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    #[serde(flatten)]
    pub place: BlockPlace,
}

/// A message of the agent is complete. Its blocks have their own events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentAssistantMessage {
    pub turn: u64,
    pub message_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    pub block_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
    /// From other workers, which send the text here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// From other workers: the text of which `content` is the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_content: Option<String>,
}

/// The agent's plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentPlan {
    pub turn: u64,
    /// The entries, as the agent sent them.
    pub entries: Value,
}

/// A turn has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentTurnCompleted {
    pub turn: u64,
    pub success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
    /// The limit that ended the turn: `max_turns` or `budget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error_status: Option<Value>,
    /// Number of model responses.
    #[serde(alias = "num_turns")]
    pub turns: u64,
    /// Cost of this turn.
    pub cost_usd: f64,
    /// Cost of the run so far.
    pub total_cost_usd: f64,
    /// Tokens of this turn.
    #[serde(flatten)]
    pub tokens: TokenCounts,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_api_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextUse>,
    pub session_id: String,
    pub final_output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_denials: Option<Vec<Value>>,
    /// From other workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// Usage of the context window, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContextUse {
    pub used: u64,
    pub size: u64,
}

/// The worker passes a message to the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentMessageInjected {
    pub message_type: Option<MessageType>,
    pub content: String,
    pub content_length: u64,
    pub sender: Option<Sender>,
    pub sender_id: Option<String>,
    pub message_id: String,
    /// The id under which the agent echoes the message.
    pub message_uuid: String,
    /// How many messages the worker has passed to the agent.
    pub intervention_number: u64,
    pub turn: u64,
}

/// The agent has stopped its turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentInterrupted {
    /// `interrupt`, `stop`, `max_duration` or `shutdown`.
    pub reason: String,
    pub turn: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
    /// Messages that the agent will not work on.
    pub cancelled: Vec<String>,
}

/// The task is done. A final report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentCompleted {
    pub success: bool,
    #[serde(alias = "reason")]
    pub stop_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(flatten)]
    pub report: RunReport,
}

/// The task has failed. A final report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentFailed {
    pub success: bool,
    #[serde(alias = "reason")]
    pub stop_reason: String,
    #[serde(skip_serializing_if = "Option::is_none", alias = "error_message")]
    pub error: Option<String>,
    /// What failed before the agent was started: `workspace`, `configuration`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Absent if the agent was not started.
    #[serde(flatten, skip_serializing_if = "RunReport::is_empty")]
    #[schemars(with = "Option<RunReport>")]
    pub report: RunReport,
}

/// The agent is idle until the next message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentWaiting {
    pub message: String,
    pub turn: u64,
}

/// The agent's program has exited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentStreamError {
    pub error: String,
    /// `exit`, `sigkill`, `signal`, `out_of_memory` or `not_started`.
    pub error_type: String,
    pub turn: u64,
    /// Consecutive crashes.
    pub crashes: u64,
    /// Whether it is started again.
    pub restarts: bool,
}

/// Something failed that does not end the task by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentError {
    pub error: String,
    pub phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The last error output of the agent's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
}

/// Output of the agent's program that the worker does not understand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentUnparsed {
    #[serde(flatten)]
    pub place: BlockPlace,
    /// The output, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
    /// The output, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The worker exits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentShutdown {
    pub reason: String,
    pub total_turns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_finished: Option<bool>,
}

/// The worker is alive. Ephemeral.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentHeartbeat {
    /// `starting`, `working`, `waiting` or `stopping`. OmoiOS sends `alive` or `running`.
    pub status: String,
    pub event_count: u64,
    pub waiting_events: u64,
    pub spool_bytes: u64,
    pub turns: u64,
    /// Cost of the run so far.
    #[serde(alias = "cost_usd")]
    pub total_cost_usd: f64,
    /// Memory of the worker.
    pub memory_bytes: Option<u64>,
    pub uptime_seconds: u64,
    pub worker_version: String,
    /// A tool that produces no events has made progress. The plane counts this as activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progressed: Option<bool>,
    /// Memory of the agent and its child processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_waiting_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Text that the model is writing. Ephemeral.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentPartial {
    pub message_id: String,
    /// Index of the block within the message.
    pub block: u64,
    /// `text` or `thinking`.
    pub kind: String,
    /// Position in the block, in characters.
    pub offset: u64,
    pub text: String,
}
