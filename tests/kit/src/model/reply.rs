//! Replies of a scripted model.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) blocks: Vec<Block>,
    pub(super) usage: Usage,
    /// Delay between two words of a stream.
    pub(super) word_delay: Duration,
    /// One permit for each word of a stream.
    pub(super) gate: Option<Arc<Semaphore>>,
    pub(super) error: Option<Failure>,
    stop_reason: Option<&'static str>,
}

/// A content block.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    Thinking(String),
    ToolUse {
        /// Assigned when the reply is sent: `toolu_0001`.
        id: String,
        name: String,
        input: Value,
    },
}

/// Tokens of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Uncached input.
    pub input: u64,
    pub output: u64,
    pub cache_creation: u64,
    pub cache_read: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_creation: 0, cache_read: 0 }
    }
}

/// An error response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) retry_after_secs: Option<u64>,
}

impl Reply {
    pub fn text(text: &str) -> Self {
        Self::default().and_text(text)
    }

    pub fn thinking(text: &str) -> Self {
        Self { blocks: vec![Block::Thinking(text.to_owned())], ..Self::default() }
    }

    pub fn tool(name: &str, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// An error, with the value of its `retry-after` header.
    pub fn error(status: u16, retry_after_secs: Option<u64>) -> Self {
        Self { error: Some(Failure { status, retry_after_secs }), ..Self::default() }
    }

    #[must_use]
    pub fn and_text(mut self, text: &str) -> Self {
        self.blocks.push(Block::Text(text.to_owned()));
        self
    }

    #[must_use]
    pub fn and_tool(mut self, name: &str, input: Value) -> Self {
        self.blocks.push(Block::ToolUse { id: String::new(), name: name.to_owned(), input });
        self
    }

    /// Streams with a delay between two words.
    #[must_use]
    pub fn with_word_delay(mut self, delay: Duration) -> Self {
        self.word_delay = delay;
        self
    }

    /// Waits for a permit before each word.
    #[must_use]
    pub fn gated(mut self, gate: Arc<Semaphore>) -> Self {
        self.gate = Some(gate);
        self
    }

    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Replaces the default stop reason, `end_turn` or `tool_use`.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: &'static str) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Assigns ids to tool uses that are unique within the server.
    pub(super) fn assign_tool_ids(&mut self, used: &mut u32) {
        for block in &mut self.blocks {
            if let Block::ToolUse { id, .. } = block {
                *used += 1;
                *id = format!("toolu_{used:04}");
            }
        }
    }

    pub(super) fn stop_reason(&self) -> &'static str {
        let tools = self.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        self.stop_reason.unwrap_or(if tools { "tool_use" } else { "end_turn" })
    }

    /// The message at the start of a stream, without content.
    pub(super) fn message(&self, id: &str, model: &str) -> Value {
        json!({
            "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": self.usage.with_output(1),
        })
    }

    /// The complete message, for requests without streaming.
    pub(super) fn complete(&self, mut message: Value) -> Value {
        message["content"] = self.blocks.iter().map(Block::complete).collect();
        message["stop_reason"] = self.stop_reason().into();
        message["usage"] = self.usage.with_output(self.usage.output);
        message
    }
}

impl Usage {
    pub(super) fn with_output(self, output: u64) -> Value {
        json!({
            "input_tokens": self.input, "output_tokens": output,
            "cache_creation_input_tokens": self.cache_creation, "cache_read_input_tokens": self.cache_read,
        })
    }
}

impl Block {
    fn complete(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
            Self::ToolUse { id, name, input } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }

    /// The block at its start, without content.
    pub(super) fn opening(&self) -> Value {
        match self {
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::ToolUse { id, name, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        }
    }

    /// The content, word by word.
    pub(super) fn deltas(&self) -> Vec<Value> {
        match self {
            Self::Text(text) => words(text).map(|word| json!({"type": "text_delta", "text": word})).collect(),
            Self::Thinking(text) => words(text)
                .map(|word| json!({"type": "thinking_delta", "thinking": word}))
                .chain([json!({"type": "signature_delta", "signature": SIGNATURE})])
                .collect(),
            Self::ToolUse { input, .. } => {
                let json = input.to_string();
                let middle = json.floor_char_boundary(json.len() / 2);
                let parts = ["", &json[..middle], &json[middle..]];
                parts.map(|part| json!({"type": "input_json_delta", "partial_json": part})).into()
            }
        }
    }
}

/// Not verified by the fake.
const SIGNATURE: &str = "c2lnbmF0dXJl";

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}
