//! The transitions of a task.
//!
//! Each function returns the task after the transition and the events to emit, or `None` if the transition does not apply
//! to the task's state. A report from a sandbox names its attempt and applies only if that attempt is the current one.

use super::{MAX_REVISIONS, Place, Status, Task};
use crate::attempt::Attempt;
use crate::event::LifecycleEvent;
use crate::retry::{Class, backoff_secs};
use crate::score::{ScoreInputs, Weights, rank};
use crate::{JsonObject, SandboxId, TaskId, Timestamp};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The task afterwards, with the next version.
    pub task: Task,
    /// Events to append to the log of the task.
    pub events: Vec<LifecycleEvent>,
}

impl Task {
    /// Whether this is the current attempt of the task.
    pub fn is_current(&self, attempt: &Attempt) -> bool {
        self.attempt == attempt.number && self.sandbox.as_ref() == Some(&attempt.sandbox)
    }

    /// The first transition of a new task. It is queued at once if it has no unmet dependencies.
    pub fn created(mut self, weights: &Weights, now: Timestamp) -> Transition {
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "title": self.title, "task_type": self.task_type,
            "priority": self.priority, "depends_on": self.depends_on,
        });
        self.version = 0;
        let created = self.apply(now, |_| (), "created", data);
        match created.task.ready(weights, now) {
            Some(mut ready) => {
                ready.task.version = created.task.version;
                ready.events.splice(0..0, created.events);
                ready
            }
            None => created,
        }
    }

    /// Queues a task that waits for nothing.
    pub fn ready(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        let must_wait = self.status != Status::Pending
            || self.place.is_some()
            || self.unmet > 0
            || self.not_before.is_some_and(|when| when > now);
        if must_wait {
            return None;
        }
        let rank = rank(&ScoreInputs::from(self), weights);
        let data = json!({"task_id": self.id, "ticket_id": self.ticket});
        Some(self.apply(
            now,
            |task| {
                task.not_before = None;
                task.place = Some(Place { rank, deadline_at: task.deadline_at });
            },
            "ready",
            data,
        ))
    }

    /// Recomputes the place in the queue, if the task is queued.
    #[must_use]
    pub fn reranked(mut self, weights: &Weights) -> Self {
        let rank = rank(&ScoreInputs::from(&self), weights);
        if let Some(place) = &mut self.place {
            *place = Place { rank, deadline_at: self.deadline_at };
        }
        self
    }

    /// A dependency is completed.
    pub fn unblocked(&self, by: &TaskId, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if !self.depends_on.contains(by) || self.unmet == 0 {
            return None;
        }
        let mut task = self.clone();
        task.unmet -= 1;
        match task.ready(weights, now) {
            Some(ready) => Some(ready),
            None => {
                task.version += 1;
                task.updated_at = now;
                Some(Transition { task, events: Vec::new() })
            }
        }
    }

    /// Takes the task from the queue and begins a new attempt in this sandbox.
    pub fn claim(&self, sandbox: SandboxId, now: Timestamp) -> Option<Transition> {
        if self.status != Status::Pending || self.place.is_none() {
            return None;
        }
        let number = self.attempt + 1;
        let data =
            json!({"task_id": self.id, "ticket_id": self.ticket, "sandbox_id": sandbox, "attempt": number});
        Some(self.apply(
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

    /// Its sandbox is being provisioned.
    pub fn assign(&self, attempt: &Attempt, now: Timestamp) -> Option<Transition> {
        if self.status != Status::Claiming || !self.is_current(attempt) {
            return None;
        }
        Some(self.apply(
            now,
            |task| {
                task.set(Status::Assigned, now);
            },
            "assigned",
            self.about(attempt),
        ))
    }

    /// Its agent has started to work.
    pub fn start(&self, attempt: &Attempt, now: Timestamp) -> Option<Transition> {
        if !matches!(self.status, Status::Claiming | Status::Assigned) || !self.is_current(attempt) {
            return None;
        }
        Some(self.apply(
            now,
            |task| {
                task.started_at.get_or_insert(now);
                task.set(Status::Running, now);
            },
            "started",
            self.about(attempt),
        ))
    }

    /// Its agent completed the work, which may need a review.
    pub fn complete(&self, attempt: &Attempt, result: &JsonObject, now: Timestamp) -> Option<Transition> {
        if !self.status.is_active() || !self.is_current(attempt) {
            return None;
        }
        let (status, event) = if self.validation {
            (Status::Validating, "validating")
        } else {
            (Status::Completed, "completed")
        };
        let mut data = self.about(attempt);
        data["result"] = json!(result);
        Some(self.apply(
            now,
            |task| {
                task.result = Some(result.clone());
                task.error = None;
                task.started_at.get_or_insert(now);
                task.set(status, now);
            },
            event,
            data,
        ))
    }

    /// The attempt failed. The task is retried after a backoff if the failure is transient and retries are left. `jitter`
    /// is from 0 to 1.
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
            return Some(self.apply(
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
        Some(self.apply(
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

    /// The result of this attempt was reviewed.
    pub fn reviewed(
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
        let (status, event) = match passed {
            true => (Status::Completed, "completed"),
            false => (Status::NeedsRevision, "needs_revision"),
        };
        Some(self.apply(
            now,
            |task| {
                task.feedback = Some(feedback.to_owned()).filter(|feedback| !feedback.is_empty());
                task.set(status, now);
            },
            event,
            data,
        ))
    }

    /// Queues the task for a revision, or fails it after [`MAX_REVISIONS`].
    pub fn revise(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if self.status != Status::NeedsRevision {
            return None;
        }
        if self.revisions >= MAX_REVISIONS {
            let error = format!("rejected by the review after {MAX_REVISIONS} revisions");
            let data =
                json!({"task_id": self.id, "ticket_id": self.ticket, "error": error, "error_message": error});
            return Some(self.apply(
                now,
                |task| {
                    task.error = Some(error);
                    task.set(Status::Failed, now);
                },
                "failed",
                data,
            ));
        }
        let mut task = self.clone();
        task.revisions += 1;
        task.set(Status::Pending, now);
        task.ready(weights, now)
    }

    /// The result was not reviewed in time.
    pub fn validation_timed_out(&self, error: &str, now: Timestamp) -> Option<Transition> {
        match self.status {
            Status::Validating => Some(self.ended(Status::Failed, "failed", error, now)),
            _ => None,
        }
    }

    /// A caller cancels the task. Reconciliation ends its sandbox.
    pub fn cancel(&self, reason: &str, now: Timestamp) -> Option<Transition> {
        (!self.status.is_final()).then(|| self.ended(Status::Cancelled, "cancelled", reason, now))
    }

    /// A caller marks the task as failed.
    pub fn mark_failed(&self, reason: &str, now: Timestamp) -> Option<Transition> {
        (!self.status.is_final()).then(|| self.ended(Status::Failed, "failed", reason, now))
    }

    /// A caller retries a failed or cancelled task.
    pub fn retry(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if !matches!(self.status, Status::Failed | Status::Cancelled) {
            return None;
        }
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "retry": 0, "max_retries": self.max_retries, "manual": true,
        });
        let retried = self.apply(
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
        Some(match retried.task.ready(weights, now) {
            Some(mut ready) => {
                ready.task.version = retried.task.version;
                ready.events.splice(0..0, retried.events);
                ready
            }
            None => retried,
        })
    }

    fn ended(&self, status: Status, event: &str, reason: &str, now: Timestamp) -> Transition {
        let data = json!({
            "task_id": self.id, "ticket_id": self.ticket, "sandbox_id": self.sandbox, "reason": reason,
            "error_message": reason,
        });
        self.apply(
            now,
            |task| {
                task.place = None;
                task.not_before = None;
                task.error = Some(reason.to_owned());
                task.set(status, now);
            },
            event,
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

    fn apply(&self, now: Timestamp, change: impl FnOnce(&mut Self), event: &str, data: Value) -> Transition {
        let mut task = self.clone();
        change(&mut task);
        task.version += 1;
        task.updated_at = now;
        Transition { task, events: vec![LifecycleEvent::of_task(event, &data)] }
    }
}

#[cfg(test)]
pub(crate) mod tests;
