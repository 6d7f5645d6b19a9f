//! Making an event fit: complete, without secrets, and not too large.

use super::Secrets;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Largest event. A batch may have 1 MB (`contract::limits::MAX_BATCH_BYTES`), and the largest one goes alone.
pub(super) const MAX_EVENT_BYTES: usize = 900 * 1024;

/// What is left of a text when there is little room.
const LEAN_FIELD_BYTES: usize = 200;

/// An event as the plane reads it, and as a line of the spool.
#[derive(Serialize)]
struct Line<'a> {
    event_id: &'a str,
    event_type: &'a str,
    source: &'a str,
    emitted_at: String,
    event_data: &'a Map<String, Value>,
}

/// What the outbox must know of a line that it wrote.
#[derive(Deserialize)]
pub(super) struct Label<'a> {
    /// The event's id.
    #[serde(borrow)]
    pub event_id: Cow<'a, str>,
    /// Its type.
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// When it happened.
    pub emitted_at: domain::Timestamp,
}

/// Adds what every event of this worker says, takes out secrets, and cuts what is too long.
pub(super) fn prepare(event: &mut Event, context: &Map<String, Value>, secrets: &Secrets) {
    for (field, value) in context {
        if !event.data.contains_key(field) {
            event.data.insert(field.clone(), value.clone());
        }
    }
    // First, or a cut could leave half a secret that nobody recognises.
    secrets.redact_map(&mut event.data);
    cut(&mut event.data, MAX_FIELD_BYTES);
}

/// The line for an event, however much has to be left out of it.
pub(super) fn line(event: &mut Event) -> String {
    let mut text = write(event);
    while text.len() > MAX_EVENT_BYTES {
        if !shorten_largest(&mut event.data) {
            // Names alone fill it: there is nothing to show.
            event.data = Map::from_iter([("data_truncated".to_owned(), Value::Bool(true))]);
        }
        text = write(event);
    }
    text
}

/// Leaves out what is long: something is better than nothing where there is little room.
pub(super) fn lean(event: &mut Event) -> String {
    cut(&mut event.data, LEAN_FIELD_BYTES);
    line(event)
}

fn write(event: &Event) -> String {
    let line = Line {
        event_id: &event.id,
        event_type: &event.event_type,
        source: event.source.as_str(),
        emitted_at: event.at.to_string(),
        event_data: &event.data,
    };
    serde_json::to_string(&line).expect("an event has string keys and no exotic numbers")
}

/// Cuts every text that is longer than `most`, and says so beside it.
fn cut(data: &mut Map<String, Value>, most: usize) {
    let mut notes = Vec::new();
    for (field, value) in data.iter_mut() {
        if let Some(full_length) = cut_value(value, most) {
            notes.push((field.clone(), full_length));
        }
    }
    for (field, full_length) in notes {
        note(data, &field, full_length);
    }
}

/// How long the text was that was cut, if it has no field of its own to say so.
fn cut_value(value: &mut Value, most: usize) -> Option<usize> {
    match value {
        Value::String(text) if text.len() > most => {
            let full_length = text.len();
            text.truncate(first_bytes(text, most).len());
            Some(full_length)
        }
        Value::Array(items) => items.iter_mut().filter_map(|item| cut_value(item, most)).max(),
        Value::Object(fields) => {
            cut(fields, most);
            None
        }
        _ => None,
    }
}

/// Says that a field was cut. What was noted first is the true length.
fn note(data: &mut Map<String, Value>, field: &str, full_length: usize) {
    data.insert(format!("{field}_truncated"), Value::Bool(true));
    data.entry(format!("{field}_full_length")).or_insert_with(|| full_length.into());
}

/// Halves the largest field; `false` if there is nothing worth halving.
fn shorten_largest(data: &mut Map<String, Value>) -> bool {
    let size = |value: &Value| match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    let largest = data.iter().map(|(field, value)| (size(value), field.clone())).max();
    let Some((length, field)) = largest.filter(|(length, _)| *length > 64) else { return false };
    match data.get_mut(&field) {
        Some(Value::String(text)) => {
            let most = if length > 1_024 { length / 2 } else { 0 };
            text.truncate(first_bytes(text, most).len());
        }
        Some(other) => *other = Value::Null,
        None => return false,
    }
    note(data, &field, length);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(mut event: Event) -> Value {
        prepare(&mut event, &Map::new(), &Secrets::default());
        let text = line(&mut event);
        assert!(text.len() <= MAX_EVENT_BYTES, "{}", text.len());
        serde_json::from_str::<Value>(&text).unwrap()["event_data"].take()
    }

    #[test]
    fn context_is_added_where_it_is_absent() {
        let mut event = Event::agent("agent.message").with("task_id", "own");
        let context = json!({"task_id": "t", "agent_id": "a"}).as_object().unwrap().clone();
        prepare(&mut event, &context, &Secrets::default());
        assert_eq!(event.data["task_id"], "own");
        assert_eq!(event.data["agent_id"], "a");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let long = "é".repeat(MAX_FIELD_BYTES);
        let data = told(
            Event::agent("x")
                .with("text", long.clone())
                .with("input", json!({"content": long, "lines": ["a", long]})),
        );
        assert_eq!(data["text"].as_str().unwrap().len(), MAX_FIELD_BYTES);
        assert_eq!(data["text_truncated"], true);
        assert_eq!(data["text_full_length"], 2 * MAX_FIELD_BYTES);
        assert_eq!(data["input_truncated"], true, "it had to be left out to make the event fit");
    }

    #[test]
    fn an_event_fits_however_it_is_made() {
        // Each of these characters takes six bytes in JSON.
        told(Event::agent("x").with("text", "\u{1}".repeat(MAX_FIELD_BYTES)));
        told((0..20).fold(Event::agent("x"), |event, n| event.with(&format!("f{n}"), "y".repeat(90_000))));
        told((0..200_000).fold(Event::agent("x"), |event, n| event.with(&format!("field{n}"), n)));
        told(Event::agent("x").with("list", (0..300_000).collect::<Vec<u64>>()));
    }

    #[test]
    fn a_lean_event_keeps_what_is_short() {
        let mut event = Event::agent("x").with("tool", "Bash").with("output", "y".repeat(5_000));
        let text = lean(&mut event);
        assert!(
            text.len() < 600 && text.contains("Bash") && text.contains(r#""output_full_length":5000"#),
            "{text}"
        );
    }
}
