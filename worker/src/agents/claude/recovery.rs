//! Reading the CLI's own record after a crash: what it did while nobody listened.
//!
//! The CLI prints a frame and writes an entry for the same thing, under the same name. A worker that is killed leaves
//! frames unread in a pipe, and they are gone; the entries are not. Telling the whole record again loses nothing, and
//! doubles nothing, because the outbox knows the names that were told.

use super::frame::{Content, Frame, Message};
use super::story::Story;
use crate::agents::Tell;
use serde_json::Value;
use std::collections::HashSet;
use uuid::Uuid;

/// What a record says.
#[derive(Debug)]
pub struct Recovered {
    /// The story so far, to go on from.
    pub story: Story,
    /// Everything that it tells.
    pub tells: Vec<Tell>,
    /// What the agent has read of what it was told.
    pub heard: HashSet<Uuid>,
    /// What that says.
    pub prompts: Vec<String>,
    /// Whether a turn was under way.
    pub unfinished: bool,
}

/// Reads a record, line by line.
pub fn recover<'a>(story: Story, lines: impl IntoIterator<Item = &'a str>) -> Recovered {
    let (tells, heard, prompts) = (Vec::new(), HashSet::new(), Vec::new());
    let mut recovered = Recovered { story, tells, heard, prompts, unfinished: false };
    for line in lines {
        // A torn last line is what a crash leaves.
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        recovered.read(entry);
    }
    recovered
}

impl Recovered {
    fn read(&mut self, entry: Value) {
        if entry["type"] == "cost-state" {
            // Written when the CLI leaves by itself; one that is killed counts from the last of them.
            self.story.begin_at_cost(entry["totalCostUSD"].as_f64().unwrap_or_default());
        }
        let Some(frame) = frame(entry) else { return };
        match &frame {
            Frame::Assistant(message) => {
                self.unfinished = match &message.message.content {
                    Content::Text(_) => false,
                    Content::Blocks(blocks) => {
                        blocks.iter().any(|block| block["type"] == "tool_use" || block["type"] == "thinking")
                    }
                } && !message.aborted;
            }
            Frame::User(message) => {
                self.unfinished = message.is_replay || holds_result(&message.message.content);
                if message.is_replay {
                    self.heard.extend(message.uuid.parse::<Uuid>().ok());
                    if let Content::Text(text) = &message.message.content {
                        self.prompts.push(text.clone());
                    }
                }
            }
            _ => {}
        }
        self.tells.extend(self.story.apply(frame));
    }
}

fn holds_result(content: &Content) -> bool {
    matches!(content, Content::Blocks(blocks) if blocks.iter().any(|block| block["type"] == "tool_result"))
}

/// The frame that was, or would have been, printed for an entry.
fn frame(mut entry: Value) -> Option<Frame> {
    let flag = |name: &str| entry[name].as_bool().unwrap_or_default();
    // Sub-agents have records of their own; the others are the CLI's notes to the model.
    if flag("isSidechain") || flag("isMeta") || flag("isCompactSummary") {
        return None;
    }
    match entry["type"].as_str()? {
        "attachment" => queued_command(&entry["attachment"], &entry["timestamp"]),
        "assistant" => {
            entry["aborted"] = flag("isAbortedMidStream").into();
            serde_json::from_value(entry).ok().map(Frame::Assistant)
        }
        "user" => {
            entry["tool_use_result"] = entry["toolUseResult"].take();
            let mut message: Box<Message> = serde_json::from_value(entry).ok()?;
            // The CLI echoes prompts, and only those: its own remarks come as blocks.
            message.is_replay = matches!(message.message.content, Content::Text(_));
            Some(Frame::User(message))
        }
        _ => None,
    }
}

/// What was said while a tool ran is attached to the turn, under the name that we gave it.
fn queued_command(attachment: &Value, timestamp: &Value) -> Option<Frame> {
    if attachment["type"] != "queued_command" {
        return None;
    }
    let entry = serde_json::json!({
        "message": { "role": "user", "content": attachment["prompt"] },
        "uuid": attachment["source_uuid"],
        "isReplay": true,
        "timestamp": timestamp,
    });
    serde_json::from_value(entry).ok().map(Frame::User)
}
