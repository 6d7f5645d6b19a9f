//! Tracks whether the CLI is working or idle. A `result` does not mean idle: queued messages and finished background
//! tasks start further turns.

use super::frame::{Fields, Frame};
use crate::agents::AgentActivity;
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long after the end of a background task its turn may start. Observed: 75 ms.
const TURN_AFTER_TASK: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct ActivityTracker {
    in_turn: bool,
    /// Messages that are not finished.
    pending: HashSet<Uuid>,
    /// Whether this version sends `command_lifecycle`. Otherwise the echo of a message marks its start.
    has_lifecycle: bool,
    background_tasks: HashSet<String>,
    /// Until when background tasks count as work. A build ends, but a dev server does not.
    background_deadline: Option<Instant>,
    background_timeout: Duration,
    last: Option<AgentActivity>,
}

impl ActivityTracker {
    /// Background tasks count as work for `background_timeout` after a turn.
    pub fn new(background_timeout: Duration) -> Self {
        Self {
            in_turn: false,
            pending: HashSet::new(),
            has_lifecycle: false,
            background_tasks: HashSet::new(),
            background_deadline: None,
            background_timeout,
            last: None,
        }
    }

    /// A message was sent, which counts as work before the CLI confirms it. Returns the activity if it changed.
    pub fn message_sent(&mut self, uuid: Uuid) -> Option<AgentActivity> {
        self.pending.insert(uuid);
        self.changed()
    }

    /// Messages were cancelled. Returns the activity if it changed.
    pub fn messages_cancelled(&mut self, uuids: &[Uuid]) -> Option<AgentActivity> {
        self.pending.retain(|uuid| !uuids.contains(uuid));
        self.changed()
    }

    /// When the activity may change without a frame.
    pub fn deadline(&self) -> Option<Instant> {
        self.background_deadline.filter(|_| !self.in_turn && self.pending.is_empty())
    }

    /// Expires the deadline. Returns the activity if it changed.
    pub fn tick(&mut self, now: Instant) -> Option<AgentActivity> {
        if self.background_deadline.is_some_and(|deadline| deadline <= now) {
            self.background_deadline = None;
        }
        self.changed()
    }

    /// Applies a frame. Returns the activity if it changed.
    pub fn apply(&mut self, frame: &Frame, now: Instant) -> Option<AgentActivity> {
        match frame {
            Frame::Assistant(_) | Frame::Stream(_) => self.begin_turn(),
            Frame::Result(result) => {
                self.in_turn = false;
                if !self.background_tasks.is_empty() {
                    self.background_deadline = Some(now + self.background_timeout);
                }
                for uuid in &result.user_message_uuids {
                    self.pending.remove(uuid);
                }
            }
            Frame::Lifecycle(lifecycle) => {
                self.has_lifecycle = true;
                match lifecycle.state.as_str() {
                    "completed" | "cancelled" | "discarded" | "refused" => {
                        self.pending.remove(&lifecycle.command_uuid);
                    }
                    "started" => self.begin_turn(),
                    _ => {}
                }
            }
            Frame::User(message) if message.is_replay && !self.has_lifecycle => {
                if message.uuid.parse().is_ok_and(|uuid: Uuid| self.pending.remove(&uuid)) {
                    self.begin_turn();
                }
            }
            Frame::System(fields) => self.system(fields, now),
            _ => return None,
        }
        self.changed()
    }

    fn begin_turn(&mut self) {
        self.in_turn = true;
        self.background_deadline = None;
    }

    fn system(&mut self, fields: &Fields, now: Instant) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("subtype") {
            "init" => self.begin_turn(),
            "task_started" if fields.get("is_backgrounded") == Some(&Value::Bool(true)) => {
                self.background_tasks.insert(text("task_id").to_owned());
            }
            "task_notification" if self.background_tasks.remove(text("task_id")) => self.task_ended(now),
            "background_tasks_changed" => {
                let tasks = fields.get("tasks").and_then(Value::as_array).into_iter().flatten();
                let tasks: HashSet<String> =
                    tasks.filter_map(|task| Some(task["task_id"].as_str()?.to_owned())).collect();
                if !self.background_tasks.is_subset(&tasks) {
                    self.task_ended(now);
                }
                self.background_tasks = tasks;
            }
            _ => {}
        }
    }

    /// A background task has ended, so a turn may start by itself.
    fn task_ended(&mut self, now: Instant) {
        self.background_deadline = self.background_deadline.max(Some(now + TURN_AFTER_TASK));
    }

    fn changed(&mut self) -> Option<AgentActivity> {
        let working = self.in_turn || !self.pending.is_empty() || self.background_deadline.is_some();
        let activity = if working { AgentActivity::Working } else { AgentActivity::Idle };
        (self.last.replace(activity) != Some(activity)).then_some(activity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn frame(value: &Value) -> Frame {
        Frame::parse(&value.to_string())
    }

    /// The result of each frame.
    fn apply(tracker: &mut ActivityTracker, frames: &[Value], now: Instant) -> Vec<Option<AgentActivity>> {
        frames.iter().map(|value| tracker.apply(&frame(value), now)).collect()
    }

    #[test]
    fn pending_messages_and_background_tasks_count_as_work() {
        let now = Instant::now();
        let uuid = Uuid::from_u128(1);
        let mut tracker = ActivityTracker::new(Duration::from_secs(60));
        tracker.message_sent(uuid);
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
        let expected = [None, None, None, None, None, None, Some(AgentActivity::Idle)];
        assert_eq!(apply(&mut tracker, &frames, now), expected);
    }

    #[test]
    fn message_counts_as_work_until_finished_or_cancelled() {
        let now = Instant::now();
        let mut tracker = ActivityTracker::new(Duration::from_secs(60));
        let uuids = [Uuid::from_u128(1), Uuid::from_u128(2)];
        assert_eq!(tracker.message_sent(uuids[0]), Some(AgentActivity::Working), "before the first frame");
        assert_eq!(tracker.message_sent(uuids[1]), None);
        let refused = json!({"type": "command_lifecycle", "command_uuid": uuids[0], "state": "refused"});
        assert_eq!(apply(&mut tracker, &[refused], now), [None]);
        assert_eq!(tracker.messages_cancelled(&[uuids[1]]), Some(AgentActivity::Idle));
    }

    #[test]
    fn version_without_lifecycle_becomes_idle() {
        let now = Instant::now();
        let mut tracker = ActivityTracker::new(Duration::from_secs(60));
        let uuid = Uuid::from_u128(1);
        tracker.message_sent(uuid);
        let echo = json!({"type": "user", "isReplay": true, "uuid": uuid, "message": {"content": "do it"}});
        let result = json!({"type": "result", "subtype": "success"});
        assert_eq!(apply(&mut tracker, &[echo, result], now), [None, Some(AgentActivity::Idle)]);
    }

    #[test]
    fn background_server_stops_counting_as_work_after_timeout() {
        let now = Instant::now();
        let mut tracker = ActivityTracker::new(Duration::from_secs(60));
        let frames = [
            json!({"type": "system", "subtype": "init"}),
            json!({"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "server"}]}),
            json!({"type": "result", "subtype": "success"}),
        ];
        assert_eq!(apply(&mut tracker, &frames, now), [Some(AgentActivity::Working), None, None]);
        let deadline = tracker.deadline().unwrap();
        assert_eq!(deadline, now + Duration::from_secs(60));
        assert_eq!(tracker.tick(deadline), Some(AgentActivity::Idle));
    }
}
