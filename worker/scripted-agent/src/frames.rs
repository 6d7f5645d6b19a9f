//! Output frames in the format of the CLI.

use super::player::{Player, QueuedMessage};
use super::transcript::Totals;
use serde_json::{Value, json};
use uuid::Uuid;
use worker::clock;

/// The CLI version whose frames are produced.
pub const VERSION: &str = "2.1.325";

/// A random id.
pub fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// How a turn ended, as reported in `result`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub subtype: &'static str,
    pub terminal_reason: &'static str,
    pub is_error: bool,
    /// The HTTP status, if the API returned an error.
    pub api_error_status: Option<u16>,
}

impl Ending {
    pub const COMPLETED: Self = Self::new("success", "completed", false);
    /// Interrupted while streaming or waiting.
    pub const INTERRUPTED_STREAMING: Self = Self::new("error_during_execution", "aborted_streaming", true);
    /// Interrupted during a tool call.
    pub const INTERRUPTED_TOOL: Self = Self::new("error_during_execution", "aborted_tools", true);
    /// Reached `--max-turns`.
    pub const MAX_TURNS: Self = Self::new("error_max_turns", "max_turns", true);
    /// Reached `--max-budget-usd`.
    pub const BUDGET: Self = Self::new("error_max_budget_usd", "budget_exhausted", true);

    const fn new(subtype: &'static str, terminal_reason: &'static str, is_error: bool) -> Self {
        Self { subtype, terminal_reason, is_error, api_error_status: None }
    }

    /// The API returned an error.
    pub fn api_error(status: Option<u16>) -> Self {
        Self { api_error_status: status, ..Self::new("success", "api_error", true) }
    }
}

/// A successful response to a control request.
pub fn response(request: &str, response: Value) -> Value {
    json!({"type": "control_response",
        "response": {"subtype": "success", "request_id": request, "response": response}})
}

pub fn initialized(player: &Player, request: &str) -> Value {
    let model = &player.arguments.model;
    let mut frame = response(
        request,
        json!({
            "commands": [], "agents": [{"name": "general-purpose", "description": "Plays the steps of a Task."}],
            "models": [{"value": "default", "resolvedModel": model, "displayName": "Scripted"}],
            "output_style": "default", "available_output_styles": ["default"],
            "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "scripted"},
            "pid": std::process::id(), "claude_code_version": VERSION,
            "current_permission_mode": player.mode,
            "session_state": if player.busy { "running" } else { "idle" },
        }),
    );
    frame["response"]["pending_permission_requests"] = json!([]);
    frame
}

/// The response to an unknown control request.
pub fn unsupported(request: &str, subtype: &str) -> Value {
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": request,
        "error": format!("Unsupported control request subtype: {subtype}"),
        "error_code": "unsupported_request"}})
}

/// Delivery progress of a message.
pub fn lifecycle(player: &Player, command: &str, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": command, "state": state, "uuid": new_id(),
        "session_id": player.session})
}

/// The first frame of every turn.
pub fn init(player: &Player) -> Value {
    json!({
        "type": "system", "subtype": "init", "cwd": player.arguments.cwd, "session_id": player.session,
        "tools": ["Task", "Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"], "mcp_servers": [],
        "model": player.arguments.model, "permissionMode": player.mode, "slash_commands": [],
        "apiKeySource": "none", "claude_code_version": VERSION, "output_style": "default",
        "agents": ["general-purpose"], "skills": [], "plugins": [],
        "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"],
        "uuid": new_id(), "user_message_uuids": player.turn.message_ids,
    })
}

pub fn system(player: &Player, subtype: &str, more: Value) -> Value {
    let mut frame = more;
    frame["type"] = "system".into();
    frame["subtype"] = subtype.into();
    frame["uuid"] = new_id().into();
    frame["session_id"] = player.session.as_str().into();
    frame
}

/// The echo of a message.
pub fn replay(player: &Player, message: &QueuedMessage) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": message.content}, "session_id": player.session,
        "parent_tool_use_id": null, "uuid": message.uuid, "timestamp": message.at, "isReplay": true})
}

/// A streaming event.
pub fn stream(player: &Player, event: Value, parent: Option<&str>) -> Value {
    json!({"type": "stream_event", "event": event, "session_id": player.session,
        "parent_tool_use_id": parent, "uuid": new_id()})
}

/// A message with one content block.
pub fn message(player: &Player, id: &str, block: Value, stop_reason: Option<&str>) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "model": player.arguments.model, "content": [block],
        "stop_reason": stop_reason, "stop_sequence": null, "usage": first_usage()})
}

/// The usage reported when a message starts.
pub fn first_usage() -> Value {
    json!({"input_tokens": INPUT_PER_MESSAGE, "output_tokens": 1, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0})
}

/// Simulated input tokens of a message.
pub const INPUT_PER_MESSAGE: u64 = 100;

/// A content block of the assistant.
pub fn assistant(player: &Player, uuid: &str, message: Value, parent: Option<&str>) -> Value {
    json!({"type": "assistant", "message": message, "parent_tool_use_id": parent,
        "session_id": player.session, "uuid": uuid, "timestamp": clock::now()})
}

/// A frame with role `user`: a tool result or a note.
pub fn user(player: &Player, uuid: &str, content: Value, parent: Option<&str>) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": parent,
        "session_id": player.session, "uuid": uuid, "timestamp": clock::now()})
}

/// The end of a turn. `type` comes last, because the CLI guarantees no key order. The id is deterministic, so a player
/// that is killed before it writes the transcript emits the same id again.
pub fn result(player: &Player, ending: &Ending, before: Totals) -> Value {
    let (turn, now) = (&player.turn, player.totals);
    let index = now.results - 1;
    let session = Uuid::parse_str(&player.session).unwrap_or_default();
    let usage = |used: Totals| {
        json!({&player.arguments.model: {"inputTokens": used.input_tokens, "outputTokens": used.output_tokens,
            "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0, "webSearchRequests": 0,
            "costUSD": used.cost, "contextWindow": 200_000, "maxOutputTokens": 32_000}})
    };
    let used = Totals {
        cost: now.cost - before.cost,
        input_tokens: now.input_tokens - before.input_tokens,
        output_tokens: now.output_tokens - before.output_tokens,
        results: 1,
    };
    let milliseconds = u64::try_from(turn.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut frame = json!({
        "is_error": ending.is_error, "subtype": ending.subtype,
        "terminal_reason": ending.terminal_reason, "api_error_status": ending.api_error_status,
        "stop_reason": if ending.is_error { Value::Null } else { "end_turn".into() },
        "num_turns": turn.messages, "duration_ms": milliseconds, "duration_api_ms": milliseconds,
        "total_cost_usd": now.cost, "modelUsage": usage(now), "model_usage_since_last_result": usage(used),
        "usage": {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
        "permission_denials": turn.denials, "queued_turn_count": player.queue.len(), "result_index": index,
        "user_message_uuids": turn.message_ids, "session_id": player.session,
        "type": "result", "uuid": Uuid::new_v5(&session, format!("result {index}").as_bytes()).to_string(),
    });
    if ending.subtype == "success" {
        frame["result"] = turn.last_text.as_str().into();
    } else {
        frame["errors"] = json!([format!("The turn ended: {}", ending.terminal_reason)]);
    }
    if let Some(reason) = &turn.resume_reason {
        frame["resume_reason"] = reason.as_str().into();
    }
    frame
}
