//! Lines written to the CLI: user messages, control requests and control responses.

use crate::agents::UserMessage;
use serde_json::{Value, json};

/// Must be the first request.
pub fn initialize(request_id: &str) -> Value {
    request(request_id, json!({ "subtype": "initialize", "hooks": null }))
}

pub fn user_message(message: &UserMessage) -> Value {
    json!({
        "type": "user",
        "message": { "role": "user", "content": message.text },
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": message.uuid,
    })
}

/// Stops the current turn. `cancel_queued` also drops queued messages.
pub fn interrupt(request_id: &str, cancel_queued: bool) -> Value {
    let mut body = json!({ "subtype": "interrupt" });
    if cancel_queued {
        body["cancel_queued"] = true.into();
    }
    request(request_id, body)
}

/// Allows a tool call with this input.
pub fn allow(request_id: &str, input: &Value) -> Value {
    success(request_id, json!({ "behavior": "allow", "updatedInput": input }))
}

/// Denies a tool call. The agent reads the reason and continues its turn.
pub fn deny(request_id: &str, reason: &str) -> Value {
    success(request_id, json!({ "behavior": "deny", "message": reason, "interrupt": false }))
}

/// Rejects an unsupported request.
pub fn error(request_id: &str, reason: &str) -> Value {
    let response = json!({ "subtype": "error", "request_id": request_id, "error": reason });
    json!({ "type": "control_response", "response": response })
}

fn request(request_id: &str, body: Value) -> Value {
    json!({ "type": "control_request", "request_id": request_id, "request": body })
}

fn success(request_id: &str, body: Value) -> Value {
    let response = json!({ "subtype": "success", "request_id": request_id, "response": body });
    json!({ "type": "control_response", "response": response })
}
