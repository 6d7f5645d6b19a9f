//! What readers get from data that our worker did not write.

use super::payloads::{
    AgentCompleted, AgentFailed, AgentFileEdited, AgentHeartbeat, AgentToolResult, AgentToolUse,
    AgentTurnCompleted, RunReport,
};
use super::*;
use serde_json::json;
use std::collections::BTreeSet;

fn read_json<P: Payload>(data: Value) -> P {
    read(&JsonObject::of(&data)).unwrap()
}

/// Reads a text, whose fields keep their order.
fn read_text<P: Payload>(data: &str) -> P {
    read(&serde_json::from_str(data).unwrap()).unwrap()
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
fn one_invalid_field_of_a_report_does_not_hide_the_others() {
    for turns in [json!("3"), json!(null), json!(-1)] {
        let data = json!({"error": "x", "turns": turns, "final_output": "done", "cost_usd": 1});
        let failed: AgentFailed = read_json(data.clone());
        let RunReport { turns, final_output, cost_usd, .. } = failed.report;
        assert_eq!((turns, final_output.as_str(), cost_usd), (0, "done", 1.0), "{data}");
        let completed: AgentCompleted = read_json(data);
        assert_eq!(completed.report.final_output, "done");
    }
}

#[test]
fn a_failure_before_the_run_has_no_report() {
    let failed = AgentFailed { stop_reason: "not_started".into(), ..AgentFailed::default() };
    assert_eq!(Value::Object(fields_of(&failed)), json!({"success": false, "stop_reason": "not_started"}));
    assert_eq!(read_json::<AgentFailed>(Value::Object(fields_of(&failed))), failed);
    let report = RunReport { turns: 1, ..RunReport::default() };
    let failed = AgentFailed { report, ..failed };
    assert_eq!(fields_of(&failed)["turns"], 1);
    assert_eq!(read_json::<AgentFailed>(Value::Object(fields_of(&failed))), failed);
}

#[test]
fn of_two_names_for_a_field_the_payloads_own_counts_in_any_order() {
    for (data, expected) in [
        (r#"{"error": "a", "error_message": "b"}"#, Some("a")),
        (r#"{"error_message": "b", "error": "a"}"#, Some("a")),
        (r#"{"error_message": "b", "error": ""}"#, Some("")),
        (r#"{"error": null, "error_message": "b"}"#, Some("b")),
        (r#"{"error_message": "b", "error": ["a"]}"#, Some("b")),
        (r#"{"error_message": "b"}"#, Some("b")),
        ("{}", None),
    ] {
        let failed: AgentFailed = read_text(data);
        assert_eq!(failed.error.as_deref(), expected, "{data}");
    }
    for data in [r#"{"num_turns": 5, "turns": 0}"#, r#"{"turns": 0, "num_turns": 5}"#] {
        assert_eq!(read_text::<AgentTurnCompleted>(data).turns, 0, "{data}: a default is a value");
    }
    for data in [r#"{"branch": "b", "branch_name": "a"}"#, r#"{"branch_name": "a", "branch": "b"}"#] {
        let failed: AgentFailed = read_text(data);
        assert_eq!(failed.report.branch_name.as_deref(), Some("a"), "{data}: in a part of the payload");
    }
}

#[test]
fn an_alias_is_read_next_to_invalid_fields() {
    let failed: AgentFailed = read_json(json!({"turns": "3", "branch": "b", "reason": "error"}));
    assert_eq!((failed.report.branch_name.as_deref(), failed.stop_reason.as_str()), (Some("b"), "error"));
    let heartbeat: AgentHeartbeat =
        read_json(json!({"status": "alive", "uptime_seconds": 1.5, "cost_usd": 2}));
    assert_eq!((heartbeat.status.as_str(), heartbeat.total_cost_usd), ("alive", 2.0));
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

/// So a worker may omit any field, and send anything in it.
#[test]
fn every_payload_of_the_worker_reads_any_data() {
    let mut generator = SchemaGenerator::default();
    schemas(&mut generator);
    let definitions = generator.take_definitions(true);
    let names: BTreeSet<&String> = definitions
        .values()
        .filter_map(|schema| schema["properties"].as_object())
        .flat_map(Map::keys)
        .collect();
    assert!(names.len() > 150, "found only {} fields", names.len());
    let all = |value: Value| -> Map<String, Value> {
        names.iter().map(|name| ((*name).clone(), value.clone())).collect()
    };
    let values =
        [json!(null), json!(true), json!(-1.5), json!(u64::MAX), json!("x"), json!([[]]), json!({"a": {}})];
    for event_type in EMITTED_BY_THE_WORKER {
        assert!(is_readable(event_type, &JsonObject::empty()), "{event_type}");
        for value in &values {
            let data = JsonObject::of(&all(value.clone()));
            assert!(is_readable(event_type, &data), "{event_type} with {value} in all fields");
        }
    }
}

/// Data of the plane has fields that are never absent, so data without them is not read as one of its payloads.
#[test]
fn data_without_a_required_field_is_not_read() {
    let has_only_optional_fields = ["sandbox.completing", "sandbox.completed", "sandbox.released"];
    for event_type in EMITTED_BY_THE_PLANE {
        let data = JsonObject::of(&json!({"by": 7}));
        let expected = has_only_optional_fields.contains(event_type);
        assert_eq!(is_readable(event_type, &data), expected, "{event_type}");
    }
}

#[test]
fn schemas_of_log_events_of_the_worker_have_its_context() {
    for (event_type, schema) in schemas(&mut SchemaGenerator::default()) {
        let schema = schema.to_value();
        let has_context = schema["allOf"][1]["$ref"] == "#/$defs/WorkerContext";
        let is_ephemeral = crate::EventType::parse(event_type).unwrap().is_ephemeral();
        assert_eq!(has_context, EMITTED_BY_THE_WORKER.contains(&event_type) && !is_ephemeral, "{event_type}");
    }
}
