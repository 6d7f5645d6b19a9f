//! Normalizes an agent's session updates to events.
//!
//! **Invariant:** where the agent provides ids, the same updates produce the same events with the same ids. A replayed
//! history only restores the state; it emits nothing.

use super::cost::Cost;
use super::terminals::Terminals;
use super::tools::{self, Tool};
use crate::agents::{AgentOutput, Partial};
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use crate::workspace::diff::FileChange;
use agent_client_protocol_schema::v1::{ContentChunk, SessionUpdate, ToolCall, ToolCallUpdate};
use contract::payloads::{
    AgentMessage, AgentPlan, AgentSystemMessage, AgentThinking, AgentUnparsed, BlockPlace,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Debug)]
pub struct Normalizer {
    /// The session id, or empty before there is one.
    pub session: String,
    /// The number of the current prompt, from 1; 0 before the first.
    pub turn: u64,
    /// Whether updates replay a history whose events were emitted before.
    pub is_replay: bool,
    pub cost: Cost,
    terminals: Terminals,
    root: PathBuf,
    open_block: Option<Block>,
    /// Number of blocks by message id.
    block_counts: HashMap<String, u64>,
    tools: HashMap<String, Tool>,
    /// Tool calls that were announced but not emitted, in order.
    unemitted_tools: VecDeque<String>,
    used_ids: HashSet<String>,
    /// The agent's texts in this turn.
    texts: Vec<String>,
    outputs: VecDeque<AgentOutput>,
}

/// A block of a message that is being streamed.
#[derive(Debug)]
struct Block {
    /// The agent's message id, if it sends one.
    message: Option<String>,
    id: String,
    number: u64,
    kind: &'static str,
    text: String,
    chars: u64,
}

impl Normalizer {
    pub fn new(terminals: Terminals, root: PathBuf) -> Self {
        Self {
            session: String::new(),
            turn: 0,
            is_replay: false,
            cost: Cost::default(),
            terminals,
            root,
            open_block: None,
            block_counts: HashMap::new(),
            tools: HashMap::new(),
            unemitted_tools: VecDeque::new(),
            used_ids: HashSet::new(),
            texts: Vec::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Pending outputs, in order.
    pub fn outputs(&mut self) -> &mut VecDeque<AgentOutput> {
        &mut self.outputs
    }

    /// Emits an output, except during a replay.
    pub fn emit(&mut self, output: AgentOutput) {
        if !self.is_replay {
            self.outputs.push_back(output);
        }
    }

    pub fn emit_event(&mut self, event: Event) {
        self.emit(AgentOutput::Event(event));
    }

    pub fn emit_unparsed(&mut self, raw: &Value) {
        self.flush();
        let place = BlockPlace { turn: self.turn, ..Default::default() };
        let raw = Some(tools::bounded(Some(raw)));
        self.emit_event(Event::agent(AgentUnparsed { place, raw, text: None }));
    }

    pub fn emit_system_message(&mut self, subtype: &str, metadata: Value) {
        let (turn, subtype) = (self.turn, subtype.to_owned());
        let metadata = tools::bounded(Some(&metadata));
        self.emit_event(Event::agent(AgentSystemMessage { turn, subtype, metadata, message: None }));
    }

    pub fn update(&mut self, mut raw: Value) {
        let Ok(update) = SessionUpdate::deserialize(&raw) else { return self.emit_unparsed(&raw) };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk("text", chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk("thinking", chunk),
            SessionUpdate::ToolCall(call) => self.tool_call(call),
            SessionUpdate::ToolCallUpdate(update) => self.tool_update(update),
            SessionUpdate::UsageUpdate(usage) => self.cost.record(&usage),
            // Our own message; in a replay it ends the agent's previous message.
            SessionUpdate::UserMessageChunk(_) => self.flush(),
            SessionUpdate::Plan(_) => {
                self.flush();
                let entries = raw.get_mut("entries").map(Value::take).unwrap_or_default();
                let entries = tools::bounded(Some(&entries));
                self.emit_event(Event::agent(AgentPlan { turn: self.turn, entries }));
            }
            _ => {
                self.flush();
                let kind = raw["sessionUpdate"].as_str().unwrap_or_default().to_owned();
                if let Some(fields) = raw.as_object_mut() {
                    fields.remove("sessionUpdate");
                }
                self.emit_system_message(&kind, raw);
            }
        }
    }

    /// Emits and returns the tool call of a permission request.
    pub fn permission_requested(&mut self, update: ToolCallUpdate) -> ToolCall {
        let id = update.tool_call_id.0.to_string();
        self.tool_update(update);
        self.emit_tools();
        self.tools[&id].call.clone()
    }

    /// Closes the open block and emits announced tool calls.
    pub fn flush(&mut self) {
        self.end_block();
        self.emit_tools();
    }

    /// Ends the replay. Updates from now on are new.
    pub fn end_replay(&mut self) {
        self.flush();
        self.tools.values_mut().for_each(|tool| tool.ended = true);
        self.cost.reset();
        self.is_replay = false;
    }

    pub fn begin_turn(&mut self) {
        self.turn += 1;
        self.texts.clear();
        self.cost.begin_turn();
    }

    /// Ends the turn. Returns all texts of the turn, joined, and the last text.
    pub fn end_turn(&mut self, was_cancelled: bool) -> (String, String) {
        self.flush();
        if was_cancelled {
            let mut unfinished: Vec<String> =
                self.tools.iter().filter(|(_, tool)| !tool.ended).map(|(id, _)| id.clone()).collect();
            unfinished.sort_by_key(|id| self.tools[id].started_at);
            for id in unfinished {
                self.end_tool(&id, Some("The turn was cancelled before the tool finished."));
            }
        }
        let texts = mem::take(&mut self.texts);
        let last = texts.last().cloned().unwrap_or_default();
        (first_bytes(&texts.join("\n"), MAX_FIELD_BYTES).to_owned(), last)
    }

    fn chunk(&mut self, kind: &'static str, chunk: ContentChunk) {
        self.emit_tools();
        let message = chunk.message_id.map(|id| id.0.to_string());
        let text = tools::text(&chunk.content);
        if self.open_block.as_ref().is_none_or(|open| open.kind != kind || open.message != message) {
            self.end_block();
            self.begin_block(kind, message);
        }
        let block = self.open_block.as_mut().expect("a block was opened above");
        let partial = Partial {
            message_id: block.id.clone(),
            block: block.number,
            kind,
            offset: block.chars,
            text: text.clone(),
        };
        block.chars += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        block.text.push_str(&text);
        self.emit(AgentOutput::Partial(partial));
    }

    fn begin_block(&mut self, kind: &'static str, message: Option<String>) {
        let id = message.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let next = message.as_ref().map(|message| self.block_counts.entry(message.clone()).or_default());
        let number = next.map_or(0, |next| mem::replace(next, *next + 1));
        self.open_block = Some(Block { message, id, number, kind, text: String::new(), chars: 0 });
    }

    fn end_block(&mut self) {
        let Some(block) = self.open_block.take().filter(|block| !block.text.is_empty()) else { return };
        let content = first_bytes(&block.text, MAX_FIELD_BYTES).to_owned();
        let content_truncated = (content.len() < block.text.len()).then_some(true);
        let place = BlockPlace { turn: self.turn, message_id: Some(block.id.clone()), ..Default::default() };
        let mut event = match block.kind {
            "thinking" => Event::agent(AgentThinking {
                content,
                thinking_type: "extended_thinking".to_owned(),
                content_length: Some(block.chars),
                content_truncated,
                full_content: None,
                block: Some(block.number),
                place,
            }),
            _ => Event::agent(AgentMessage {
                content,
                content_length: block.chars,
                content_truncated,
                full_content: None,
                block: Some(block.number),
                place,
            }),
        };
        if block.message.is_some() {
            event = self.with_stable_id(event, &format!("message/{}/{}", block.id, block.number));
        }
        if block.kind == "text" {
            self.texts.push(block.text);
        }
        self.emit_event(event);
    }

    fn tool_call(&mut self, call: ToolCall) {
        self.tool_update(call.into());
    }

    /// An update for an unknown tool call announces it.
    fn tool_update(&mut self, update: ToolCallUpdate) {
        let id = update.tool_call_id.0.to_string();
        self.end_block();
        if !self.tools.contains_key(&id) {
            self.emit_tools();
            self.unemitted_tools.push_back(id.clone());
        }
        let tool = self
            .tools
            .entry(id.clone())
            .or_insert_with(|| Tool::new(ToolCall::new(update.tool_call_id.clone(), String::new())));
        if tool.ended {
            return;
        }
        tool.call.update(update.fields);
        if tool.has_input() {
            self.emit_tools();
        }
        if self.tools[&id].is_final() {
            self.end_tool(&id, None);
        }
    }

    fn emit_tools(&mut self) {
        while let Some(id) = self.unemitted_tools.pop_front() {
            let event = self.tools[&id].invoked(self.turn);
            let event = self.with_stable_id(event, &format!("tool/{id}/use"));
            self.emit_event(event);
        }
    }

    fn end_tool(&mut self, id: &str, cancel_reason: Option<&str>) {
        self.emit_tools();
        let tool = self.tools.get_mut(id).expect("the tool was announced");
        tool.ended = true;
        let completed = tool.completed(&self.terminals, cancel_reason, self.turn);
        let succeeded = cancel_reason.is_none() && !completed.is_error;
        let changes = if succeeded { tool.file_changes(&self.root) } else { Vec::new() };
        // Already emitted, and may be large.
        tool.call.content.clear();
        tool.call.raw_input = None;
        tool.call.raw_output = None;
        let completed = self.with_stable_id(Event::agent(completed), &format!("tool/{id}/completed"));
        self.emit_event(completed);
        let edited = changes.iter().filter_map(FileChange::emitted).collect();
        for (number, change) in changes.into_iter().enumerate() {
            let event = change.into_event(self.turn, Some(id));
            let event = self.with_stable_id(event, &format!("tool/{id}/edit/{number}"));
            self.emit_event(event);
        }
        self.emit(AgentOutput::ToolEnded { tool_use_id: id.to_owned(), turn: self.turn, edited });
    }

    /// Derives the event's id from the agent's id, unless it was already used: no event may be lost because an agent
    /// restarts its numbering.
    fn with_stable_id(&mut self, event: Event, what: &str) -> Event {
        let key = format!("acp/{}/{what}", self.session);
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes()).to_string();
        if self.used_ids.insert(id.clone()) { event.with_id(id) } else { event }
    }
}
