//! Events about tool calls of an agent, and about the files that they change.

use super::agent::BlockPlace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a tool: its beginning, and the full text if that is longer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolResponse {
    pub tool_response: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response_truncated: Option<bool>,
    /// Length of the full text in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response_full_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", alias = "full_response")]
    pub full_result: Option<String>,
}

/// The result of a tool that has no event of its own: its beginning, and the full text if that is longer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolResultText {
    #[serde(alias = "content")]
    pub result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_truncated: Option<bool>,
    /// Length of the full text in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_full_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", alias = "full_response")]
    pub full_result: Option<String>,
}

/// A tool is called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentToolUse {
    /// Always `tool_use`. OmoiOS clients expect the field.
    pub event_subtype: String,
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "input")]
    pub tool_input: Value,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    /// What the call does, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The kind of tool in the Agent Client Protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The files that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<Value>,
    #[serde(flatten)]
    pub place: BlockPlace,
}

/// A tool has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentToolCompleted {
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "input")]
    pub tool_input: Value,
    pub is_error: bool,
    pub duration_ms: u64,
    #[serde(flatten)]
    pub response: ToolResponse,
    pub turn: u64,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
}

/// The result of a tool that ran at the model's provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentToolResult {
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    pub is_error: bool,
    #[serde(flatten)]
    pub text: ToolResultText,
    #[serde(flatten)]
    pub place: BlockPlace,
}

/// The result of a call that the worker does not know, for example because it happened before the worker attached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentUserToolResult {
    pub is_error: bool,
    #[serde(flatten)]
    pub text: ToolResultText,
    pub turn: u64,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
}

/// What a sub-agent was called for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Subagent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", alias = "description")]
    pub subagent_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_prompt: Option<String>,
}

/// A sub-agent is called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSubagentInvoked {
    #[serde(flatten)]
    pub subagent: Subagent,
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "input")]
    pub tool_input: Value,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    #[serde(flatten)]
    pub place: BlockPlace,
}

/// A sub-agent has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSubagentCompleted {
    #[serde(flatten)]
    pub subagent: Subagent,
    pub subagent_result: String,
    /// Its tokens, as the agent reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_usage: Option<Value>,
    pub subagent_duration_ms: u64,
    /// From other workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_cost_usd: Option<f64>,
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "input")]
    pub tool_input: Value,
    pub is_error: bool,
    pub duration_ms: u64,
    #[serde(flatten)]
    pub response: ToolResponse,
    pub turn: u64,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
}

/// A skill is called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSkillInvoked {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_name: Option<String>,
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "input")]
    pub tool_input: Value,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    #[serde(flatten)]
    pub place: BlockPlace,
}

/// A skill has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSkillCompleted {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_name: Option<String>,
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "input")]
    pub tool_input: Value,
    pub is_error: bool,
    pub duration_ms: u64,
    #[serde(flatten)]
    pub response: ToolResponse,
    pub turn: u64,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_use_id: Option<String>,
}

/// A file has changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentFileEdited {
    pub turn: u64,
    /// The call that changed it, if it is known.
    #[serde(alias = "tool_id")]
    pub tool_use_id: Option<String>,
    #[serde(alias = "path")]
    pub file_path: String,
    /// `created`, `modified`, `deleted` or `renamed`.
    pub change_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_path: Option<String>,
    pub lines_added: u64,
    pub lines_removed: u64,
    pub diff_preview: String,
    /// `null` if it is too large.
    pub full_diff: Option<String>,
    pub full_diff_available: bool,
    /// Size of the full diff in bytes.
    pub full_diff_size: u64,
    pub binary: bool,
}

/// The worker has allowed or denied a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentPermissionDecided {
    pub turn: u64,
    #[serde(alias = "tool_name")]
    pub tool: String,
    #[serde(alias = "tool_id")]
    pub tool_use_id: String,
    /// The permission mode.
    pub mode: String,
    /// `allow`, `deny` or `cancelled`.
    pub decision: String,
    #[serde(skip_serializing_if = "Option::is_none", alias = "message")]
    pub reason: Option<String>,
}
