//! The transitions of a task.
//!
//! Each function returns the task after the transition and the events to emit, or `None` if the transition does not apply
//! to the task's state. A report from a sandbox names its attempt and applies only if that attempt is the current one.

use super::{MAX_REVISIONS, Place, Status, Task};
use crate::access::Principal;
use crate::attempt::Attempt;
use crate::event::payloads::{
    TaskAssigned, TaskAttempt, TaskCancelled, TaskClaimed, TaskCompleted, TaskCreated, TaskFailed,
    TaskNeedsRevision, TaskReady, TaskReference, TaskRetrying, TaskStarted, TaskValidating,
};
use crate::event::{LifecycleEvent, Payload};
use crate::message::Sender;
use crate::retry::{Class, backoff_secs};
use crate::score::{ScoreInputs, Weights, rank};
use crate::{JsonObject, SandboxId, TaskId, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The task afterwards, with the next version.
    pub task: Task,
    /// Events to append to the log of the task.
    pub events: Vec<LifecycleEvent>,
}

impl Transition {
    /// Names the caller in the event that states what the caller did: the first one. Those after it follow from it.
    #[must_use]
    pub fn by(self, caller: &Principal) -> Self {
        self.by_sender(&Sender::of(caller))
    }

    /// The same for a caller who has asked for it earlier.
    #[must_use]
    pub fn by_sender(mut self, caller: &Sender) -> Self {
        if let Some(event) = self.events.first_mut() {
            event.name_caller(caller);
        }
        self
    }
}

/// The review of a result.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    pub passed: bool,
    pub feedback: &'a str,
    /// For the log only.
    pub evidence: Option<&'a JsonObject>,
}

impl Task {
    /// Whether this is the current attempt of the task.
    pub fn is_current(&self, attempt: &Attempt) -> bool {
        self.attempt == attempt.number && self.sandbox.as_ref() == Some(&attempt.sandbox)
    }

    /// The first transition of a new task. It is queued at once if it has no unmet dependencies.
    pub fn created(mut self, weights: &Weights, now: Timestamp) -> Transition {
        let event = TaskCreated {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            title: self.title.clone(),
            task_type: self.task_type.clone(),
            priority: self.priority,
            depends_on: self.depends_on.clone(),
            by: None,
        };
        self.version = 0;
        let created = self.apply(now, |_| (), &event);
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
        let event = TaskReady(TaskReference { task_id: self.id.clone(), ticket_id: self.ticket.clone() });
        Some(self.apply(
            now,
            |task| {
                task.not_before = None;
                task.place = Some(Place { rank, deadline_at: task.deadline_at });
            },
            &event,
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
        let attempt = Attempt { number: self.attempt + 1, sandbox };
        let event = TaskClaimed(self.about(&attempt));
        Some(self.apply(
            now,
            |task| {
                task.place = None;
                task.attempt = attempt.number;
                task.sandbox = Some(attempt.sandbox);
                task.set(Status::Claiming, now);
            },
            &event,
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
            &TaskAssigned(self.about(attempt)),
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
            &TaskStarted(self.about(attempt)),
        ))
    }

    /// Its agent completed the work, which may need a review.
    pub fn complete(&self, attempt: &Attempt, result: &JsonObject, now: Timestamp) -> Option<Transition> {
        if !self.status.is_active() || !self.is_current(attempt) {
            return None;
        }
        let change = |status| {
            move |task: &mut Self| {
                task.result = Some(result.clone());
                task.error = None;
                task.started_at.get_or_insert(now);
                task.end_round_work(now);
                task.set(status, now);
            }
        };
        let TaskAttempt { task_id, ticket_id, sandbox_id, attempt } = self.about(attempt);
        let result = result.clone();
        Some(if self.validation {
            let event = TaskValidating { task_id, ticket_id, sandbox_id, attempt, result };
            self.apply(now, change(Status::Validating), &event)
        } else {
            let event = TaskCompleted {
                task_id,
                ticket_id,
                sandbox_id: Some(sandbox_id),
                attempt: Some(attempt),
                result: Some(result),
                validation_passed: None,
                feedback: None,
                evidence: None,
                by: None,
            };
            self.apply(now, change(Status::Completed), &event)
        })
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
        let TaskAttempt { task_id, ticket_id, sandbox_id, attempt } = self.about(attempt);
        if class == Class::Permanent || self.retry_count >= self.max_retries {
            let event = TaskFailed {
                sandbox_id: Some(sandbox_id),
                attempt: Some(attempt),
                error: Some(error.to_owned()),
                retries_left: Some(self.max_retries.saturating_sub(self.retry_count)),
                ..self.failed(error)
            };
            return Some(self.apply(
                now,
                |task| {
                    task.error = Some(error.to_owned());
                    task.set(Status::Failed, now);
                },
                &event,
            ));
        }
        let wait_ms = (backoff_secs(self.retry_count, jitter) * 1_000.0).round();
        #[expect(clippy::cast_possible_truncation, reason = "a backoff is at most a minute or so")]
        let not_before = Timestamp::from_micros(now.as_micros() + wait_ms as i64 * 1_000);
        let event = TaskRetrying {
            task_id,
            ticket_id,
            sandbox_id: Some(sandbox_id),
            attempt: Some(attempt),
            error: Some(error.to_owned()),
            error_message: Some(error.to_owned()),
            retry: self.retry_count + 1,
            max_retries: self.max_retries,
            not_before: Some(not_before),
            manual: None,
            by: None,
        };
        Some(self.apply(
            now,
            |task| {
                task.error = Some(error.to_owned());
                task.retry_count += 1;
                task.not_before = Some(not_before);
                task.set(Status::Pending, now);
            },
            &event,
        ))
    }

    /// The result of this attempt was reviewed.
    pub fn reviewed(&self, attempt: &Attempt, review: Review<'_>, now: Timestamp) -> Option<Transition> {
        if self.status != Status::Validating || !self.is_current(attempt) {
            return None;
        }
        let Review { passed, feedback, evidence } = review;
        let change = |status| {
            move |task: &mut Self| {
                task.feedback = Some(feedback.to_owned()).filter(|feedback| !feedback.is_empty());
                task.set(status, now);
            }
        };
        let (task_id, ticket_id, feedback) = (self.id.clone(), self.ticket.clone(), feedback.to_owned());
        let evidence = evidence.cloned();
        Some(if passed {
            let event = TaskCompleted {
                task_id,
                ticket_id,
                sandbox_id: None,
                attempt: None,
                result: None,
                validation_passed: Some(passed),
                feedback: Some(feedback),
                evidence,
                by: None,
            };
            self.apply(now, change(Status::Completed), &event)
        } else {
            let event = TaskNeedsRevision {
                task_id,
                ticket_id,
                validation_passed: passed,
                feedback,
                evidence,
                by: None,
            };
            self.apply(now, change(Status::NeedsRevision), &event)
        })
    }

    /// Queues the task for a revision, or fails it after [`MAX_REVISIONS`].
    pub fn revise(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if self.status != Status::NeedsRevision {
            return None;
        }
        if self.revisions >= MAX_REVISIONS {
            let error = format!("rejected by the review after {MAX_REVISIONS} revisions");
            let event = TaskFailed { error: Some(error.clone()), ..self.failed(&error) };
            return Some(self.apply(
                now,
                |task| {
                    task.error = Some(error);
                    task.set(Status::Failed, now);
                },
                &event,
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
            Status::Validating => Some(self.ended_as_failed(error, now)),
            _ => None,
        }
    }

    /// A caller cancels the task. Reconciliation ends its sandbox.
    pub fn cancel(&self, reason: &str, now: Timestamp) -> Option<Transition> {
        let event = || TaskCancelled {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            sandbox_id: self.sandbox.clone(),
            reason: reason.to_owned(),
            error_message: reason.to_owned(),
            by: None,
        };
        (!self.status.is_final()).then(|| self.ended(Status::Cancelled, reason, now, &event()))
    }

    /// A caller marks the task as failed.
    pub fn mark_failed(&self, reason: &str, now: Timestamp) -> Option<Transition> {
        (!self.status.is_final()).then(|| self.ended_as_failed(reason, now))
    }

    /// A caller retries a failed or cancelled task.
    pub fn retry(&self, weights: &Weights, now: Timestamp) -> Option<Transition> {
        if !matches!(self.status, Status::Failed | Status::Cancelled) {
            return None;
        }
        let event = TaskRetrying {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            sandbox_id: None,
            attempt: None,
            error: None,
            error_message: None,
            retry: 0,
            max_retries: self.max_retries,
            not_before: None,
            manual: Some(true),
            by: None,
        };
        let retried = self.apply(
            now,
            |task| {
                task.retry_count = 0;
                task.revisions = 0;
                task.not_before = None;
                task.completed_at = None;
                task.set(Status::Pending, now);
            },
            &event,
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

    fn ended_as_failed(&self, reason: &str, now: Timestamp) -> Transition {
        let (sandbox_id, why) = (self.sandbox.clone(), Some(reason.to_owned()));
        let event = TaskFailed { sandbox_id, reason: why, ..self.failed(reason) };
        self.ended(Status::Failed, reason, now, &event)
    }

    fn ended(&self, status: Status, reason: &str, now: Timestamp, event: &impl Payload) -> Transition {
        self.apply(
            now,
            |task| {
                task.place = None;
                task.not_before = None;
                task.error = Some(reason.to_owned());
                task.set(status, now);
            },
            event,
        )
    }

    pub(super) fn set(&mut self, status: Status, now: Timestamp) {
        self.status = status;
        self.since = now;
        self.completed_at = status.is_final().then_some(now);
    }

    pub(super) fn about(&self, attempt: &Attempt) -> TaskAttempt {
        TaskAttempt {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            sandbox_id: attempt.sandbox.clone(),
            attempt: attempt.number,
        }
    }

    fn failed(&self, error_message: &str) -> TaskFailed {
        TaskFailed {
            task_id: self.id.clone(),
            ticket_id: self.ticket.clone(),
            sandbox_id: None,
            attempt: None,
            error: None,
            reason: None,
            error_message: error_message.to_owned(),
            retries_left: None,
            by: None,
        }
    }

    pub(super) fn apply(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Self),
        event: &impl Payload,
    ) -> Transition {
        let mut task = self.clone();
        change(&mut task);
        task.version += 1;
        task.updated_at = now;
        Transition { task, events: vec![LifecycleEvent::new(event)] }
    }
}

#[cfg(test)]
pub(crate) mod tests;
