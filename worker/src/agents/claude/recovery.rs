//! Recovers lost output from the CLI's transcript after a crash of the worker.
//!
//! The CLI prints a frame and writes a transcript entry with the same id. When a worker is killed, unread frames in the
//! pipe are lost, but the entries are not. Replaying the whole transcript is safe: the outbox deduplicates by event id.

use super::frame::{Content, Frame, Message};
use super::normalizer::Normalizer;
use crate::agents::{AgentOutput, LastTurn};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use uuid::Uuid;

/// The result of replaying a transcript.
#[derive(Debug)]
pub struct Replay {
    /// The state to continue with.
    pub normalizer: Normalizer,
    pub outputs: Vec<AgentOutput>,
    /// Messages that the agent has read.
    pub read_messages: HashSet<Uuid>,
    /// The texts of those messages.
    pub prompts: Vec<String>,
    pub last_turn: LastTurn,
}

/// Prefix of the CLI's note about an interrupted turn.
const INTERRUPT_NOTE: &str = "[Request interrupted by user";

/// Replays the lines of a transcript.
pub fn recover<'a>(normalizer: Normalizer, lines: impl IntoIterator<Item = &'a str>) -> Replay {
    let mut recovered = Replay {
        normalizer,
        outputs: Vec::new(),
        read_messages: HashSet::new(),
        prompts: Vec::new(),
        last_turn: LastTurn::None,
    };
    for line in lines {
        // A crash may leave a truncated last line.
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        recovered.apply(entry);
    }
    recovered
}

impl Replay {
    fn apply(&mut self, entry: Value) {
        if entry["type"] == "cost-state" {
            // Written on a regular exit. A CLI that was killed resumes from the last one.
            self.normalizer.set_initial_cost(entry["totalCostUSD"].as_f64().unwrap_or_default());
        }
        // The script player has no stop reasons and marks the end of a turn explicitly.
        if entry["scriptTurnEnd"] == true && self.last_turn == LastTurn::InProgress {
            self.last_turn = LastTurn::Completed;
        }
        let failed = entry["isApiErrorMessage"] == true;
        let Some(frame) = frame(entry) else { return };
        match &frame {
            Frame::Assistant(_) if failed => self.last_turn = LastTurn::Failed,
            Frame::Assistant(message) if message.aborted => self.last_turn = LastTurn::Interrupted,
            Frame::Assistant(message) => {
                // A tool call may follow a text and not be written yet, so only the stop reason ends the turn.
                let stop_reason = message.message.stop_reason.as_deref();
                let is_continued = matches!(stop_reason, None | Some("tool_use" | "pause_turn"));
                self.last_turn = if is_continued { LastTurn::InProgress } else { LastTurn::Completed };
            }
            Frame::User(message) => {
                let content = &message.message.content;
                if message.is_replay || contains_tool_result(content) {
                    self.last_turn = LastTurn::InProgress;
                } else if is_interrupt_note(content) {
                    self.last_turn = LastTurn::Interrupted;
                }
                if message.is_replay {
                    self.read_messages.extend(message.uuid.parse::<Uuid>().ok());
                    if let Content::Text(text) = &message.message.content {
                        self.prompts.push(text.clone());
                    }
                }
            }
            _ => {}
        }
        self.outputs.extend(self.normalizer.apply(frame));
    }
}

fn contains_tool_result(content: &Content) -> bool {
    matches!(content, Content::Blocks(blocks) if blocks.iter().any(|block| block["type"] == "tool_result"))
}

fn is_interrupt_note(content: &Content) -> bool {
    let interrupted =
        |block: &Value| block["text"].as_str().is_some_and(|text| text.starts_with(INTERRUPT_NOTE));
    matches!(content, Content::Blocks(blocks) if blocks.iter().any(interrupted))
}

/// The frame that corresponds to an entry.
fn frame(mut entry: Value) -> Option<Frame> {
    let flag = |name: &str| entry[name].as_bool().unwrap_or_default();
    // Sub-agents have their own transcripts. The other flags mark the CLI's notes to the model.
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
            // Prompts have string content; the CLI's own notes have blocks.
            message.is_replay = matches!(message.message.content, Content::Text(_));
            Some(Frame::User(message))
        }
        _ => None,
    }
}

/// A message that arrived while a tool was running is an attachment with our message id.
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

/// Number of lines that a forked session has from its original. The CLI copies entries with their UUIDs.
pub(super) fn forked_lines(original: &Path, lines: &[&str]) -> usize {
    #[derive(Deserialize)]
    struct Entry {
        uuid: Option<Uuid>,
    }
    let uuid = |line: &str| serde_json::from_str::<Entry>(line).ok()?.uuid;
    let original = std::fs::read(original).unwrap_or_default();
    let copied: HashSet<Uuid> = String::from_utf8_lossy(&original).lines().filter_map(uuid).collect();
    lines
        .iter()
        .rposition(|line| uuid(line).is_some_and(|uuid| copied.contains(&uuid)))
        .map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::PathBuf;

    fn last_turn(entries: &[Value]) -> LastTurn {
        let lines: Vec<String> = entries.iter().map(Value::to_string).collect();
        recover(Normalizer::new(PathBuf::from("/w")), lines.iter().map(String::as_str)).last_turn
    }

    fn agent(block: Value) -> Value {
        json!({"type": "assistant", "uuid": "a", "message": {"id": "m", "content": [block]}})
    }

    fn user(content: Value) -> Value {
        json!({"type": "user", "uuid": "u", "message": {"content": content}})
    }

    #[test]
    fn last_turn_follows_from_the_last_entry() {
        let text_with = |stop_reason: Value| {
            let mut text = agent(json!({"type": "text", "text": "Done."}));
            text["message"]["stop_reason"] = stop_reason;
            text
        };
        let text = || text_with("end_turn".into());
        let result = || user(json!([{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]));
        let interrupted = |why: &str| {
            user(json!([{"type": "text", "text": format!("[Request interrupted by user{why}]")}]))
        };
        let mut aborted = text();
        aborted["isAbortedMidStream"] = true.into();
        let mut error = text();
        error["isApiErrorMessage"] = true.into();
        let mut meta = user(json!("a note"));
        meta["isMeta"] = true.into();
        let mut summary = user(json!("summary of the conversation"));
        summary["isCompactSummary"] = true.into();
        let queued = json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "and this", "source_uuid": "q"}});
        let cases = [
            (vec![], LastTurn::None),
            (vec![json!({"type": "mode", "mode": "normal"})], LastTurn::None),
            (vec![user(json!("do it"))], LastTurn::InProgress),
            (
                vec![user(json!("do it")), agent(json!({"type": "thinking", "thinking": "hm"}))],
                LastTurn::InProgress,
            ),
            (
                vec![text(), agent(json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}}))],
                LastTurn::InProgress,
            ),
            (vec![text(), result()], LastTurn::InProgress),
            (vec![text(), queued], LastTurn::InProgress),
            (vec![result(), text()], LastTurn::Completed),
            (vec![result(), text_with(Value::Null)], LastTurn::InProgress),
            (vec![result(), text_with("tool_use".into())], LastTurn::InProgress),
            (
                vec![text_with(Value::Null), json!({"type": "cost-state", "scriptTurnEnd": true})],
                LastTurn::Completed,
            ),
            (vec![text(), meta, summary], LastTurn::Completed),
            (vec![result(), aborted], LastTurn::Interrupted),
            (vec![text(), interrupted("")], LastTurn::Interrupted),
            (vec![result(), interrupted(" for tool use")], LastTurn::Interrupted),
            (vec![user(json!("do it")), error], LastTurn::Failed),
        ];
        for (entries, expected) in cases {
            assert_eq!(last_turn(&entries), expected, "{entries:?}");
        }
    }
}
