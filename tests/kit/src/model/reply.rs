//! What a scripted model says.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// One answer of the model.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) blocks: Vec<Block>,
    pub(super) usage: Usage,
    /// The time between two words.
    pub(super) pace: Duration,
    /// One permit for each word.
    pub(super) gate: Option<Arc<Semaphore>>,
    pub(super) error: Option<Failure>,
    stop_reason: Option<&'static str>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// What it says.
    Text(String),
    /// What it thinks.
    Thinking(String),
    /// A tool that it wants used.
    ToolUse {
        /// Its name for this use: `toolu_0001` if the script does not say.
        id: String,
        /// Which tool.
        name: String,
        /// With what.
        input: Value,
    },
}

/// What an answer is billed for, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Read at the full price.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Put into the cache.
    pub cache_creation: u64,
    /// Read from the cache.
    pub cache_read: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_creation: 0, cache_read: 0 }
    }
}

/// An answer that is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) retry_after_secs: Option<u64>,
}

impl Reply {
    /// Says this.
    pub fn text(text: &str) -> Self {
        Self::default().and_text(text)
    }

    /// Thinks this.
    pub fn thinking(text: &str) -> Self {
        Self { blocks: vec![Block::Thinking(text.to_owned())], ..Self::default() }
    }

    /// Wants this tool used.
    pub fn tool(name: &str, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// Fails, with the seconds after which the agent may try again.
    pub fn error(status: u16, retry_after_secs: Option<u64>) -> Self {
        Self { error: Some(Failure { status, retry_after_secs }), ..Self::default() }
    }

    /// And says this.
    #[must_use]
    pub fn and_text(mut self, text: &str) -> Self {
        self.blocks.push(Block::Text(text.to_owned()));
        self
    }

    /// And wants this tool used.
    #[must_use]
    pub fn and_tool(mut self, name: &str, input: Value) -> Self {
        self.blocks.push(Block::ToolUse { id: String::new(), name: name.to_owned(), input });
        self
    }

    /// With so much time between two words.
    #[must_use]
    pub fn slowly(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// Says a word only for a permit, which is used up.
    #[must_use]
    pub fn gated(mut self, gate: Arc<Semaphore>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// For so many tokens.
    #[must_use]
    pub fn billed(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Ends for this reason instead of `end_turn` or `tool_use`.
    #[must_use]
    pub fn stopped(mut self, reason: &'static str) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Uses of tools have names that differ within a session.
    pub(super) fn name_tools(&mut self, used: &mut u32) {
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

    /// The message as it begins: without content.
    pub(super) fn message(&self, id: &str, model: &str) -> Value {
        json!({
            "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": self.usage.with_output(1),
        })
    }

    /// The message as it ends, for who does not want it streamed.
    pub(super) fn whole(&self, mut message: Value) -> Value {
        message["content"] = self.blocks.iter().map(Block::whole).collect();
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
    fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}),
            Self::ToolUse { id, name, input } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }

    /// The block as it begins.
    pub(super) fn opening(&self) -> Value {
        match self {
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::ToolUse { id, name, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        }
    }

    /// The rest of it, word by word.
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

/// Nobody here checks it.
const SIGNATURE: &str = "c2lnbmF0dXJl";

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}
