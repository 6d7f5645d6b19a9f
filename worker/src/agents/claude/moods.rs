//! Whether the CLI has something to do. A `result` is not enough: what was queued starts a turn of its own, and so does
//! a background task when it ends.

use super::frame::{Fields, Frame};
use crate::agents::Mood;
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long after the end of a background task its turn may begin. 75 ms were seen.
const TURN_AFTER_TASK: Duration = Duration::from_secs(3);

/// What is under way.
#[derive(Debug)]
pub struct Moods {
    /// The model or a tool works.
    in_turn: bool,
    /// What was said and is not done with.
    said: HashSet<Uuid>,
    /// Whether this version tells how far what was said has come. Otherwise an echo has to do.
    has_lifecycle: bool,
    /// Tasks in the background.
    tasks: HashSet<String>,
    /// Until when what runs in the background counts as work. A build ends; a dev server does not.
    until: Option<Instant>,
    /// How long that is.
    patience: Duration,
    last: Option<Mood>,
}

impl Moods {
    /// Background tasks count as work for so long after a turn.
    pub fn new(patience: Duration) -> Self {
        Self {
            in_turn: false,
            said: HashSet::new(),
            has_lifecycle: false,
            tasks: HashSet::new(),
            until: None,
            patience,
            last: None,
        }
    }

    /// Something was said to it. The mood, if it is another now: it has something to do before it says so.
    pub fn said(&mut self, uuid: Uuid) -> Option<Mood> {
        self.said.insert(uuid);
        self.changed()
    }

    /// This was taken back. The mood, if it is another now.
    pub fn taken_back(&mut self, uuids: &[Uuid]) -> Option<Mood> {
        self.said.retain(|said| !uuids.contains(said));
        self.changed()
    }

    /// When the mood may change without a frame.
    pub fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| !self.in_turn && self.said.is_empty())
    }

    /// Time has passed. The mood, if it is another now.
    pub fn waited(&mut self, now: Instant) -> Option<Mood> {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
        }
        self.changed()
    }

    /// A frame came. The mood, if it is another now.
    pub fn heard(&mut self, frame: &Frame, now: Instant) -> Option<Mood> {
        match frame {
            Frame::Assistant(_) | Frame::Stream(_) => self.begin(),
            Frame::Result(result) => {
                self.in_turn = false;
                if !self.tasks.is_empty() {
                    self.until = Some(now + self.patience);
                }
                for answered in &result.user_message_uuids {
                    self.said.remove(answered);
                }
            }
            Frame::Lifecycle(lifecycle) => {
                self.has_lifecycle = true;
                match lifecycle.state.as_str() {
                    "completed" | "cancelled" | "discarded" | "refused" => {
                        self.said.remove(&lifecycle.command_uuid);
                    }
                    "started" => self.begin(),
                    _ => {}
                }
            }
            Frame::User(message) if message.is_replay && !self.has_lifecycle => {
                if message.uuid.parse().is_ok_and(|uuid: Uuid| self.said.remove(&uuid)) {
                    self.begin();
                }
            }
            Frame::System(fields) => self.system(fields, now),
            _ => return None,
        }
        self.changed()
    }

    fn begin(&mut self) {
        self.in_turn = true;
        self.until = None;
    }

    fn system(&mut self, fields: &Fields, now: Instant) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("subtype") {
            "init" => self.begin(),
            "task_started" if fields.get("is_backgrounded") == Some(&Value::Bool(true)) => {
                self.tasks.insert(text("task_id").to_owned());
            }
            "task_notification" if self.tasks.remove(text("task_id")) => self.ended(now),
            "background_tasks_changed" => {
                let tasks = fields.get("tasks").and_then(Value::as_array).into_iter().flatten();
                let tasks: HashSet<String> =
                    tasks.filter_map(|task| Some(task["task_id"].as_str()?.to_owned())).collect();
                if !self.tasks.is_subset(&tasks) {
                    self.ended(now);
                }
                self.tasks = tasks;
            }
            _ => {}
        }
    }

    /// A task in the background has ended: a turn may begin by itself.
    fn ended(&mut self, now: Instant) {
        self.until = self.until.max(Some(now + TURN_AFTER_TASK));
    }

    fn changed(&mut self) -> Option<Mood> {
        let working = self.in_turn || !self.said.is_empty() || self.until.is_some();
        let mood = if working { Mood::Working } else { Mood::Idle };
        (self.last.replace(mood) != Some(mood)).then_some(mood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn frame(value: &Value) -> Frame {
        Frame::parse(&value.to_string())
    }

    /// After each of these frames, the mood if it has changed.
    fn moods(moods: &mut Moods, frames: &[Value], now: Instant) -> Vec<Option<Mood>> {
        frames.iter().map(|value| moods.heard(&frame(value), now)).collect()
    }

    #[test]
    fn what_was_said_and_what_runs_in_the_background_is_work() {
        let now = Instant::now();
        let uuid = Uuid::from_u128(1);
        let mut these = Moods::new(Duration::from_secs(60));
        these.said(uuid);
        let result = json!({"type": "result", "subtype": "success", "user_message_uuids": []});
        let tasks =
            |tasks: Value| json!({"type": "system", "subtype": "background_tasks_changed", "tasks": tasks});
        let frames = [
            json!({"type": "command_lifecycle", "command_uuid": uuid, "state": "started"}),
            tasks(json!([{"task_id": "t"}])),
            result.clone(),
            json!({"type": "command_lifecycle", "command_uuid": uuid, "state": "completed"}),
            tasks(json!([])),
            json!({"type": "system", "subtype": "init"}),
            result,
        ];
        let expected = [None, None, None, None, None, None, Some(Mood::Idle)];
        assert_eq!(moods(&mut these, &frames, now), expected);
    }

    #[test]
    fn what_is_said_is_work_until_it_is_done_with_or_taken_back() {
        let now = Instant::now();
        let mut these = Moods::new(Duration::from_secs(60));
        let uuids = [Uuid::from_u128(1), Uuid::from_u128(2)];
        assert_eq!(these.said(uuids[0]), Some(Mood::Working), "also before it says anything");
        assert_eq!(these.said(uuids[1]), None);
        let refused = json!({"type": "command_lifecycle", "command_uuid": uuids[0], "state": "refused"});
        assert_eq!(moods(&mut these, &[refused], now), [None]);
        assert_eq!(these.taken_back(&[uuids[1]]), Some(Mood::Idle));
    }

    #[test]
    fn a_version_without_a_lifecycle_comes_to_rest_too() {
        let now = Instant::now();
        let mut these = Moods::new(Duration::from_secs(60));
        let uuid = Uuid::from_u128(1);
        these.said(uuid);
        let echo = json!({"type": "user", "isReplay": true, "uuid": uuid, "message": {"content": "do it"}});
        let result = json!({"type": "result", "subtype": "success"});
        assert_eq!(moods(&mut these, &[echo, result], now), [None, Some(Mood::Idle)]);
    }

    #[test]
    fn a_server_in_the_background_does_not_keep_an_agent_busy_for_ever() {
        let now = Instant::now();
        let mut these = Moods::new(Duration::from_secs(60));
        let frames = [
            json!({"type": "system", "subtype": "init"}),
            json!({"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "server"}]}),
            json!({"type": "result", "subtype": "success"}),
        ];
        assert_eq!(moods(&mut these, &frames, now), [Some(Mood::Working), None, None]);
        let deadline = these.deadline().unwrap();
        assert_eq!(deadline, now + Duration::from_secs(60));
        assert_eq!(these.waited(deadline), Some(Mood::Idle));
    }
}
