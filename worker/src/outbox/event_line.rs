//! Serializes events as spool lines: adds default fields, redacts secrets and truncates long texts.

use super::Secrets;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Maximum size of an event. A batch is limited to 1 MB (`contract::limits::MAX_BATCH_BYTES`), so the largest event is
/// sent alone.
pub(super) const MAX_EVENT_BYTES: usize = 900 * 1024;

/// Maximum size of a text field when the outbox is nearly full.
const SHORT_FIELD_BYTES: usize = 200;

/// An event as it is stored in the spool and sent to the plane.
#[derive(Serialize)]
struct Line<'a> {
    event_id: &'a str,
    event_type: &'a str,
    source: &'a str,
    emitted_at: String,
    event_data: &'a Map<String, Value>,
}

/// The fields that the outbox reads back from a line.
#[derive(Deserialize)]
pub(super) struct Header<'a> {
    #[serde(borrow)]
    pub event_id: Cow<'a, str>,
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    pub emitted_at: domain::Timestamp,
}

/// Applied to every event of this worker.
#[derive(Debug, Default)]
pub(super) struct EventContext {
    /// Default fields.
    pub fields: Map<String, Value>,
    /// Values to redact.
    pub secrets: Secrets,
}

/// Adds default fields, redacts secrets and truncates long texts.
pub(super) fn prepare(event: &mut Event, context: &EventContext) {
    for (field, value) in &context.fields {
        if !event.data.contains_key(field) {
            event.data.insert(field.clone(), value.clone());
        }
    }
    // Before truncating: the remains of a truncated secret would not be recognized.
    context.secrets.redact_map(&mut event.data);
    truncate(&mut event.data, MAX_FIELD_BYTES);
}

/// Serializes an event, truncating fields until it fits.
pub(super) fn serialize(event: &mut Event) -> String {
    let mut text = write(event);
    while text.len() > MAX_EVENT_BYTES {
        if !shorten_largest(&mut event.data) {
            // The field names alone are too large.
            event.data = Map::from_iter([("data_truncated".to_owned(), Value::Bool(true))]);
        }
        text = write(event);
    }
    text
}

/// Serializes an event with short texts, for an outbox that is nearly full.
pub(super) fn serialize_short(event: &mut Event) -> String {
    truncate(&mut event.data, SHORT_FIELD_BYTES);
    serialize(event)
}

fn write(event: &Event) -> String {
    let line = Line {
        event_id: &event.id,
        event_type: &event.event_type,
        source: event.source.as_str(),
        emitted_at: event.at.to_string(),
        event_data: &event.data,
    };
    serde_json::to_string(&line).expect("an event has string keys and finite numbers")
}

/// Truncates every text that is longer than `max` bytes and marks it as truncated.
fn truncate(data: &mut Map<String, Value>, max: usize) {
    let mut truncated = Vec::new();
    for (field, value) in data.iter_mut() {
        if let Some(full_length) = truncate_value(value, max) {
            truncated.push((field.clone(), full_length));
        }
    }
    for (field, full_length) in truncated {
        mark_truncated(data, &field, full_length);
    }
}

/// Returns the original length of a truncated text. Objects mark their own fields and return `None`.
fn truncate_value(value: &mut Value, max: usize) -> Option<usize> {
    match value {
        Value::String(text) if text.len() > max => {
            let full_length = text.len();
            text.truncate(first_bytes(text, max).len());
            Some(full_length)
        }
        Value::Array(items) => items.iter_mut().filter_map(|item| truncate_value(item, max)).max(),
        Value::Object(fields) => {
            truncate(fields, max);
            None
        }
        _ => None,
    }
}

/// Marks a field as truncated. The first recorded length is the original one.
fn mark_truncated(data: &mut Map<String, Value>, field: &str, full_length: usize) {
    data.insert(format!("{field}_truncated"), Value::Bool(true));
    data.entry(format!("{field}_full_length")).or_insert_with(|| full_length.into());
}

/// Halves the largest field. Returns `false` if no field is worth shortening.
fn shorten_largest(data: &mut Map<String, Value>) -> bool {
    let size = |value: &Value| match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    let largest = data.iter().map(|(field, value)| (size(value), field.clone())).max();
    let Some((length, field)) = largest.filter(|(length, _)| *length > 64) else { return false };
    match data.get_mut(&field) {
        Some(Value::String(text)) => {
            let max = if length > 1_024 { length / 2 } else { 0 };
            text.truncate(first_bytes(text, max).len());
        }
        Some(other) => *other = Value::Null,
        None => return false,
    }
    mark_truncated(data, &field, length);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn serialized_data(mut event: Event) -> Value {
        prepare(&mut event, &EventContext::default());
        let text = serialize(&mut event);
        assert!(text.len() <= MAX_EVENT_BYTES, "{}", text.len());
        serde_json::from_str::<Value>(&text).unwrap()["event_data"].take()
    }

    #[test]
    fn default_fields_do_not_overwrite() {
        let mut event = Event::untyped("agent.message", json!({"task_id": "own"}));
        let fields = json!({"task_id": "t", "agent_id": "a"}).as_object().unwrap().clone();
        prepare(&mut event, &EventContext { fields, secrets: Secrets::default() });
        assert_eq!(event.data["task_id"], "own");
        assert_eq!(event.data["agent_id"], "a");
    }

    #[test]
    fn long_text_is_truncated_and_marked() {
        let long = "é".repeat(MAX_FIELD_BYTES);
        let input = json!({"content": long, "lines": ["a", long]});
        let data = serialized_data(Event::untyped("x", json!({"text": long, "input": input})));
        assert_eq!(data["text"].as_str().unwrap().len(), MAX_FIELD_BYTES);
        assert_eq!(data["text_truncated"], true);
        assert_eq!(data["text_full_length"], 2 * MAX_FIELD_BYTES);
        assert_eq!(data["input_truncated"], true, "the object is dropped to make the event fit");
    }

    #[test]
    fn every_event_fits() {
        // Each of these characters takes six bytes in JSON.
        serialized_data(Event::untyped("x", json!({"text": "\u{1}".repeat(MAX_FIELD_BYTES)})));
        let large: Map<_, _> = (0..20).map(|n| (format!("f{n}"), "y".repeat(90_000).into())).collect();
        serialized_data(Event::untyped("x", large.into()));
        let many: Map<_, _> = (0..200_000).map(|n| (format!("field{n}"), n.into())).collect();
        serialized_data(Event::untyped("x", many.into()));
        serialized_data(Event::untyped("x", json!({"list": (0..300_000).collect::<Vec<u64>>()})));
    }

    #[test]
    fn short_event_keeps_short_fields() {
        let mut event = Event::untyped("x", json!({"tool": "Bash", "output": "y".repeat(5_000)}));
        let text = serialize_short(&mut event);
        assert!(
            text.len() < 600 && text.contains("Bash") && text.contains(r#""output_full_length":5000"#),
            "{text}"
        );
    }
}
