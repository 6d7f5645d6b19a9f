//! Assistant messages: blocks that are streamed word by word and then printed completely.

use super::frames;
use super::player::{Exit, Player};
use super::steps::StepResult;
use serde_json::{Value, json};

impl Player {
    /// Writes a message with one text block that is not in the script.
    pub(super) async fn write_message(
        &mut self,
        text: &str,
        next: Option<usize>,
    ) -> Result<StepResult, Exit> {
        let result = self.write_block("text", text, next).await?;
        if result.is_ok() {
            self.close_message("end_turn").await?;
        }
        Ok(result)
    }

    /// Streams a text word by word.
    pub(super) async fn write_block(
        &mut self,
        kind: &str,
        text: &str,
        next: Option<usize>,
    ) -> Result<StepResult, Exit> {
        self.open_message().await?;
        let delta = if kind == "text" { "text_delta" } else { "thinking_delta" };
        let mut empty = json!({"type": kind, kind: ""});
        if kind == "thinking" {
            empty["signature"] = "".into();
        }
        self.partial_block("content_block_start", json!({"content_block": empty})).await?;
        let words: Vec<&str> = match self.script.header.word_ms {
            0 => vec![text],
            _ => text.split_inclusive(char::is_whitespace).collect(),
        };
        let mut written = 0;
        let mut result = Ok(());
        for word in words {
            self.partial_block("content_block_delta", json!({"delta": {"type": delta, kind: word}})).await?;
            written += word.len();
            result = self.wait(self.script.header.word_ms).await?;
            if result.is_err() {
                break;
            }
        }
        self.turn.words += text[..written].split_whitespace().count() as u64;
        let aborted = result.is_err() && written < text.len();
        let mut block = empty;
        block[kind] = text[..written].into();
        self.emit_block(block, next, aborted).await?;
        if !aborted {
            self.partial_block("content_block_stop", json!({})).await?;
        }
        self.turn.blocks += 1;
        if kind == "text" {
            text[..written].clone_into(&mut self.turn.last_text);
        }
        self.mirror().await?;
        Ok(result)
    }

    /// Appends a complete block to the transcript, then prints it. Returns its id.
    pub(super) async fn emit_block(
        &mut self,
        block: Value,
        next: Option<usize>,
        aborted: bool,
    ) -> Result<String, Exit> {
        let id = self.open_message().await?;
        let uuid = frames::new_id();
        let stop_reason = if block["type"] == "tool_use" { Some("tool_use") } else { None };
        let message = frames::message(self, &id, block, None);
        let mut stored = message.clone();
        stored["stop_reason"] = stop_reason.into();
        let mut entry = json!({"type": "assistant", "message": stored, "apiBlockIndex": self.turn.blocks});
        if let Some(next) = next {
            entry["scriptNext"] = next.into();
        }
        let mut frame = frames::assistant(self, &uuid, message, None);
        if aborted {
            entry["isAbortedMidStream"] = true.into();
            frame["aborted"] = true.into();
        }
        self.transcript.append_message(&uuid, entry)?;
        self.replay_prompt().await?;
        if let (0, Some(id)) = (self.turn.blocks, self.turn.message_ids.first()) {
            frame["user_message_uuid"] = id.as_str().into();
            frame["user_message_uuids"] = json!(self.turn.message_ids);
        }
        self.mark_resumed(&mut frame);
        self.send(&frame).await?;
        Ok(uuid)
    }

    /// Starts a message unless one is open. Returns its id.
    pub(super) async fn open_message(&mut self) -> Result<String, Exit> {
        if let Some(id) = &self.turn.message {
            return Ok(id.clone());
        }
        let id = format!("msg_{}", frames::new_id().replace('-', ""));
        self.turn.message = Some(id.clone());
        self.turn.blocks = 0;
        self.turn.messages += 1;
        let message = json!({"id": id, "type": "message", "role": "assistant", "content": [],
            "model": self.arguments.model, "stop_reason": null, "stop_sequence": null,
            "usage": frames::first_usage()});
        self.partial(json!({"type": "message_start", "message": message})).await?;
        Ok(id)
    }

    /// Ends the open message, if there is one.
    pub(super) async fn close_message(&mut self, stop_reason: &str) -> Result<(), Exit> {
        if self.turn.message.take().is_none() {
            return Ok(());
        }
        self.partial(json!({"type": "message_delta", "usage": {"output_tokens": self.turn.words},
            "delta": {"stop_reason": stop_reason, "stop_sequence": null}}))
            .await?;
        self.partial(json!({"type": "message_stop"})).await
    }

    /// Prints a streaming event, if partial messages are enabled.
    pub(super) async fn partial(&mut self, event: Value) -> Result<(), Exit> {
        if !self.arguments.partial_messages {
            return Ok(());
        }
        let frame = frames::stream(self, event, None);
        self.send(&frame).await
    }

    /// Prints a streaming event of the current block.
    pub(super) async fn partial_block(&mut self, kind: &str, fields: Value) -> Result<(), Exit> {
        let mut event = fields;
        event["type"] = kind.into();
        event["index"] = self.turn.blocks.into();
        self.partial(event).await
    }
}
