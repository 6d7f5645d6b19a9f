//! Tool calls and their events.

use super::terminals::Terminals;
use crate::event::{Event, LongText, MAX_FIELD_BYTES, first_bytes, first_chars};
use crate::workspace::diff::{FileChange, relative};
use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResourceResource, ToolCall, ToolCallContent, ToolCallStatus, ToolKind,
};
use contract::payloads::{AgentToolCompleted, AgentToolUse, BlockPlace};
use serde_json::Value;
use std::path::Path;
use tokio::time::Instant;

/// Maximum length of a title that is used as the tool's name.
const MAX_NAME_CHARS: usize = 40;

#[derive(Debug)]
pub struct Tool {
    /// With all updates so far.
    pub call: ToolCall,
    pub started_at: Instant,
    /// Whether `agent.tool_completed` was emitted.
    pub ended: bool,
}

impl Tool {
    pub fn new(call: ToolCall) -> Self {
        Self { call, started_at: Instant::now(), ended: false }
    }

    /// Whether enough is known to emit it. Agents announce a tool while its input is still being streamed.
    pub fn has_input(&self) -> bool {
        let input = self.call.raw_input.as_ref();
        let is_empty = input.is_none_or(|input| input.as_object().is_some_and(serde_json::Map::is_empty));
        !is_empty || self.call.status != ToolCallStatus::Pending
    }

    /// Whether the agent reported a final status.
    pub fn is_final(&self) -> bool {
        matches!(self.call.status, ToolCallStatus::Completed | ToolCallStatus::Failed)
    }

    pub fn name(&self) -> String {
        name(&self.call)
    }

    pub fn invoked(&self, turn: u64) -> Event {
        let call = &self.call;
        let kind = serde_json::to_value(call.kind).unwrap_or_default();
        Event::agent(AgentToolUse {
            tool: self.name(),
            tool_use_id: call.tool_call_id.0.to_string(),
            tool_input: bounded(call.raw_input.as_ref()),
            event_subtype: "tool_use".to_owned(),
            title: Some(call.title.clone()),
            kind: kind.as_str().map(str::to_owned),
            locations: serde_json::to_value(&call.locations).ok(),
            place: BlockPlace { turn, ..Default::default() },
        })
    }

    /// `cancel_reason` is set if the agent reported no end.
    pub fn completed(
        &self,
        terminals: &Terminals,
        cancel_reason: Option<&str>,
        turn: u64,
    ) -> AgentToolCompleted {
        let call = &self.call;
        let response = response(call, terminals).or_else(|| cancel_reason.map(str::to_owned));
        AgentToolCompleted {
            tool: self.name(),
            tool_use_id: call.tool_call_id.0.to_string(),
            tool_input: bounded(call.raw_input.as_ref()),
            is_error: call.status == ToolCallStatus::Failed || cancel_reason.is_some(),
            duration_ms: u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            response: response.map(|response| LongText::of(&response).into()).unwrap_or_default(),
            turn,
            parent_tool_use_id: None,
        }
    }

    /// The file changes in its diffs.
    pub fn file_changes(&self, root: &Path) -> Vec<FileChange> {
        let diffs = self.call.content.iter().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        });
        let changes = diffs.filter_map(|diff| {
            let deleted = self.call.kind == ToolKind::Delete && diff.new_text.is_empty();
            let new = (!deleted).then_some(diff.new_text.as_str());
            let path = relative(&diff.path.to_string_lossy(), root);
            FileChange::from_texts(&path, diff.old_text.as_deref(), new)
        });
        changes.collect()
    }
}

/// The agent's name for the tool, or a name derived from its kind.
pub fn name(call: &ToolCall) -> String {
    if let Some(name) = call.name.as_ref().filter(|name| !name.is_empty()) {
        return name.clone();
    }
    let name = match call.kind {
        ToolKind::Read => "Read",
        ToolKind::Edit => "Edit",
        ToolKind::Delete => "Delete",
        ToolKind::Move => "Move",
        ToolKind::Search => "Search",
        ToolKind::Execute => "Bash",
        ToolKind::Think => "Think",
        ToolKind::Fetch => "Fetch",
        ToolKind::SwitchMode => "SwitchMode",
        _ if call.title.is_empty() => "Other",
        _ => first_chars(&call.title, MAX_NAME_CHARS),
    };
    name.to_owned()
}

/// Readable text of a content block.
pub fn text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio, {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => text.text.clone(),
            EmbeddedResourceResource::BlobResourceContents(blob) => format!("[{}]", blob.uri),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// The displayed content, or else the raw output. File changes have their own events.
fn response(call: &ToolCall, terminals: &Terminals) -> Option<String> {
    let displayed = call.content.iter().filter_map(|content| match content {
        ToolCallContent::Content(content) => Some(text(&content.content)),
        ToolCallContent::Terminal(terminal) => terminals.text(&terminal.terminal_id.0),
        _ => None,
    });
    let displayed = displayed.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    if !displayed.is_empty() {
        return Some(displayed);
    }
    match call.raw_output.as_ref()? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// The value, or the start of its JSON text if it is too long for one field.
pub fn bounded(value: Option<&Value>) -> Value {
    let Some(value) = value else { return Value::Null };
    let text = value.to_string();
    if text.len() <= MAX_FIELD_BYTES { value.clone() } else { first_bytes(&text, MAX_FIELD_BYTES).into() }
}
