//! Turns an agent's updates into what is told of it.
//!
//! **Invariant:** the same updates give the same events under the same names, wherever the agent names what it does. So
//! a history that is replayed can be run through in silence, and the story goes on after it.

use super::cost::Cost;
use super::terminals::Terminals;
use super::tools::{self, Tool};
use crate::agents::{Partial, Tell};
use crate::event::{Event, MAX_FIELD_BYTES, first_bytes};
use crate::workspace::diff::FileChange;
use agent_client_protocol_schema::v1::{ContentChunk, SessionUpdate, ToolCall, ToolCallUpdate};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::path::PathBuf;
use uuid::Uuid;

/// Tells of one session.
#[derive(Debug)]
pub struct Narrator {
    /// The session's id, once it has one.
    pub session: String,
    /// The prompt that is worked on, from 1; 0 before the first.
    pub turn: u64,
    /// Whether this is a history that was told before.
    pub is_replay: bool,
    /// What it cost.
    pub cost: Cost,
    terminals: Terminals,
    root: PathBuf,
    open: Option<Block>,
    /// How many blocks of a message there were, by the message's id.
    blocks: HashMap<String, u64>,
    tools: HashMap<String, Tool>,
    /// Those that are announced and not told, in order.
    untold: VecDeque<String>,
    names: HashSet<String>,
    said: Vec<String>,
    tells: VecDeque<Tell>,
}

/// A message, or a part of it, that is being written.
#[derive(Debug)]
struct Block {
    message: Option<String>,
    id: String,
    number: u64,
    kind: &'static str,
    text: String,
    chars: u64,
}

impl Narrator {
    /// Nothing was told yet.
    pub fn new(terminals: Terminals, root: PathBuf) -> Self {
        Self {
            session: String::new(),
            turn: 0,
            is_replay: false,
            cost: Cost::default(),
            terminals,
            root,
            open: None,
            blocks: HashMap::new(),
            tools: HashMap::new(),
            untold: VecDeque::new(),
            names: HashSet::new(),
            said: Vec::new(),
            tells: VecDeque::new(),
        }
    }

    /// What is to be told, in order.
    pub fn tells(&mut self) -> &mut VecDeque<Tell> {
        &mut self.tells
    }

    /// Tells something, unless it was told before.
    pub fn tell(&mut self, tell: Tell) {
        if !self.is_replay {
            self.tells.push_back(tell);
        }
    }

    /// Tells an event of this turn.
    pub fn event(&mut self, event: Event) {
        let event = event.with("turn", self.turn);
        self.tell(Tell::Event(event));
    }

    /// Tells what could not be understood.
    pub fn unparsed(&mut self, raw: &Value) {
        self.settle();
        self.event(Event::agent("agent.unparsed").with("raw", tools::bounded(Some(raw))));
    }

    /// Tells something that belongs to no other event.
    pub fn system(&mut self, subtype: &str, metadata: Value) {
        let event = Event::agent("agent.system_message").with("subtype", subtype);
        self.event(event.with("metadata", tools::bounded(Some(&metadata))));
    }

    /// The agent has told this.
    pub fn update(&mut self, mut raw: Value) {
        let Ok(update) = SessionUpdate::deserialize(&raw) else { return self.unparsed(&raw) };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk("text", chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk("thinking", chunk),
            SessionUpdate::ToolCall(call) => self.tool_call(call),
            SessionUpdate::ToolCallUpdate(update) => self.tool_update(update),
            SessionUpdate::UsageUpdate(usage) => self.cost.note(&usage),
            // What was said is known here; in a replay it ends what the agent said before it.
            SessionUpdate::UserMessageChunk(_) => self.settle(),
            SessionUpdate::Plan(_) => {
                self.settle();
                let entries = raw.get_mut("entries").map(Value::take).unwrap_or_default();
                self.event(Event::agent("agent.plan").with("entries", tools::bounded(Some(&entries))));
            }
            _ => {
                self.settle();
                let kind = raw["sessionUpdate"].as_str().unwrap_or_default().to_owned();
                if let Some(fields) = raw.as_object_mut() {
                    fields.remove("sessionUpdate");
                }
                self.system(&kind, raw);
            }
        }
    }

    /// What is known of a tool that the agent wants to use, after it is told.
    pub fn asked_about(&mut self, update: ToolCallUpdate) -> ToolCall {
        let id = update.tool_call_id.0.to_string();
        self.tool_update(update);
        self.tell_tools();
        self.tools[&id].call.clone()
    }

    /// Ends what is being written, and tells what was announced: something else has begun.
    pub fn settle(&mut self) {
        self.end_block();
        self.tell_tools();
    }

    /// The history is over: what comes now is new.
    pub fn end_replay(&mut self) {
        self.settle();
        self.tools.values_mut().for_each(|tool| tool.ended = true);
        self.cost.forget();
        self.is_replay = false;
    }

    /// A prompt is worked on from now.
    pub fn begin_turn(&mut self) {
        self.turn += 1;
        self.said.clear();
        self.cost.begin_turn();
    }

    /// Nothing more comes of this turn. Says all that the agent said in it, and the last of it.
    pub fn end_turn(&mut self, was_cancelled: bool) -> (String, String) {
        self.settle();
        if was_cancelled {
            let mut left: Vec<String> =
                self.tools.iter().filter(|(_, tool)| !tool.ended).map(|(id, _)| id.clone()).collect();
            left.sort_by_key(|id| self.tools[id].since);
            for id in left {
                self.end_tool(&id, Some("The turn was cancelled before the tool had ended."));
            }
        }
        let all = mem::take(&mut self.said);
        let last = all.last().cloned().unwrap_or_default();
        (first_bytes(&all.join("\n"), MAX_FIELD_BYTES).to_owned(), last)
    }

    fn chunk(&mut self, kind: &'static str, chunk: ContentChunk) {
        self.tell_tools();
        let message = chunk.message_id.map(|id| id.0.to_string());
        let text = tools::text(&chunk.content);
        if self.open.as_ref().is_none_or(|open| open.kind != kind || open.message != message) {
            self.end_block();
            self.begin_block(kind, message);
        }
        let block = self.open.as_mut().expect("it was begun");
        let partial = Partial {
            message_id: block.id.clone(),
            block: block.number,
            kind,
            offset: block.chars,
            text: text.clone(),
        };
        block.chars += u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        block.text.push_str(&text);
        self.tell(Tell::Partial(partial));
    }

    fn begin_block(&mut self, kind: &'static str, message: Option<String>) {
        let id = message.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let next = message.as_ref().map(|message| self.blocks.entry(message.clone()).or_default());
        let number = next.map_or(0, |next| mem::replace(next, *next + 1));
        self.open = Some(Block { message, id, number, kind, text: String::new(), chars: 0 });
    }

    fn end_block(&mut self) {
        let Some(block) = self.open.take().filter(|block| !block.text.is_empty()) else { return };
        let content = first_bytes(&block.text, MAX_FIELD_BYTES);
        let event = match block.kind {
            "thinking" => Event::agent("agent.thinking").with("thinking_type", "extended_thinking"),
            _ => Event::agent("agent.message"),
        };
        let mut event = event
            .with("content", content)
            .with("content_length", block.chars)
            .with("message_id", block.id.as_str())
            .with("block", block.number);
        if content.len() < block.text.len() {
            event = event.with("content_truncated", true);
        }
        if block.message.is_some() {
            event = self.named(event, &format!("message/{}/{}", block.id, block.number));
        }
        if block.kind == "text" {
            self.said.push(block.text);
        }
        self.event(event);
    }

    fn tool_call(&mut self, call: ToolCall) {
        self.tool_update(call.into());
    }

    /// An update of a tool that was never announced announces it.
    fn tool_update(&mut self, update: ToolCallUpdate) {
        let id = update.tool_call_id.0.to_string();
        self.end_block();
        if !self.tools.contains_key(&id) {
            self.tell_tools();
            self.untold.push_back(id.clone());
        }
        let tool = self
            .tools
            .entry(id.clone())
            .or_insert_with(|| Tool::new(ToolCall::new(update.tool_call_id.clone(), String::new())));
        if tool.ended {
            return;
        }
        tool.call.update(update.fields);
        if tool.is_known() {
            self.tell_tools();
        }
        if self.tools[&id].is_over() {
            self.end_tool(&id, None);
        }
    }

    fn tell_tools(&mut self) {
        while let Some(id) = self.untold.pop_front() {
            let event = self.tools[&id].used();
            let event = self.named(event, &format!("tool/{id}/use"));
            self.event(event);
        }
    }

    fn end_tool(&mut self, id: &str, ending: Option<&str>) {
        self.tell_tools();
        let tool = self.tools.get_mut(id).expect("it was announced");
        tool.ended = true;
        let completed = tool.completed(&self.terminals, ending);
        let is_done = ending.is_none() && completed.data["is_error"] == false;
        let edits = if is_done { tool.edits(&self.root) } else { Vec::new() };
        // What it showed was told, and may be large.
        tool.call.content.clear();
        tool.call.raw_input = None;
        tool.call.raw_output = None;
        let completed = self.named(completed, &format!("tool/{id}/completed"));
        self.event(completed);
        let edited = edits.iter().filter_map(FileChange::told).collect();
        for (number, edit) in edits.into_iter().enumerate() {
            let edit = edit.into_event(self.turn, Some(id));
            let edit = self.named(edit, &format!("tool/{id}/edit/{number}"));
            self.event(edit);
        }
        self.tell(Tell::ToolEnded { tool_use_id: id.to_owned(), turn: self.turn, edited });
    }

    /// Under a name that follows from what the agent calls it, unless that was used: nothing may be lost because an
    /// agent counts from one again.
    fn named(&mut self, event: Event, what: &str) -> Event {
        let key = format!("acp/{}/{what}", self.session);
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes()).to_string();
        if self.names.insert(id.clone()) { event.named(id) } else { event }
    }
}
