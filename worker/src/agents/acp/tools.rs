//! What an agent does with tools, as events.

use super::terminals::Terminals;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes, first_chars};
use crate::workspace::diff::{FileChange, relative};
use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResourceResource, ToolCall, ToolCallContent, ToolCallStatus, ToolKind,
};
use serde_json::Value;
use std::path::Path;
use tokio::time::Instant;

/// Longest title that passes as the name of a tool.
const MAX_NAME_CHARS: usize = 40;

/// A tool that an agent uses.
#[derive(Debug)]
pub struct Tool {
    /// As the agent describes it, with all updates so far.
    pub call: ToolCall,
    /// Since when.
    pub since: Instant,
    /// Whether `agent.tool_completed` was told.
    pub ended: bool,
}

impl Tool {
    /// One that was just heard of.
    pub fn new(call: ToolCall) -> Self {
        Self { call, since: Instant::now(), ended: false }
    }

    /// Whether enough is known of it to tell. Agents announce a tool while its input is still being written.
    pub fn is_known(&self) -> bool {
        let input = self.call.raw_input.as_ref();
        let is_empty = input.is_none_or(|input| input.as_object().is_some_and(serde_json::Map::is_empty));
        !is_empty || self.call.status != ToolCallStatus::Pending
    }

    /// Whether the agent says that it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.call.status, ToolCallStatus::Completed | ToolCallStatus::Failed)
    }

    /// What it is called: as the agent calls it, or by what it does.
    pub fn name(&self) -> String {
        name(&self.call)
    }

    /// `agent.tool_use`.
    pub fn used(&self) -> Event {
        let call = &self.call;
        let locations = serde_json::to_value(&call.locations).unwrap_or_default();
        Event::agent("agent.tool_use")
            .with("tool", self.name())
            .with("tool_use_id", &*call.tool_call_id.0)
            .with("input", bounded(call.raw_input.as_ref()))
            .with("title", call.title.as_str())
            .with("kind", serde_json::to_value(call.kind).unwrap_or_default())
            .with("locations", locations)
            .with("event_subtype", "tool_use")
    }

    /// `agent.tool_completed`. `ending` says why if the agent did not.
    pub fn completed(&self, terminals: &Terminals, ending: Option<&str>) -> Event {
        let call = &self.call;
        let duration = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event::agent("agent.tool_completed")
            .with("tool", self.name())
            .with("tool_use_id", &*call.tool_call_id.0)
            .with("tool_input", bounded(call.raw_input.as_ref()))
            .with("is_error", call.status == ToolCallStatus::Failed || ending.is_some())
            .with("duration_ms", duration);
        let response = response(call, terminals).or_else(|| ending.map(str::to_owned));
        let Some(response) = response else { return event.with("tool_response", Value::Null) };
        event.with_long("tool_response", "full_response", &response)
    }

    /// Each change that it shows.
    pub fn edits(&self, root: &Path) -> Vec<FileChange> {
        let diffs = self.call.content.iter().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        });
        let edited = diffs.filter_map(|diff| {
            let deleted = self.call.kind == ToolKind::Delete && diff.new_text.is_empty();
            let new = (!deleted).then_some(diff.new_text.as_str());
            let path = relative(&diff.path.to_string_lossy(), root);
            FileChange::from_texts(&path, diff.old_text.as_deref(), new)
        });
        edited.collect()
    }
}

/// What a tool is called.
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

/// What a piece of content says to a reader.
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

/// What it shows, or else what it returned. A change of a file is told on its own.
fn response(call: &ToolCall, terminals: &Terminals) -> Option<String> {
    let shown = call.content.iter().filter_map(|content| match content {
        ToolCallContent::Content(content) => Some(text(&content.content)),
        ToolCallContent::Terminal(terminal) => terminals.text(&terminal.terminal_id.0),
        _ => None,
    });
    let shown = shown.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    if !shown.is_empty() {
        return Some(shown);
    }
    match call.raw_output.as_ref()? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// As it is, or the beginning of its text if it is too long for one field.
pub fn bounded(value: Option<&Value>) -> Value {
    let Some(value) = value else { return Value::Null };
    let text = value.to_string();
    if text.len() <= MAX_FIELD_BYTES { value.clone() } else { first_bytes(&text, MAX_FIELD_BYTES).into() }
}
