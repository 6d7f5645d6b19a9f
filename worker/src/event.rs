//! An event that the worker emits to the plane.

use crate::clock;
use contract::payloads::{self, Payload, ToolResponse, ToolResultText};
use domain::{Source, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Maximum size of a text field in an event. A batch is limited to 1 MB, so a larger event would need its own batch.
pub const MAX_FIELD_BYTES: usize = 400 * 1024;

/// Length of the preview of a long text or diff.
pub const PREVIEW_CHARS: usize = 5_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Deduplication key. Events that the agent's own transcript also contains take the id of the transcript entry, so
    /// reading the transcript again does not emit them twice.
    pub id: String,
    /// For example `agent.tool_use`.
    pub event_type: String,
    pub source: Source,
    pub data: Map<String, Value>,
    pub at: Timestamp,
}

impl Event {
    /// An event caused by the agent.
    pub fn agent<P: Payload>(payload: P) -> Self {
        Self::new(Source::Agent, &payload)
    }

    /// An event caused or detected by the worker.
    pub fn worker<P: Payload>(payload: P) -> Self {
        Self::new(Source::Worker, &payload)
    }

    fn new<P: Payload>(source: Source, payload: &P) -> Self {
        let (id, event_type) = (Uuid::now_v7().to_string(), P::EVENT_TYPE.to_owned());
        Self { id, event_type, source, data: payloads::fields_of(payload), at: clock::now() }
    }

    /// The data as this payload, if the event has its type.
    pub fn read<P: Payload>(&self) -> Option<P> {
        let is_its_type = self.event_type == P::EVENT_TYPE;
        is_its_type.then(|| serde_json::from_value(Value::Object(self.data.clone())).ok()).flatten()
    }

    /// An event with any type and data.
    #[cfg(test)]
    pub fn untyped(event_type: &str, data: Value) -> Self {
        let Value::Object(data) = data else { panic!("the data of an event is an object") };
        let (id, event_type) = (Uuid::now_v7().to_string(), event_type.to_owned());
        Self { id, event_type, source: Source::Agent, data, at: clock::now() }
    }

    /// Replaces the generated id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }
}

/// The beginning of a text, and the full text if that is longer. The plane leaves the full text out of pages and frames
/// and links to it instead.
#[derive(Debug, Default)]
pub struct LongText {
    pub preview: String,
    /// Present if the preview is shorter than the text.
    pub rest: Option<FullText>,
}

#[derive(Debug)]
pub struct FullText {
    /// Length in characters.
    pub length: u64,
    /// At most [`MAX_FIELD_BYTES`].
    pub text: String,
}

impl LongText {
    pub fn of(text: &str) -> Self {
        let preview = first_chars(text, PREVIEW_CHARS);
        let rest = (preview.len() < text.len()).then(|| FullText {
            length: text.chars().count() as u64,
            text: first_bytes(text, MAX_FIELD_BYTES).to_owned(),
        });
        Self { preview: preview.to_owned(), rest }
    }
}

impl From<LongText> for ToolResponse {
    fn from(LongText { preview, rest }: LongText) -> Self {
        let (length, full_result) = rest.map(|rest| (rest.length, rest.text)).unzip();
        Self {
            tool_response: Some(preview),
            tool_response_truncated: length.map(|_| true),
            tool_response_full_length: length,
            full_result,
        }
    }
}

impl From<LongText> for ToolResultText {
    fn from(LongText { preview, rest }: LongText) -> Self {
        let (length, full_result) = rest.map(|rest| (rest.length, rest.text)).unzip();
        Self {
            result: preview,
            result_truncated: length.map(|_| true),
            result_full_length: length,
            full_result,
        }
    }
}

/// The longest prefix of at most `max` bytes that ends at a character boundary.
pub fn first_bytes(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// The first `max` characters.
pub fn first_chars(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}
