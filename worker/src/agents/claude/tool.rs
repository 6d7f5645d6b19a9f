//! A tool that the agent uses, and the events that tell of it.

use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use domain::Timestamp;
use serde_json::Value;

/// A tool call that was begun.
#[derive(Debug, Clone)]
pub struct Tool {
    /// `Bash`.
    pub name: String,
    /// What it was called with.
    pub input: Value,
    /// When.
    pub began: Timestamp,
}

/// What a tool gave back.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// What the agent reads.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// The result in the tool's own form.
    pub detail: Option<&'a Value>,
    /// When it ended.
    pub at: Timestamp,
}

/// What kind of tool it is: sub-agents and skills have events of their own.
enum Kind {
    Plain,
    Subagent,
    Skill,
}

impl Tool {
    fn kind(&self) -> Kind {
        match self.name.as_str() {
            // Older versions call it Task, newer ones Agent.
            "Task" | "Agent" => Kind::Subagent,
            "Skill" => Kind::Skill,
            _ => Kind::Plain,
        }
    }

    /// It was called.
    pub fn invoked(&self) -> Event {
        let event = match self.kind() {
            Kind::Plain => Event::agent("agent.tool_use").with("event_subtype", "tool_use"),
            Kind::Subagent => self.about_subagent(Event::agent("agent.subagent_invoked")),
            Kind::Skill => self.about_skill(Event::agent("agent.skill_invoked")),
        };
        event.with("tool", self.name.as_str()).with("input", self.input.clone())
    }

    /// It has ended.
    pub fn completed(&self, outcome: Outcome<'_>) -> Event {
        let lasted_ms = (outcome.at.as_micros() - self.began.as_micros()).max(0) / 1_000;
        let event = match self.kind() {
            Kind::Plain => Event::agent("agent.tool_completed"),
            Kind::Subagent => {
                let detail = outcome.detail;
                let usage = detail.and_then(|detail| detail.get("usage")).cloned();
                let lasted = detail.and_then(|detail| detail.get("totalDurationMs")).and_then(Value::as_u64);
                let result = first_bytes(&outcome.text, MAX_FIELD_BYTES).to_owned();
                self.about_subagent(Event::agent("agent.subagent_completed"))
                    .with("subagent_result", result)
                    .with_some("subagent_usage", usage)
                    .with("subagent_duration_ms", lasted.unwrap_or(lasted_ms.unsigned_abs()))
            }
            Kind::Skill => self.about_skill(Event::agent("agent.skill_completed")),
        };
        let event = event
            .with("tool", self.name.as_str())
            .with("tool_input", self.input.clone())
            .with("is_error", outcome.is_error)
            .with("duration_ms", lasted_ms);
        event.with_long("tool_response", "full_response", &outcome.text)
    }

    fn about_subagent(&self, event: Event) -> Event {
        event
            .with_some("subagent_type", self.text("subagent_type"))
            .with_some("subagent_description", self.text("description"))
            .with_some("subagent_prompt", self.text("prompt"))
    }

    fn about_skill(&self, event: Event) -> Event {
        event.with_some("skill_name", self.text("skill").or_else(|| self.text("command")))
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.input.get(field).and_then(Value::as_str)
    }
}

/// An answer whose tool we do not know: it was called before we listened.
pub fn orphaned(outcome: &Outcome<'_>) -> Event {
    let event = Event::agent("agent.user_tool_result").with("is_error", outcome.is_error);
    event.with_long("result", "full_result", &outcome.text)
}

/// What a tool's answer says to the agent: a text, or blocks of text and pictures.
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
