//! What readers get from data that our worker did not write.

use super::payloads::{AgentCompleted, AgentFailed, AgentFileEdited, AgentToolResult, AgentToolUse};
use super::*;
use serde_json::json;

fn read_json<P: Payload>(data: Value) -> P {
    read(&JsonObject::of(&data)).unwrap()
}

#[test]
fn a_field_of_another_type_counts_as_absent() {
    let call: AgentToolUse =
        read_json(json!({"tool": ["Bash"], "turn": "3", "tool_use_id": "a", "title": null}));
    assert_eq!((call.tool.as_str(), call.place.turn, call.tool_use_id.as_str()), ("", 0, "a"));
    let failed: AgentFailed =
        read_json(json!({"error": 7, "stop_reason": "error", "turns": null, "pr_number": -1}));
    assert_eq!((failed.error, failed.stop_reason.as_str()), (None, "error"));
}

#[test]
fn of_two_names_for_a_field_the_first_counts() {
    for (data, expected) in [
        (json!({"error": "a", "error_message": "b"}), Some("a")),
        (json!({"error": null, "error_message": "b"}), Some("b")),
        (json!({"error": ["a"], "error_message": "b"}), Some("b")),
        (json!({}), None),
    ] {
        let failed: AgentFailed = read_json(data);
        assert_eq!(failed.error.as_deref(), expected);
    }
}

#[test]
fn names_of_omoios_and_of_older_versions_are_read() {
    let call: AgentToolUse =
        read_json(json!({"tool_name": "Bash", "tool_id": "a", "input": {"command": "ls"}}));
    assert_eq!((call.tool.as_str(), call.tool_use_id.as_str()), ("Bash", "a"));
    assert_eq!(call.tool_input, json!({"command": "ls"}));
    let result: AgentToolResult = read_json(json!({"tool_id": "a", "content": "x", "full_response": "xy"}));
    assert_eq!((result.text.result.as_str(), result.text.full_result.as_deref()), ("x", Some("xy")));
    let edit: AgentFileEdited = read_json(json!({"path": "a.rs", "tool_use_id": null}));
    assert_eq!(edit.file_path, "a.rs");
}

#[test]
fn unknown_fields_are_ignored_and_many_are_read_quickly() {
    let mut fields: Map<String, Value> = (0..100_000).map(|n| (format!("f{n}"), json!([n]))).collect();
    fields.insert("final_output".into(), json!("done"));
    fields.insert("turns".into(), json!("not a number"));
    let completed: AgentCompleted = read_json(Value::Object(fields));
    assert_eq!((completed.report.final_output.as_str(), completed.report.turns), ("done", 0));
}

#[test]
fn a_payload_survives_its_own_serialization() {
    let call = AgentToolUse { tool: "Bash".into(), tool_input: json!({"a": [1]}), ..AgentToolUse::default() };
    assert_eq!(read_json::<AgentToolUse>(Value::Object(fields_of(&call))), call);
}

/// So a worker may omit any field.
#[test]
fn every_payload_of_the_worker_reads_empty_data() {
    for name in EMITTED_BY_THE_WORKER {
        let event_type = EventType::parse(*name).unwrap();
        assert_ne!(EventPayload::read(&event_type, &JsonObject::empty()), EventPayload::Other, "{name}");
    }
}
