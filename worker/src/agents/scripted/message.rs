//! What the assistant writes: messages of blocks, told word by word and then whole.

use super::frames;
use super::player::{Leave, Player};
use super::steps::Played;
use serde_json::{Value, json};

impl Player {
    /// A message of one text that is not in the script.
    pub(super) async fn say(&mut self, text: &str, next: Option<usize>) -> Result<Played, Leave> {
        let played = self.write_block("text", text, next).await?;
        if played.is_ok() {
            self.close_message("end_turn").await?;
        }
        Ok(played)
    }

    /// Writes a text word by word.
    pub(super) async fn write_block(
        &mut self,
        kind: &str,
        text: &str,
        next: Option<usize>,
    ) -> Result<Played, Leave> {
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
        let mut played = Ok(());
        for word in words {
            self.partial_block("content_block_delta", json!({"delta": {"type": delta, kind: word}})).await?;
            written += word.len();
            played = self.rest(self.script.header.word_ms).await?;
            if played.is_err() {
                break;
            }
        }
        self.turn.words += text[..written].split_whitespace().count() as u64;
        let aborted = played.is_err() && written < text.len();
        let mut block = empty;
        block[kind] = text[..written].into();
        self.put_block(block, next, aborted).await?;
        if !aborted {
            self.partial_block("content_block_stop", json!({})).await?;
        }
        self.turn.blocks += 1;
        if kind == "text" {
            text[..written].clone_into(&mut self.turn.last_text);
        }
        self.mirror().await?;
        Ok(played)
    }

    /// Writes a whole block down, then prints it. The result is its name.
    pub(super) async fn put_block(
        &mut self,
        block: Value,
        next: Option<usize>,
        aborted: bool,
    ) -> Result<String, Leave> {
        let id = self.open_message().await?;
        let uuid = frames::name();
        let stop_reason = if block["type"] == "tool_use" { Some("tool_use") } else { None };
        let message = frames::message(self, &id, block, None);
        let mut kept = message.clone();
        kept["stop_reason"] = stop_reason.into();
        let mut entry = json!({"type": "assistant", "message": kept, "apiBlockIndex": self.turn.blocks});
        if let Some(next) = next {
            entry["scriptNext"] = next.into();
        }
        let mut frame = frames::assistant(self, &uuid, message, None);
        if aborted {
            entry["isAbortedMidStream"] = true.into();
            frame["aborted"] = true.into();
        }
        self.transcript.link(&uuid, entry)?;
        self.replay_prompt().await?;
        if let (0, Some(said)) = (self.turn.blocks, self.turn.said.first()) {
            frame["user_message_uuid"] = said.as_str().into();
            frame["user_message_uuids"] = json!(self.turn.said);
        }
        self.stamp(&mut frame);
        self.send(&frame).await?;
        Ok(uuid)
    }

    /// Begins a message, unless one is being written.
    pub(super) async fn open_message(&mut self) -> Result<String, Leave> {
        if let Some(id) = &self.turn.message {
            return Ok(id.clone());
        }
        let id = format!("msg_{}", frames::name().replace('-', ""));
        self.turn.message = Some(id.clone());
        self.turn.blocks = 0;
        self.turn.messages += 1;
        let message = json!({"id": id, "type": "message", "role": "assistant", "content": [],
            "model": self.arguments.model, "stop_reason": null, "stop_sequence": null,
            "usage": frames::first_usage()});
        self.partial(json!({"type": "message_start", "message": message})).await?;
        Ok(id)
    }

    /// Ends the message that is being written, if there is one.
    pub(super) async fn close_message(&mut self, stop_reason: &str) -> Result<(), Leave> {
        if self.turn.message.take().is_none() {
            return Ok(());
        }
        self.partial(json!({"type": "message_delta", "usage": {"output_tokens": self.turn.words},
            "delta": {"stop_reason": stop_reason, "stop_sequence": null}}))
            .await?;
        self.partial(json!({"type": "message_stop"})).await
    }

    /// Prints a piece of what is being written, if that is wanted.
    pub(super) async fn partial(&mut self, event: Value) -> Result<(), Leave> {
        if !self.arguments.partial_messages {
            return Ok(());
        }
        let frame = frames::stream(self, event, None);
        self.send(&frame).await
    }

    /// Begins, or ends, a block of the message.
    pub(super) async fn partial_block(&mut self, kind: &str, more: Value) -> Result<(), Leave> {
        let mut event = more;
        event["type"] = kind.into();
        event["index"] = self.turn.blocks.into();
        self.partial(event).await
    }
}
