//! Tool calls and their events.

use crate::event::{Event, LongText, MAX_FIELD_BYTES, first_bytes};
use contract::payloads::{
    AgentSkillCompleted, AgentSkillInvoked, AgentSubagentCompleted, AgentSubagentInvoked, AgentToolCompleted,
    AgentToolUse, AgentUserToolResult, BlockPlace, Subagent,
};
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

    pub fn invoked(&self, tool_use_id: &str, place: BlockPlace) -> Event {
        let (tool, tool_use_id, tool_input) = (self.name.clone(), tool_use_id.to_owned(), self.input.clone());
        match self.kind() {
            Kind::Plain => {
                let event_subtype = "tool_use".to_owned();
                let call = AgentToolUse {
                    tool,
                    tool_use_id,
                    tool_input,
                    event_subtype,
                    place,
                    ..Default::default()
                };
                Event::agent(call)
            }
            Kind::Subagent => {
                let subagent = self.subagent();
                Event::agent(AgentSubagentInvoked { tool, tool_use_id, tool_input, subagent, place })
            }
            Kind::Skill => {
                let skill_name = self.skill();
                Event::agent(AgentSkillInvoked { tool, tool_use_id, tool_input, skill_name, place })
            }
        }
    }

    pub fn completed(&self, outcome: Outcome<'_>, place: ResultPlace) -> Event {
        let duration_ms =
            (outcome.at.as_micros() - self.started_at.as_micros()).max(0).unsigned_abs() / 1_000;
        let (tool, tool_input, is_error) = (self.name.clone(), self.input.clone(), outcome.is_error);
        let ResultPlace { tool_use_id, turn, parent_tool_use_id } = place;
        let response = LongText::of(&outcome.text).into();
        match self.kind() {
            Kind::Plain => Event::agent(AgentToolCompleted {
                tool,
                tool_use_id,
                tool_input,
                is_error,
                duration_ms,
                response,
                turn,
                parent_tool_use_id,
            }),
            Kind::Subagent => {
                let detail = outcome.detail;
                let duration =
                    detail.and_then(|detail| detail.get("totalDurationMs")).and_then(Value::as_u64);
                Event::agent(AgentSubagentCompleted {
                    tool,
                    tool_use_id,
                    tool_input,
                    is_error,
                    duration_ms,
                    subagent: self.subagent(),
                    subagent_result: first_bytes(&outcome.text, MAX_FIELD_BYTES).to_owned(),
                    subagent_usage: detail.and_then(|detail| detail.get("usage")).cloned(),
                    subagent_duration_ms: duration.unwrap_or(duration_ms),
                    subagent_cost_usd: None,
                    response,
                    turn,
                    parent_tool_use_id,
                })
            }
            Kind::Skill => Event::agent(AgentSkillCompleted {
                tool,
                tool_use_id,
                tool_input,
                is_error,
                duration_ms,
                skill_name: self.skill(),
                response,
                turn,
                parent_tool_use_id,
            }),
        }
    }

    fn subagent(&self) -> Subagent {
        Subagent {
            subagent_type: self.text("subagent_type"),
            subagent_description: self.text("description"),
            subagent_prompt: self.text("prompt"),
        }
    }

    fn skill(&self) -> Option<String> {
        self.text("skill").or_else(|| self.text("command"))
    }

    fn text(&self, field: &str) -> Option<String> {
        self.input.get(field).and_then(Value::as_str).map(str::to_owned)
    }
}

/// Where in the conversation a result belongs.
#[derive(Debug)]
pub struct ResultPlace {
    pub tool_use_id: String,
    pub turn: u64,
    pub parent_tool_use_id: Option<String>,
}

/// A result without a known tool call, for example because the call happened before the worker attached.
pub fn orphaned(outcome: &Outcome<'_>, place: ResultPlace) -> Event {
    let ResultPlace { tool_use_id, turn, parent_tool_use_id } = place;
    let (is_error, text) = (outcome.is_error, LongText::of(&outcome.text).into());
    Event::agent(AgentUserToolResult { tool_use_id, is_error, text, turn, parent_tool_use_id })
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
