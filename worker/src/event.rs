//! An event that the worker emits to the plane.

use crate::clock;
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
    pub fn agent(event_type: &str) -> Self {
        Self::new(event_type, Source::Agent)
    }

    /// An event caused or detected by the worker.
    pub fn worker(event_type: &str) -> Self {
        Self::new(event_type, Source::Worker)
    }

    fn new(event_type: &str, source: Source) -> Self {
        let id = Uuid::now_v7().to_string();
        Self { id, event_type: event_type.to_owned(), source, data: Map::new(), at: clock::now() }
    }

    /// Replaces the generated id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.data.insert(field.to_owned(), value.into());
        self
    }

    /// Adds a preview of `text` in `field`, and the full text in `full_field` if the preview is shorter. The plane
    /// leaves `full_field` out of pages and frames and links to it instead.
    #[must_use]
    pub fn with_long(self, field: &str, full_field: &str, text: &str) -> Self {
        let preview = first_chars(text, PREVIEW_CHARS);
        let event = self.with(field, preview);
        if preview.len() == text.len() {
            return event;
        }
        event
            .with(&format!("{field}_truncated"), true)
            .with(&format!("{field}_full_length"), text.chars().count())
            .with(full_field, first_bytes(text, MAX_FIELD_BYTES))
    }

    /// Adds the field if there is a value.
    #[must_use]
    pub fn with_some(self, field: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(field, value),
            None => self,
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
