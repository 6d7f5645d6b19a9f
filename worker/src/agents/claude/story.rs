//! What the CLI prints, told as events.
//!
//! A fold: frames in, events out, no clock but that of the frames, no process. What the CLI also keeps in its own
//! record is named after the entry there, so that reading the record after a crash tells nothing twice.

use super::frame::{Body, Content, Fields, Frame, Message, TurnResult};
use super::stream::Streams;
use super::tool::{self, Outcome, Tool};
use crate::agents::{Tell, Tokens, TurnEnd};
use crate::clock;
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use crate::workspace::diff::FileChange;
use domain::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;

/// What of the first system frame is worth telling. The rest (hundreds of commands) is the same for everybody.
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

/// System frames that are told by other means, or that repeat every second.
const QUIET: [&str; 4] =
    ["session_state_changed", "task_progress", "background_tasks_changed", "thinking_tokens"];

/// The story so far.
#[derive(Debug, Default)]
pub struct Story {
    root: PathBuf,
    /// How often the model has answered, sub-agents not counted.
    turn: u64,
    /// The messages whose blocks are coming: that of the agent, and those of its sub-agents.
    open: HashMap<Option<String>, OpenMessage>,
    tools: HashMap<String, Tool>,
    streams: Streams,
    cost_usd: f64,
    /// What the last `init` said.
    init: Option<Value>,
    /// The last thing the agent said.
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

impl Story {
    /// Of an agent that works in `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root, ..Self::default() }
    }

    /// The turn that it is in.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// What a session has cost before this run: the CLI counts on from there.
    pub fn begin_at_cost(&mut self, cost_usd: f64) {
        self.cost_usd = cost_usd;
    }

    /// What a frame tells.
    pub fn apply(&mut self, frame: Frame) -> Vec<Tell> {
        match frame {
            Frame::Assistant(message) => self.assistant(*message),
            Frame::User(message) => self.user(*message),
            Frame::Stream(stream) => self.streams.more(&stream).map(Tell::Partial).into_iter().collect(),
            Frame::System(fields) => self.system(&fields),
            Frame::Remark(fields) => vec![self.remark(text(&fields, "type"), &fields)],
            Frame::Result(result) => self.result(*result),
            Frame::Unparsed(line) => vec![self.unparsed(&line)],
            Frame::Progress => vec![Tell::Progress],
            Frame::Lifecycle(_) | Frame::Request(_) | Frame::Response(_) | Frame::Mirror | Frame::Idle => {
                Vec::new()
            }
        }
    }

    fn assistant(&mut self, message: Message) -> Vec<Tell> {
        let at = time(&message);
        let Message { message: body, uuid, parent_tool_use_id: parent, aborted, .. } = message;
        let mut told = self.open_message(&body, &parent, at);
        let (turn, message_id) = match self.open.get(&parent) {
            Some(open) => (open.turn, Some(open.id.clone())),
            None => (self.turn, None),
        };
        let blocks = match body.content {
            Content::Text(text) => vec![json!({ "type": "text", "text": text })],
            Content::Blocks(blocks) => blocks,
        };
        for (index, block) in blocks.into_iter().enumerate() {
            let event = self.block(block, parent.is_none(), at);
            let event = event
                .named(format!("{uuid}-{index}"))
                .with("turn", turn)
                .with_some("message_id", message_id.clone())
                .with_some("parent_tool_use_id", parent.clone());
            let event = if aborted { event.with("aborted", true) } else { event };
            told.push(Tell::Event(Event { at, ..event }));
        }
        told
    }

    /// Notes which message a block belongs to; the first block of another one ends the last.
    fn open_message(&mut self, body: &Body, parent: &Option<String>, at: Timestamp) -> Vec<Tell> {
        let Some(id) = &body.id else { return Vec::new() };
        let mut told = Vec::new();
        if self.open.get(parent).is_none_or(|open| open.id != *id) {
            told.extend(self.close_message(parent));
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
        told
    }

    fn close_message(&mut self, parent: &Option<String>) -> Option<Tell> {
        let open = self.open.remove(parent)?;
        let stop_reason = self.streams.stop_reason(&open.id).map(str::to_owned).or(open.stop_reason);
        let event = Event::agent("agent.assistant_message")
            .named(format!("{}-whole", open.id))
            .with("turn", open.turn)
            .with("message_id", open.id)
            .with_some("model", open.model)
            .with("stop_reason", stop_reason.map_or(Value::Null, Value::from))
            .with("block_count", open.blocks)
            .with_some("parent_tool_use_id", parent.clone());
        Some(Tell::Event(Event { at: open.at, ..event }))
    }

    fn block(&mut self, block: Value, own: bool, at: Timestamp) -> Event {
        match block["type"].as_str() {
            Some("text") => {
                let content = block["text"].as_str().unwrap_or_default();
                if own {
                    content.clone_into(&mut self.last_text);
                }
                Event::agent("agent.message")
                    .with("content", content)
                    .with("content_length", content.chars().count())
            }
            Some("thinking") => Event::agent("agent.thinking")
                .with("content", block["thinking"].as_str().unwrap_or_default())
                .with("thinking_type", "extended_thinking"),
            Some("redacted_thinking") => {
                Event::agent("agent.thinking").with("content", "").with("thinking_type", "redacted")
            }
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let name = block["name"].as_str().unwrap_or_default().to_owned();
                let tool = Tool { name, input: block["input"].clone(), began: at };
                let id = block["id"].as_str().unwrap_or_default();
                let event = tool.invoked().with("tool_use_id", id);
                self.tools.insert(id.to_owned(), tool);
                event
            }
            // A tool of the model's own provider answers within the message.
            Some(kind) if kind.ends_with("tool_result") => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                self.tools.remove(id);
                let is_error = block["is_error"].as_bool().unwrap_or_default();
                let event =
                    Event::agent("agent.tool_result").with("tool_use_id", id).with("is_error", is_error);
                event.with_long("result", "full_result", &tool::text_of(&block["content"]))
            }
            _ => Event::agent("agent.unparsed").with("raw", block),
        }
    }

    fn user(&mut self, message: Message) -> Vec<Tell> {
        let at = time(&message);
        let blocks = match &message.message.content {
            Content::Text(text) => vec![json!({ "type": "text", "text": text })],
            Content::Blocks(blocks) => blocks.clone(),
        };
        let mut told = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            if block["type"] == "tool_result" {
                told.extend(self.close_message(&message.parent_tool_use_id));
                told.extend(self.tool_ended(&message, index, block, at));
            } else {
                told.push(Tell::Event(self.heard(&message, index, block, at)));
            }
        }
        told
    }

    /// The agent is told something: by us, by the CLI, or by the agent that made it.
    fn heard(&self, message: &Message, index: usize, block: &Value, at: Timestamp) -> Event {
        let content = tool::text_of(&Value::Array(vec![block.clone()]));
        let event = Event::agent("agent.user_message")
            .named(format!("{}-{index}", message.uuid))
            .with("turn", self.turn)
            .with("content_length", content.chars().count())
            .with("content", content)
            .with("message_uuid", message.uuid.as_str())
            .with_some("parent_tool_use_id", message.parent_tool_use_id.clone());
        // What neither we nor a sub-agent's maker said is a remark of the CLI, such as "interrupted by user".
        let remark = !message.is_replay && message.parent_tool_use_id.is_none();
        Event { at, ..if remark { event.with("synthetic", true) } else { event } }
    }

    fn tool_ended(&mut self, message: &Message, index: usize, block: &Value, at: Timestamp) -> Vec<Tell> {
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
        let event = match self.tools.remove(&tool_use_id) {
            Some(tool) => tool.completed(outcome),
            None => tool::orphaned(&outcome),
        };
        let event = event
            .named(format!("{}-{index}", message.uuid))
            .with("turn", self.turn)
            .with("tool_use_id", tool_use_id.as_str())
            .with_some("parent_tool_use_id", message.parent_tool_use_id.clone());
        let mut told = vec![Tell::Event(Event { at, ..event })];
        let mut edited = Vec::new();
        if let Some(change) = edit {
            edited.extend(change.told());
            let event = change.into_event(self.turn, Some(&tool_use_id));
            told.push(Tell::Event(Event { at, ..event }.named(format!("{}-{index}-file", message.uuid))));
        }
        told.push(Tell::ToolEnded { tool_use_id, turn: self.turn, edited });
        told
    }

    fn system(&mut self, fields: &Fields) -> Vec<Tell> {
        let subtype = text(fields, "subtype");
        let asking = subtype == "status" && matches!(text(fields, "status"), "requesting" | "");
        if QUIET.contains(&subtype) || asking {
            return Vec::new();
        }
        if subtype != "init" {
            return vec![self.remark(subtype, fields)];
        }
        // It comes with every turn: only what has changed is news.
        let said: Fields = INIT_FIELDS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), fields.get(*name)?.clone())))
            .chain([("session_id".to_owned(), fields.get("session_id").cloned().unwrap_or_default())])
            .collect();
        let said = Value::Object(said);
        if self.init.as_ref() == Some(&said) {
            return Vec::new();
        }
        self.init = Some(said.clone());
        let event = Event::agent("agent.system_message").named(text(fields, "uuid"));
        vec![Tell::Event(event.with("turn", self.turn).with("subtype", "init").with("metadata", said))]
    }

    fn remark(&self, subtype: &str, fields: &Fields) -> Tell {
        let mut metadata = fields.clone();
        for known in ["type", "subtype", "uuid", "session_id"] {
            metadata.remove(known);
        }
        let event = Event::agent("agent.system_message")
            .with("turn", self.turn)
            .with("subtype", subtype)
            .with("metadata", metadata);
        match text(fields, "uuid") {
            "" => Tell::Event(event),
            uuid => Tell::Event(event.named(uuid)),
        }
    }

    fn unparsed(&self, line: &str) -> Tell {
        let event = Event::agent("agent.unparsed").with("turn", self.turn);
        Tell::Event(match serde_json::from_str::<Value>(line) {
            Ok(raw) => event.with("raw", raw),
            Err(_) => event.with("text", first_bytes(line, MAX_FIELD_BYTES)),
        })
    }

    fn result(&mut self, result: TurnResult) -> Vec<Tell> {
        let mut told: Vec<Tell> = self.close_message(&None).into_iter().collect();
        // What was under way has no end any more.
        self.tools.clear();
        // A total that has become less was counted afresh.
        let before = if result.total_cost_usd < self.cost_usd { 0.0 } else { self.cost_usd };
        let cost_usd = result.total_cost_usd - before;
        self.cost_usd = result.total_cost_usd;
        let end = turn_end(&result, cost_usd, self.turn, std::mem::take(&mut self.last_text));
        let event = Event::agent("agent.turn_completed")
            .with("turn", self.turn)
            .with("success", end.success)
            .with("interrupted", end.interrupted)
            .with_some("limit", end.limit.clone())
            .with_some("error", end.error.clone())
            .with("subtype", result.subtype)
            .with_some("stop_reason", result.stop_reason)
            .with_some("terminal_reason", result.terminal_reason)
            .with_some("api_error_status", result.api_error_status)
            .with("turns", result.num_turns)
            .with("cost_usd", cost_usd)
            .with("total_cost_usd", self.cost_usd)
            .with("input_tokens", end.tokens.input)
            .with("output_tokens", end.tokens.output)
            .with("cache_read_tokens", end.tokens.cache_read)
            .with("cache_write_tokens", end.tokens.cache_write)
            .with("duration_ms", result.duration_ms)
            .with("duration_api_ms", result.duration_api_ms)
            .with("session_id", result.session_id)
            .with("final_output", first_bytes(&end.result, MAX_FIELD_BYTES))
            .with("permission_denials", result.permission_denials);
        let event = if result.uuid.is_empty() { event } else { event.named(result.uuid) };
        told.push(Tell::Event(event));
        told.push(Tell::TurnEnded(Box::new(end)));
        told
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
    let said = result.result.clone().filter(|text| !text.is_empty());
    let error = (!success && !interrupted).then(|| {
        let errors =
            result.errors.iter().map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
        let errors = errors.collect::<Vec<_>>().join("; ");
        match (&said, errors.is_empty()) {
            (_, false) => errors,
            (Some(said), true) if result.is_error => said.clone(),
            _ => result.subtype.clone(),
        }
    });
    TurnEnd {
        success,
        interrupted,
        limit,
        error,
        result: said.unwrap_or(last_text),
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
