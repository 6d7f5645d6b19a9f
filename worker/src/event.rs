//! What the worker tells the plane: one event.

use crate::clock;
use domain::{Source, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Largest text in one field of an event. A batch may have 1 MB, and whatever is longer would have to be sent alone.
pub const MAX_FIELD_BYTES: usize = 400 * 1024;

/// How much of a long text, or of a diff, is shown at once.
pub const PREVIEW_CHARS: usize = 5_000;

/// One event on its way to the plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its name. Whatever an agent's own record also holds is named after its entry there, so that it is told once even
    /// if it is read twice.
    pub id: String,
    /// `agent.tool_use`.
    pub event_type: String,
    /// Who speaks.
    pub source: Source,
    /// What it says.
    pub data: Map<String, Value>,
    /// When it happened.
    pub at: Timestamp,
}

impl Event {
    /// What the agent did.
    pub fn agent(event_type: &str) -> Self {
        Self::new(event_type, Source::Agent)
    }

    /// What the worker did, or noticed.
    pub fn worker(event_type: &str) -> Self {
        Self::new(event_type, Source::Worker)
    }

    fn new(event_type: &str, source: Source) -> Self {
        let id = Uuid::now_v7().to_string();
        Self { id, event_type: event_type.to_owned(), source, data: Map::new(), at: clock::now() }
    }

    /// Under this name instead of a made-up one.
    #[must_use]
    pub fn named(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// With one more field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.data.insert(field.to_owned(), value.into());
        self
    }

    /// With a text: its beginning, and all of it in another field if that is more. The plane leaves the long one out of
    /// pages and frames, and says where it is.
    #[must_use]
    pub fn with_long(self, field: &str, full_field: &str, text: &str) -> Self {
        let beginning = first_chars(text, PREVIEW_CHARS);
        let event = self.with(field, beginning);
        if beginning.len() == text.len() {
            return event;
        }
        event
            .with(&format!("{field}_truncated"), true)
            .with(&format!("{field}_full_length"), text.chars().count())
            .with(full_field, first_bytes(text, MAX_FIELD_BYTES))
    }

    /// With one more field, if there is something to put there.
    #[must_use]
    pub fn with_some(self, field: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(field, value),
            None => self,
        }
    }
}

/// The first part of a text of at most so many bytes, cut between characters.
pub fn first_bytes(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// The first part of a text of at most so many characters.
pub fn first_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}
