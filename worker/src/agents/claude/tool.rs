//! Tool calls and their events.

use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use domain::Timestamp;
use serde_json::Value;

/// A tool call in progress.
#[derive(Debug, Clone)]
pub struct Tool {
    pub name: String,
    pub input: Value,
    pub started_at: Timestamp,
}

#[derive(Debug)]
pub struct Outcome<'a> {
    /// The text that the model reads.
    pub text: String,
    pub is_error: bool,
    /// The tool's structured result.
    pub detail: Option<&'a Value>,
    pub at: Timestamp,
}

/// Sub-agents and skills have their own event types.
enum Kind {
    Plain,
    Subagent,
    Skill,
}

impl Tool {
    fn kind(&self) -> Kind {
        match self.name.as_str() {
            // `Task` in older versions, `Agent` in newer ones.
            "Task" | "Agent" => Kind::Subagent,
            "Skill" => Kind::Skill,
            _ => Kind::Plain,
        }
    }

    pub fn invoked(&self) -> Event {
        let event = match self.kind() {
            Kind::Plain => Event::agent("agent.tool_use").with("event_subtype", "tool_use"),
            Kind::Subagent => self.with_subagent_fields(Event::agent("agent.subagent_invoked")),
            Kind::Skill => self.with_skill_fields(Event::agent("agent.skill_invoked")),
        };
        event.with("tool", self.name.as_str()).with("input", self.input.clone())
    }

    pub fn completed(&self, outcome: Outcome<'_>) -> Event {
        let duration_ms = (outcome.at.as_micros() - self.started_at.as_micros()).max(0) / 1_000;
        let event = match self.kind() {
            Kind::Plain => Event::agent("agent.tool_completed"),
            Kind::Subagent => {
                let detail = outcome.detail;
                let usage = detail.and_then(|detail| detail.get("usage")).cloned();
                let duration =
                    detail.and_then(|detail| detail.get("totalDurationMs")).and_then(Value::as_u64);
                let result = first_bytes(&outcome.text, MAX_FIELD_BYTES).to_owned();
                self.with_subagent_fields(Event::agent("agent.subagent_completed"))
                    .with("subagent_result", result)
                    .with_some("subagent_usage", usage)
                    .with("subagent_duration_ms", duration.unwrap_or(duration_ms.unsigned_abs()))
            }
            Kind::Skill => self.with_skill_fields(Event::agent("agent.skill_completed")),
        };
        let event = event
            .with("tool", self.name.as_str())
            .with("tool_input", self.input.clone())
            .with("is_error", outcome.is_error)
            .with("duration_ms", duration_ms);
        event.with_long("tool_response", "full_response", &outcome.text)
    }

    fn with_subagent_fields(&self, event: Event) -> Event {
        event
            .with_some("subagent_type", self.text("subagent_type"))
            .with_some("subagent_description", self.text("description"))
            .with_some("subagent_prompt", self.text("prompt"))
    }

    fn with_skill_fields(&self, event: Event) -> Event {
        event.with_some("skill_name", self.text("skill").or_else(|| self.text("command")))
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.input.get(field).and_then(Value::as_str)
    }
}

/// A result without a known tool call, for example because the call happened before the worker attached.
pub fn orphaned(outcome: &Outcome<'_>) -> Event {
    let event = Event::agent("agent.user_tool_result").with("is_error", outcome.is_error);
    event.with_long("result", "full_result", &outcome.text)
}

/// The text of a tool result, which is a string or a list of text and image blocks.
pub fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(block_text).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn block_text(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("image") => format!("[image, {}]", block["source"]["media_type"].as_str().unwrap_or("unknown")),
        _ => block.to_string(),
    }
}
