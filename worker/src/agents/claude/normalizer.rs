//! Normalizes frames of the CLI to events.
//!
//! A pure fold over frames: no I/O, and timestamps come from the frames. An event that corresponds to an entry of the
//! CLI's transcript takes its id from that entry, so replaying the transcript after a crash emits no duplicates.

use super::frame::{Body, Content, Fields, Frame, Message, TurnResult};
use super::stream::Streams;
use super::tool::{self, Outcome, ResultPlace, Tool};
use crate::agents::{AgentOutput, Tokens, TurnEnd};
use crate::clock;
use crate::event::{Event, LongText, MAX_FIELD_BYTES, first_bytes};
use crate::workspace::diff::FileChange;
use contract::payloads::{
    AgentAssistantMessage, AgentMessage, AgentSystemMessage, AgentThinking, AgentToolResult,
    AgentTurnCompleted, AgentUnparsed, AgentUserMessage, BlockPlace,
};
use domain::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;

/// The fields of `system/init` that are emitted. The rest, such as hundreds of commands, is always the same.
const INIT_FIELDS: [&str; 8] = [
    "model",
    "permissionMode",
    "tools",
    "mcp_servers",
    "cwd",
    "claude_code_version",
    "apiKeySource",
    "output_style",
];

/// System frames that are covered by other outputs or repeat every second.
const IGNORED_SUBTYPES: [&str; 4] =
    ["session_state_changed", "task_progress", "background_tasks_changed", "thinking_tokens"];

#[derive(Debug, Default)]
pub struct Normalizer {
    root: PathBuf,
    /// Number of model responses, without those of sub-agents.
    turn: u64,
    /// Messages that may receive more blocks, by the tool call of the sub-agent; `None` is the agent itself.
    open: HashMap<Option<String>, OpenMessage>,
    tools: HashMap<String, Tool>,
    streams: Streams,
    cost_usd: f64,
    /// The last emitted `init`.
    init: Option<Value>,
    /// The agent's last text.
    last_text: String,
}

#[derive(Debug)]
struct OpenMessage {
    id: String,
    turn: u64,
    model: Option<String>,
    blocks: u64,
    stop_reason: Option<String>,
    at: Timestamp,
}

impl Normalizer {
    pub fn new(root: PathBuf) -> Self {
        Self { root, ..Self::default() }
    }

    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Sets the cost before this run, because the CLI reports cumulative totals.
    pub fn set_initial_cost(&mut self, cost_usd: f64) {
        self.cost_usd = cost_usd;
    }

    pub fn apply(&mut self, frame: Frame) -> Vec<AgentOutput> {
        match frame {
            Frame::Assistant(message) => self.assistant(*message),
            Frame::User(message) => self.user(*message),
            Frame::Stream(stream) => {
                self.streams.apply(&stream).map(AgentOutput::Partial).into_iter().collect()
            }
            Frame::System(fields) => self.system(&fields),
            Frame::Notice(fields) => vec![self.notice(text(&fields, "type"), &fields)],
            Frame::Result(result) => self.result(*result),
            Frame::Unparsed(line) => vec![self.unparsed(&line)],
            Frame::Progress => vec![AgentOutput::Progress],
            Frame::Lifecycle(_)
            | Frame::Request(_)
            | Frame::Response(_)
            | Frame::TranscriptMirror
            | Frame::Ignored => Vec::new(),
        }
    }

    fn assistant(&mut self, message: Message) -> Vec<AgentOutput> {
        let at = time(&message);
        let Message { message: body, uuid, parent_tool_use_id: parent, aborted, .. } = message;
        let mut outputs = self.open_message(&body, &parent, at);
        let (turn, message_id) = match self.open.get(&parent) {
            Some(open) => (open.turn, Some(open.id.clone())),
            None => (self.turn, None),
        };
        let blocks = match body.content {
            Content::Text(text) => vec![json!({ "type": "text", "text": text })],
            Content::Blocks(blocks) => blocks,
        };
        for (index, block) in blocks.into_iter().enumerate() {
            let place = BlockPlace {
                turn,
                message_id: message_id.clone(),
                parent_tool_use_id: parent.clone(),
                aborted: aborted.then_some(true),
            };
            let event = self.block(block, place, at).with_id(format!("{uuid}-{index}"));
            outputs.push(AgentOutput::Event(Event { at, ..event }));
        }
        outputs
    }

    /// Assigns a block to its message. The first block of a new message closes the previous one.
    fn open_message(&mut self, body: &Body, parent: &Option<String>, at: Timestamp) -> Vec<AgentOutput> {
        let Some(id) = &body.id else { return Vec::new() };
        let mut outputs = Vec::new();
        if self.open.get(parent).is_none_or(|open| open.id != *id) {
            outputs.extend(self.close_message(parent));
            if parent.is_none() {
                self.turn += 1;
            }
            let (id, model, turn) = (id.clone(), body.model.clone(), self.turn);
            self.open
                .insert(parent.clone(), OpenMessage { id, turn, model, blocks: 0, stop_reason: None, at });
        }
        if let Some(open) = self.open.get_mut(parent) {
            open.blocks += match &body.content {
                Content::Text(_) => 1,
                Content::Blocks(blocks) => blocks.len() as u64,
            };
            open.at = at;
            open.stop_reason = body.stop_reason.clone().or(open.stop_reason.take());
        }
        outputs
    }

    fn close_message(&mut self, parent: &Option<String>) -> Option<AgentOutput> {
        let open = self.open.remove(parent)?;
        let stop_reason = self.streams.stop_reason(&open.id).map(str::to_owned).or(open.stop_reason);
        let id = format!("{}-whole", open.id);
        let message = AgentAssistantMessage {
            turn: open.turn,
            message_id: open.id,
            model: open.model,
            stop_reason,
            block_count: open.blocks,
            parent_tool_use_id: parent.clone(),
            ..Default::default()
        };
        let event = Event::agent(message).with_id(id);
        Some(AgentOutput::Event(Event { at: open.at, ..event }))
    }

    fn block(&mut self, block: Value, place: BlockPlace, at: Timestamp) -> Event {
        match block["type"].as_str() {
            Some("text") => {
                let content = block["text"].as_str().unwrap_or_default().to_owned();
                if place.parent_tool_use_id.is_none() {
                    content.clone_into(&mut self.last_text);
                }
                let content_length = content.chars().count() as u64;
                Event::agent(AgentMessage { content, content_length, place, ..Default::default() })
            }
            Some("thinking") => {
                let content = block["thinking"].as_str().unwrap_or_default().to_owned();
                let thinking_type = "extended_thinking".to_owned();
                Event::agent(AgentThinking { content, thinking_type, place, ..Default::default() })
            }
            Some("redacted_thinking") => {
                let thinking_type = "redacted".to_owned();
                Event::agent(AgentThinking { thinking_type, place, ..Default::default() })
            }
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let name = block["name"].as_str().unwrap_or_default().to_owned();
                let tool = Tool { name, input: block["input"].clone(), started_at: at };
                let id = block["id"].as_str().unwrap_or_default();
                let event = tool.invoked(id, place);
                self.tools.insert(id.to_owned(), tool);
                event
            }
            // Server-side tools return their result within the message.
            Some(kind) if kind.ends_with("tool_result") => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                self.tools.remove(id);
                let is_error = block["is_error"].as_bool().unwrap_or_default();
                let text = LongText::of(&tool::text_of(&block["content"])).into();
                Event::agent(AgentToolResult { tool_use_id: id.to_owned(), is_error, text, place })
            }
            _ => Event::agent(AgentUnparsed { place, raw: Some(block), text: None }),
        }
    }

    fn user(&mut self, message: Message) -> Vec<AgentOutput> {
        let at = time(&message);
        let blocks = match &message.message.content {
            Content::Text(text) => vec![json!({ "type": "text", "text": text })],
            Content::Blocks(blocks) => blocks.clone(),
        };
        let mut outputs = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            if block["type"] == "tool_result" {
                outputs.extend(self.close_message(&message.parent_tool_use_id));
                outputs.extend(self.tool_ended(&message, index, block, at));
            } else {
                outputs.push(AgentOutput::Event(self.user_text(&message, index, block, at)));
            }
        }
        outputs
    }

    /// Text input to the model: from the user, the CLI, or the parent of a sub-agent.
    fn user_text(&self, message: &Message, index: usize, block: &Value, at: Timestamp) -> Event {
        let content = tool::text_of(&Value::Array(vec![block.clone()]));
        // Everything else is a note of the CLI, such as "interrupted by user".
        let synthetic = !message.is_replay && message.parent_tool_use_id.is_none();
        let event = Event::agent(AgentUserMessage {
            turn: self.turn,
            content_length: content.chars().count() as u64,
            content,
            message_uuid: message.uuid.clone(),
            parent_tool_use_id: message.parent_tool_use_id.clone(),
            synthetic: synthetic.then_some(true),
        });
        Event { at, ..event.with_id(format!("{}-{index}", message.uuid)) }
    }

    fn tool_ended(
        &mut self,
        message: &Message,
        index: usize,
        block: &Value,
        at: Timestamp,
    ) -> Vec<AgentOutput> {
        let tool_use_id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
        let detail = message.tool_use_result.as_ref();
        let outcome = Outcome {
            text: tool::text_of(&block["content"]),
            is_error: block["is_error"].as_bool().unwrap_or_default(),
            detail,
            at,
        };
        let edit = detail.filter(|_| !outcome.is_error);
        let edit = edit.and_then(|detail| FileChange::from_claude(detail, &self.root));
        let place = ResultPlace {
            tool_use_id: tool_use_id.clone(),
            turn: self.turn,
            parent_tool_use_id: message.parent_tool_use_id.clone(),
        };
        let event = match self.tools.remove(&tool_use_id) {
            Some(tool) => tool.completed(outcome, place),
            None => tool::orphaned(&outcome, place),
        };
        let event = event.with_id(format!("{}-{index}", message.uuid));
        let mut outputs = vec![AgentOutput::Event(Event { at, ..event })];
        let mut edited = Vec::new();
        if let Some(change) = edit {
            edited.extend(change.emitted());
            let event = change.into_event(self.turn, Some(&tool_use_id));
            outputs.push(AgentOutput::Event(
                Event { at, ..event }.with_id(format!("{}-{index}-file", message.uuid)),
            ));
        }
        outputs.push(AgentOutput::ToolEnded { tool_use_id, turn: self.turn, edited });
        outputs
    }

    fn system(&mut self, fields: &Fields) -> Vec<AgentOutput> {
        let subtype = text(fields, "subtype");
        let requesting = subtype == "status" && matches!(text(fields, "status"), "requesting" | "");
        if IGNORED_SUBTYPES.contains(&subtype) || requesting {
            return Vec::new();
        }
        if subtype != "init" {
            return vec![self.notice(subtype, fields)];
        }
        // It is sent with every turn, so emit it only when it has changed.
        let metadata: Fields = INIT_FIELDS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), fields.get(*name)?.clone())))
            .chain([("session_id".to_owned(), fields.get("session_id").cloned().unwrap_or_default())])
            .collect();
        let metadata = Value::Object(metadata);
        if self.init.as_ref() == Some(&metadata) {
            return Vec::new();
        }
        self.init = Some(metadata.clone());
        let event = self.system_message("init", metadata);
        vec![AgentOutput::Event(event.with_id(text(fields, "uuid")))]
    }

    fn notice(&self, subtype: &str, fields: &Fields) -> AgentOutput {
        let mut metadata = fields.clone();
        for known in ["type", "subtype", "uuid", "session_id"] {
            metadata.remove(known);
        }
        let event = self.system_message(subtype, Value::Object(metadata));
        match text(fields, "uuid") {
            "" => AgentOutput::Event(event),
            uuid => AgentOutput::Event(event.with_id(uuid)),
        }
    }

    fn system_message(&self, subtype: &str, metadata: Value) -> Event {
        let (turn, subtype) = (self.turn, subtype.to_owned());
        Event::agent(AgentSystemMessage { turn, subtype, metadata, message: None })
    }

    fn unparsed(&self, line: &str) -> AgentOutput {
        let place = BlockPlace { turn: self.turn, ..Default::default() };
        let raw = serde_json::from_str::<Value>(line).ok();
        let text = raw.is_none().then(|| first_bytes(line, MAX_FIELD_BYTES).to_owned());
        AgentOutput::Event(Event::agent(AgentUnparsed { place, raw, text }))
    }

    fn result(&mut self, result: TurnResult) -> Vec<AgentOutput> {
        let mut outputs: Vec<AgentOutput> = self.close_message(&None).into_iter().collect();
        // Unfinished tool calls get no result after this.
        self.tools.clear();
        // A smaller total means that the CLI restarted its counter.
        let previous = if result.total_cost_usd < self.cost_usd { 0.0 } else { self.cost_usd };
        let cost_usd = result.total_cost_usd - previous;
        self.cost_usd = result.total_cost_usd;
        let end = turn_end(&result, cost_usd, self.turn, std::mem::take(&mut self.last_text));
        let event = Event::agent(AgentTurnCompleted {
            turn: self.turn,
            success: end.success,
            interrupted: Some(end.interrupted),
            limit: end.limit.as_deref().map(str::to_owned),
            error: end.error.clone(),
            subtype: Some(result.subtype),
            stop_reason: result.stop_reason,
            terminal_reason: result.terminal_reason,
            api_error_status: result.api_error_status,
            turns: result.num_turns,
            cost_usd,
            total_cost_usd: self.cost_usd,
            tokens: end.tokens.counts(),
            duration_ms: result.duration_ms,
            duration_api_ms: Some(result.duration_api_ms),
            context: None,
            session_id: result.session_id,
            final_output: first_bytes(&end.result, MAX_FIELD_BYTES).to_owned(),
            permission_denials: Some(result.permission_denials),
            is_error: None,
        });
        let event = if result.uuid.is_empty() { event } else { event.with_id(result.uuid) };
        outputs.push(AgentOutput::Event(event));
        outputs.push(AgentOutput::TurnEnded(Box::new(end)));
        outputs
    }
}

fn turn_end(result: &TurnResult, cost_usd: f64, turns: u64, last_text: String) -> TurnEnd {
    let interrupted = result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"));
    let limit = match (result.subtype.as_str(), result.terminal_reason.as_deref()) {
        ("error_max_turns", _) | (_, Some("max_turns")) => Some("max_turns".into()),
        ("error_max_budget_usd", _) | (_, Some("budget_exhausted")) => Some("budget".into()),
        _ => None,
    };
    let success = result.subtype == "success" && !result.is_error && !interrupted;
    let final_text = result.result.clone().filter(|text| !text.is_empty());
    let error = (!success && !interrupted).then(|| {
        let errors =
            result.errors.iter().map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        let errors = errors.collect::<Vec<_>>().join("; ");
        match (&final_text, errors.is_empty()) {
            (_, false) => errors,
            (Some(text), true) if result.is_error => text.clone(),
            _ => result.subtype.clone(),
        }
    });
    TurnEnd {
        success,
        interrupted,
        limit,
        error,
        result: final_text.unwrap_or(last_text),
        session: result.session_id.clone(),
        cost_usd,
        tokens: Tokens {
            input: result.usage.input_tokens,
            output: result.usage.output_tokens,
            cache_read: result.usage.cache_read_input_tokens,
            cache_write: result.usage.cache_creation_input_tokens,
        },
        turns,
        answered: result.user_message_uuids.clone(),
    }
}

fn time(message: &Message) -> Timestamp {
    message.timestamp.as_deref().and_then(Timestamp::parse).unwrap_or_else(clock::now)
}

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}
