//! What a player prints: the shapes of the CLI's frames.

use super::player::{Player, Said};
use super::transcript::Totals;
use crate::clock;
use serde_json::{Value, json};
use uuid::Uuid;

/// The version of the CLI whose frames these are.
pub const VERSION: &str = "2.1.325";

/// A name for something that has none.
pub fn name() -> String {
    Uuid::new_v4().to_string()
}

/// How a turn ended, as `result` says it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// `success`.
    pub subtype: &'static str,
    /// `completed`.
    pub terminal_reason: &'static str,
    /// Whether that is an error.
    pub is_error: bool,
    /// What the API answered, if that was the error.
    pub api_error_status: Option<u16>,
}

impl Ending {
    /// As it should.
    pub const COMPLETED: Self = Self::new("success", "completed", false);
    /// Somebody stopped it while it spoke or waited.
    pub const STOPPED_TALKING: Self = Self::new("error_during_execution", "aborted_streaming", true);
    /// Somebody stopped it while it used a tool.
    pub const STOPPED_TOOL: Self = Self::new("error_during_execution", "aborted_tools", true);
    /// It answered as often as it may.
    pub const MAX_TURNS: Self = Self::new("error_max_turns", "max_turns", true);
    /// It spent what it may.
    pub const BUDGET: Self = Self::new("error_max_budget_usd", "budget_exhausted", true);

    const fn new(subtype: &'static str, terminal_reason: &'static str, is_error: bool) -> Self {
        Self { subtype, terminal_reason, is_error, api_error_status: None }
    }

    /// The API did not want to.
    pub fn api_error(status: Option<u16>) -> Self {
        Self { api_error_status: status, ..Self::new("success", "api_error", true) }
    }
}

/// The answer to a request.
pub fn answer(request: &str, response: Value) -> Value {
    json!({"type": "control_response",
        "response": {"subtype": "success", "request_id": request, "response": response}})
}

/// The answer to `initialize`.
pub fn initialized(player: &Player, request: &str) -> Value {
    let model = &player.arguments.model;
    let mut frame = answer(
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

/// The answer to a request that the CLI does not know.
pub fn unsupported(request: &str, subtype: &str) -> Value {
    json!({"type": "control_response", "response": {"subtype": "error", "request_id": request,
        "error": format!("Unsupported control request subtype: {subtype}"),
        "error_code": "unsupported_request"}})
}

/// How far something that was said has come.
pub fn lifecycle(player: &Player, command: &str, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": command, "state": state, "uuid": name(),
        "session_id": player.session})
}

/// The head of every turn.
pub fn init(player: &Player) -> Value {
    json!({
        "type": "system", "subtype": "init", "cwd": player.arguments.cwd, "session_id": player.session,
        "tools": ["Task", "Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"], "mcp_servers": [],
        "model": player.arguments.model, "permissionMode": player.mode, "slash_commands": [],
        "apiKeySource": "none", "claude_code_version": VERSION, "output_style": "default",
        "agents": ["general-purpose"], "skills": [], "plugins": [],
        "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"],
        "uuid": name(), "user_message_uuids": player.turn.said,
    })
}

/// A frame of `system`.
pub fn system(player: &Player, subtype: &str, more: Value) -> Value {
    let mut frame = more;
    frame["type"] = "system".into();
    frame["subtype"] = subtype.into();
    frame["uuid"] = name().into();
    frame["session_id"] = player.session.as_str().into();
    frame
}

/// What was said, said back.
pub fn replay(player: &Player, said: &Said) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": said.content}, "session_id": player.session,
        "parent_tool_use_id": null, "uuid": said.uuid, "timestamp": said.at, "isReplay": true})
}

/// A piece of what is being written.
pub fn stream(player: &Player, event: Value, parent: Option<&str>) -> Value {
    json!({"type": "stream_event", "event": event, "session_id": player.session,
        "parent_tool_use_id": parent, "uuid": name()})
}

/// The message around a content block.
pub fn message(player: &Player, id: &str, block: Value, stop_reason: Option<&str>) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "model": player.arguments.model, "content": [block],
        "stop_reason": stop_reason, "stop_sequence": null, "usage": first_usage()})
}

/// What a message has used before it is written.
pub fn first_usage() -> Value {
    json!({"input_tokens": INPUT_PER_MESSAGE, "output_tokens": 1, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0})
}

/// What every message pretends to read.
pub const INPUT_PER_MESSAGE: u64 = 100;

/// A content block of the assistant.
pub fn assistant(player: &Player, uuid: &str, message: Value, parent: Option<&str>) -> Value {
    json!({"type": "assistant", "message": message, "parent_tool_use_id": parent,
        "session_id": player.session, "uuid": uuid, "timestamp": clock::now()})
}

/// A frame in the user's name: a tool's result, or a note.
pub fn user(player: &Player, uuid: &str, content: Value, parent: Option<&str>) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": parent,
        "session_id": player.session, "uuid": uuid, "timestamp": clock::now()})
}

/// The end of a turn, with its type last, as the CLI may put it anywhere. It has the same name each time it is told, if
/// the player is killed between telling and writing.
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
    let milliseconds = u64::try_from(turn.began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut frame = json!({
        "is_error": ending.is_error, "subtype": ending.subtype,
        "terminal_reason": ending.terminal_reason, "api_error_status": ending.api_error_status,
        "stop_reason": if ending.is_error { Value::Null } else { "end_turn".into() },
        "num_turns": turn.messages, "duration_ms": milliseconds, "duration_api_ms": milliseconds,
        "total_cost_usd": now.cost, "modelUsage": usage(now), "model_usage_since_last_result": usage(used),
        "usage": {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
        "permission_denials": turn.denials, "queued_turn_count": player.queue.len(), "result_index": index,
        "user_message_uuids": turn.said, "session_id": player.session,
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
