//! Streamed text for live viewers. Only complete messages are stored.

use super::frame::Stream;
use crate::agents::Partial;
use serde_json::Value;
use std::collections::HashMap;

/// Messages that are being streamed, by the tool call of the sub-agent; `None` is the agent itself.
#[derive(Debug, Default)]
pub struct Streams {
    open: HashMap<Option<String>, Open>,
}

#[derive(Debug, Default)]
struct Open {
    message_id: String,
    /// For each block, its kind and its length in characters so far.
    blocks: HashMap<u64, (&'static str, u64)>,
    stop_reason: Option<String>,
}

impl Streams {
    pub fn apply(&mut self, stream: &Stream) -> Option<Partial> {
        let event = &stream.event;
        let open = self.open.entry(stream.parent_tool_use_id.clone()).or_default();
        match event["type"].as_str()? {
            "message_start" => {
                let message_id = event["message"]["id"].as_str()?.to_owned();
                *open = Open { message_id, ..Open::default() };
                None
            }
            "content_block_start" => {
                let kind = match event["content_block"]["type"].as_str()? {
                    "text" => "text",
                    "thinking" => "thinking",
                    _ => return None,
                };
                open.blocks.insert(event["index"].as_u64()?, (kind, 0));
                None
            }
            "content_block_delta" => open.delta(event),
            "message_delta" => {
                open.stop_reason = event["delta"]["stop_reason"].as_str().map(str::to_owned);
                None
            }
            _ => None,
        }
    }

    /// The stop reason of a message. Only the stream has it, not the message itself.
    pub fn stop_reason(&self, message_id: &str) -> Option<&str> {
        self.open.values().find(|open| open.message_id == message_id)?.stop_reason.as_deref()
    }
}

impl Open {
    fn delta(&mut self, event: &Value) -> Option<Partial> {
        let index = event["index"].as_u64()?;
        let (kind, offset) = self.blocks.get_mut(&index)?;
        let delta = &event["delta"];
        let text = delta["text"].as_str().or_else(|| delta["thinking"].as_str())?.to_owned();
        let message_id = self.message_id.clone();
        let partial = Partial { message_id, block: index, kind, offset: *offset, text };
        *offset += partial.text.chars().count() as u64;
        Some(partial)
    }
}
