//! What may happen to a task.
//!
//! Each function gives back the task as it is afterwards and what is told of it, or nothing if that cannot happen to a
//! task in this state. What comes from a sandbox names its try: it moves the task only if that try is the current one.

use super::{MAX_REVISIONS, Place, Status, Task};
use crate::attempt::Attempt;
use crate::retry::{Class, backoff_secs};
use crate::score::{ScoreInputs, Weights, rank};
use crate::{EventType, JsonObject, SandboxId, TaskId, Timestamp};
use serde_json::{Value, json};

/// A task after something happened to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The task. Its version has moved on.
    pub task: Task,
    /// What its log says of that.
    pub events: Vec<LifecycleEvent>,
}

/// Something that the plane tells.
#[derive(Debug, Clone, PartialEq)]
pub struct LifecycleEvent {
    /// What.
    pub event_type: EventType,
    /// About it.
    pub data: JsonObject,
}

impl LifecycleEvent {
    /// What a task's log says.
    pub fn of_task(turn: &str, data: &Value) -> Self {
        Self { event_type: EventType::of_task(turn), data: JsonObject::of(data) }
    }

    /// What a sandbox's log says.
    pub fn of_sandbox(turn: &str, data: &Value) -> Self {
        Self { event_type: EventType::of_sandbox(turn), data: JsonObject::of(data) }
    }

    /// What a ticket's log says.
    pub fn of_ticket(turn: &str, data: &Value) -> Self {
        Self { event_type: EventType::of_ticket(turn), data: JsonObject::of(data) }
    }
}

impl Task {
    /// Whether this try is the one that counts.
    pub fn is_current(&self, attempt: &Attempt) -> bool {
        self.attempt == attempt.number && self.sandbox.as_ref() == Some(&attempt.sandbox)
    }

    /// It was written down just now: what is told of that. It is ready if nothing is before it.
    pub fn created(mut self, weights: &Weights, now: Timestamp) -> Transition {
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "title": self.title, "task_type": self.task_type,
            "priority": self.priority, "depends_on": self.depends_on,
        });
        self.version = 0;
        let created = self.moved(now, |_| (), "created", data);
        match created.task.ready(weights, now) {
            Some(mut ready) => {
                ready.task.version = created.task.version;
                ready.events.splice(0..0, created.events);
                ready
            }
            None => created,
        }
    }

    /// Nothing is in its way any more: it takes its place in the queue.
    pub fn ready(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        let waits = self.status != Status::Pending
            || self.place.is_some()
            || self.unmet > 0
            || self.not_before.is_some_and(|when| when > now);
        if waits {
            return None;
        }
        let rank = rank(&ScoreInputs::from(self), weights);
        let data = json!({"task_id": self.id, "ticket_id": self.ticket});
        Some(self.moved(
            now,
            |task| {
                task.not_before = None;
                task.place = Some(Place { rank, deadline_at: task.deadline_at });
            },
            "ready",
            data,
        ))
    }

    /// What it is worth has changed: it takes another place, if it has one.
    #[must_use]
    pub fn placed_anew(mut self, weights: &Weights) -> Self {
        let rank = rank(&ScoreInputs::from(&self), weights);
        if let Some(place) = &mut self.place {
            *place = Place { rank, deadline_at: self.deadline_at };
        }
        self
    }

    /// Something it depended on is completed.
    pub fn unblocked(&self, by: &TaskId, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if !self.depends_on.contains(by) || self.unmet == 0 {
            return None;
        }
        let mut less = self.clone();
        less.unmet -= 1;
        match less.ready(weights, now) {
            Some(ready) => Some(ready),
            None => {
                less.version += 1;
                less.updated_at = now;
                Some(Transition { task: less, events: Vec::new() })
            }
        }
    }

    /// It is its turn: a new try, in this sandbox.
    pub fn claim(&self, sandbox: SandboxId, now: Timestamp) -> Option<Transition> {
        if self.status != Status::Pending || self.place.is_none() {
            return None;
        }
        let number = self.attempt + 1;
        let data =
            json!({"task_id": self.id, "ticket_id": self.ticket, "sandbox_id": sandbox, "attempt": number});
        Some(self.moved(
            now,
            |task| {
                task.place = None;
                task.attempt = number;
                task.sandbox = Some(sandbox);
                task.set(Status::Claiming, now);
            },
            "claimed",
            data,
        ))
    }

    /// Its sandbox is being made.
    pub fn assign(&self, attempt: &Attempt, now: Timestamp) -> Option<Transition> {
        if self.status != Status::Claiming || !self.is_current(attempt) {
            return None;
        }
        Some(self.moved(
            now,
            |task| {
                task.set(Status::Assigned, now);
            },
            "assigned",
            self.about(attempt),
        ))
    }

    /// An agent works on it.
    pub fn start(&self, attempt: &Attempt, now: Timestamp) -> Option<Transition> {
        if !matches!(self.status, Status::Claiming | Status::Assigned) || !self.is_current(attempt) {
            return None;
        }
        Some(self.moved(
            now,
            |task| {
                task.started_at.get_or_insert(now);
                task.set(Status::Running, now);
            },
            "started",
            self.about(attempt),
        ))
    }

    /// Its agent is done. Somebody may have to look at it.
    pub fn complete(&self, attempt: &Attempt, result: &JsonObject, now: Timestamp) -> Option<Transition> {
        if !self.status.is_active() || !self.is_current(attempt) {
            return None;
        }
        let (status, turn) = if self.validation {
            (Status::Validating, "validating")
        } else {
            (Status::Completed, "completed")
        };
        let mut data = self.about(attempt);
        data["result"] = json!(result);
        Some(self.moved(
            now,
            |task| {
                task.result = Some(result.clone());
                task.error = None;
                task.started_at.get_or_insert(now);
                task.set(status, now);
            },
            turn,
            data,
        ))
    }

    /// A try has failed. It is tried again a little later if that may help and it may be tried again; `jitter` is
    /// anything from 0 to 1.
    pub fn fail(
        &self,
        attempt: &Attempt,
        error: &str,
        class: Class,
        jitter: f64,
        now: Timestamp,
    ) -> Option<Transition> {
        if !self.status.is_active() || !self.is_current(attempt) {
            return None;
        }
        let mut data = self.about(attempt);
        data["error"] = json!(error);
        data["error_message"] = json!(error);
        if class == Class::Permanent || self.retry_count >= self.max_retries {
            data["retries_left"] = json!(self.max_retries.saturating_sub(self.retry_count));
            return Some(self.moved(
                now,
                |task| {
                    task.error = Some(error.to_owned());
                    task.set(Status::Failed, now);
                },
                "failed",
                data,
            ));
        }
        let wait_ms = (backoff_secs(self.retry_count, jitter) * 1_000.0).round();
        #[expect(clippy::cast_possible_truncation, reason = "a backoff is at most a minute or so")]
        let not_before = Timestamp::from_micros(now.as_micros() + wait_ms as i64 * 1_000);
        data["retry"] = json!(self.retry_count + 1);
        data["max_retries"] = json!(self.max_retries);
        data["not_before"] = json!(not_before);
        Some(self.moved(
            now,
            |task| {
                task.error = Some(error.to_owned());
                task.retry_count += 1;
                task.not_before = Some(not_before);
                task.set(Status::Pending, now);
            },
            "retrying",
            data,
        ))
    }

    /// Somebody looked at the result of this try.
    pub fn validated(
        &self,
        attempt: &Attempt,
        passed: bool,
        feedback: &str,
        now: Timestamp,
    ) -> Option<Transition> {
        if self.status != Status::Validating || !self.is_current(attempt) {
            return None;
        }
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "validation_passed": passed, "feedback": feedback,
        });
        let (status, turn) = match passed {
            true => (Status::Completed, "completed"),
            false => (Status::NeedsRevision, "needs_revision"),
        };
        Some(self.moved(
            now,
            |task| {
                task.feedback = Some(feedback.to_owned()).filter(|feedback| !feedback.is_empty());
                task.set(status, now);
            },
            turn,
            data,
        ))
    }

    /// It goes back to be revised, or has been revised often enough.
    pub fn revise(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if self.status != Status::NeedsRevision {
            return None;
        }
        if self.revisions >= MAX_REVISIONS {
            let error = format!("was revised {MAX_REVISIONS} times and is still not good enough");
            let data =
                json!({"task_id": self.id, "ticket_id": self.ticket, "error": error, "error_message": error});
            return Some(self.moved(
                now,
                |task| {
                    task.error = Some(error);
                    task.set(Status::Failed, now);
                },
                "failed",
                data,
            ));
        }
        let mut again = self.clone();
        again.revisions += 1;
        again.set(Status::Pending, now);
        again.ready(weights, now)
    }

    /// Nobody looked at the result in time.
    pub fn validation_timed_out(&self, error: &str, now: Timestamp) -> Option<Transition> {
        match self.status {
            Status::Validating => Some(self.ended(Status::Failed, "failed", error, now)),
            _ => None,
        }
    }

    /// Somebody calls it off. Its sandbox, if it has one, is taken down by whoever tends it.
    pub fn cancel(&self, reason: &str, now: Timestamp) -> Option<Transition> {
        (!self.status.is_final()).then(|| self.ended(Status::Cancelled, "cancelled", reason, now))
    }

    /// Somebody says that it has failed.
    pub fn give_up(&self, reason: &str, now: Timestamp) -> Option<Transition> {
        (!self.status.is_final()).then(|| self.ended(Status::Failed, "failed", reason, now))
    }

    /// Somebody wants it after all.
    pub fn retry(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if !matches!(self.status, Status::Failed | Status::Cancelled) {
            return None;
        }
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "retry": 0, "max_retries": self.max_retries, "asked_for": true,
        });
        let asked = self.moved(
            now,
            |task| {
                task.retry_count = 0;
                task.revisions = 0;
                task.not_before = None;
                task.completed_at = None;
                task.set(Status::Pending, now);
            },
            "retrying",
            data,
        );
        Some(match asked.task.ready(weights, now) {
            Some(mut ready) => {
                ready.task.version = asked.task.version;
                ready.events.splice(0..0, asked.events);
                ready
            }
            None => asked,
        })
    }

    fn ended(&self, status: Status, turn: &str, reason: &str, now: Timestamp) -> Transition {
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "sandbox_id": self.sandbox, "reason": reason,
            "error_message": reason,
        });
        self.moved(
            now,
            |task| {
                task.place = None;
                task.not_before = None;
                task.error = Some(reason.to_owned());
                task.set(status, now);
            },
            turn,
            data,
        )
    }

    fn set(&mut self, status: Status, now: Timestamp) {
        self.status = status;
        self.since = now;
        self.completed_at = status.is_final().then_some(now);
    }

    fn about(&self, attempt: &Attempt) -> Value {
        json!({
            "task_id": self.id, "ticket_id": self.ticket, "sandbox_id": attempt.sandbox, "attempt": attempt.number,
        })
    }

    fn moved(&self, now: Timestamp, change: impl FnOnce(&mut Self), turn: &str, data: Value) -> Transition {
        let mut task = self.clone();
        change(&mut task);
        task.version += 1;
        task.updated_at = now;
        Transition { task, events: vec![LifecycleEvent::of_task(turn, &data)] }
    }
}

#[cfg(test)]
pub(crate) mod tests;
