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
    /// Where it leaves off.
    pub left: Left,
}

/// Where a record leaves off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Left {
    /// Nothing was said in it.
    #[default]
    Nothing,
    /// In the middle of a turn.
    UnderWay,
    /// After a turn that somebody stopped.
    Interrupted,
    /// After a turn that ended with what the agent had to say.
    Finished,
    /// After a turn that ended because the model could not be asked.
    Failed,
}

/// How the CLI's own remark begins that a turn was stopped.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Reads a record, line by line.
pub fn recover<'a>(story: Story, lines: impl IntoIterator<Item = &'a str>) -> Recovered {
    let (tells, heard, prompts) = (Vec::new(), HashSet::new(), Vec::new());
    let mut recovered = Recovered { story, tells, heard, prompts, left: Left::Nothing };
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
        // A script says one text after the other, and notes where its turn ends.
        if entry["scriptTurnEnd"] == true && self.left == Left::UnderWay {
            self.left = Left::Finished;
        }
        let failed = entry["isApiErrorMessage"] == true;
        let Some(frame) = frame(entry) else { return };
        match &frame {
            Frame::Assistant(_) if failed => self.left = Left::Failed,
            Frame::Assistant(message) if message.aborted => self.left = Left::Interrupted,
            Frame::Assistant(message) => {
                // A text may stand before a tool that was not written down yet: the message says whether it is the end.
                let stop_reason = message.message.stop_reason.as_deref();
                let goes_on = matches!(stop_reason, None | Some("tool_use" | "pause_turn"));
                self.left = if goes_on { Left::UnderWay } else { Left::Finished };
            }
            Frame::User(message) => {
                let content = &message.message.content;
                if message.is_replay || holds_result(content) {
                    self.left = Left::UnderWay;
                } else if says_interrupted(content) {
                    self.left = Left::Interrupted;
                }
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

fn says_interrupted(content: &Content) -> bool {
    let interrupted =
        |block: &Value| block["text"].as_str().is_some_and(|text| text.starts_with(INTERRUPTED));
    matches!(content, Content::Blocks(blocks) if blocks.iter().any(interrupted))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::PathBuf;

    fn left(entries: &[Value]) -> Left {
        let lines: Vec<String> = entries.iter().map(Value::to_string).collect();
        recover(Story::new(PathBuf::from("/w")), lines.iter().map(String::as_str)).left
    }

    fn agent(block: Value) -> Value {
        json!({"type": "assistant", "uuid": "a", "message": {"id": "m", "content": [block]}})
    }

    fn user(content: Value) -> Value {
        json!({"type": "user", "uuid": "u", "message": {"content": content}})
    }

    #[test]
    fn where_a_record_leaves_off_is_what_its_last_entry_says() {
        let spoken = |stop_reason: Value| {
            let mut text = agent(json!({"type": "text", "text": "Done."}));
            text["message"]["stop_reason"] = stop_reason;
            text
        };
        let text = || spoken("end_turn".into());
        let result = || user(json!([{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]));
        let stopped = |why: &str| {
            user(json!([{"type": "text", "text": format!("[Request interrupted by user{why}]")}]))
        };
        let mut aborted = text();
        aborted["isAbortedMidStream"] = true.into();
        let mut error = text();
        error["isApiErrorMessage"] = true.into();
        let mut meta = user(json!("a note"));
        meta["isMeta"] = true.into();
        let mut summary = user(json!("what was said before"));
        summary["isCompactSummary"] = true.into();
        let queued = json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "and this", "source_uuid": "q"}});
        let cases = [
            (vec![], Left::Nothing),
            (vec![json!({"type": "mode", "mode": "normal"})], Left::Nothing),
            (vec![user(json!("do it"))], Left::UnderWay),
            (
                vec![user(json!("do it")), agent(json!({"type": "thinking", "thinking": "hm"}))],
                Left::UnderWay,
            ),
            (
                vec![text(), agent(json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}}))],
                Left::UnderWay,
            ),
            (vec![text(), result()], Left::UnderWay),
            (vec![text(), queued], Left::UnderWay),
            (vec![result(), text()], Left::Finished),
            (vec![result(), spoken(Value::Null)], Left::UnderWay),
            (vec![result(), spoken("tool_use".into())], Left::UnderWay),
            (vec![spoken(Value::Null), json!({"type": "cost-state", "scriptTurnEnd": true})], Left::Finished),
            (vec![text(), meta, summary], Left::Finished),
            (vec![result(), aborted], Left::Interrupted),
            (vec![text(), stopped("")], Left::Interrupted),
            (vec![result(), stopped(" for tool use")], Left::Interrupted),
            (vec![user(json!("do it")), error], Left::Failed),
        ];
        for (entries, expected) in cases {
            assert_eq!(left(&entries), expected, "{entries:?}");
        }
    }
}
