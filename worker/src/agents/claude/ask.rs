//! What we write to the CLI.

use crate::agents::Say;
use serde_json::{Value, json};

/// The first thing that is said.
pub fn initialize(request_id: &str) -> Value {
    request(request_id, json!({ "subtype": "initialize", "hooks": null }))
}

/// Something for the agent to read.
pub fn say(say: &Say) -> Value {
    json!({
        "type": "user",
        "message": { "role": "user", "content": say.text },
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": say.uuid,
    })
}

/// Stop this turn, and with `cancel_queued` whatever was to come after it.
pub fn interrupt(request_id: &str, cancel_queued: bool) -> Value {
    let mut body = json!({ "subtype": "interrupt" });
    if cancel_queued {
        body["cancel_queued"] = true.into();
    }
    request(request_id, body)
}

/// A tool may be used, with this input.
pub fn allow(request_id: &str, input: &Value) -> Value {
    answer(request_id, json!({ "behavior": "allow", "updatedInput": input }))
}

/// A tool may not be used. The agent reads why, and goes on.
pub fn deny(request_id: &str, reason: &str) -> Value {
    answer(request_id, json!({ "behavior": "deny", "message": reason, "interrupt": false }))
}

/// We do not do that.
pub fn refuse(request_id: &str, reason: &str) -> Value {
    let response = json!({ "subtype": "error", "request_id": request_id, "error": reason });
    json!({ "type": "control_response", "response": response })
}

fn request(request_id: &str, body: Value) -> Value {
    json!({ "type": "control_request", "request_id": request_id, "request": body })
}

fn answer(request_id: &str, body: Value) -> Value {
    let response = json!({ "subtype": "success", "request_id": request_id, "response": body });
    json!({ "type": "control_response", "response": response })
}
