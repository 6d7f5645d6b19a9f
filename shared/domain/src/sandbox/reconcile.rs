//! The next step for a sandbox that the plane provisions: the one decision behind provisioning, monitoring and deletion.
//!
//! It runs after a claim, after a batch that changed the sandbox, and on a schedule for all sandboxes. It depends only on
//! the stored state, never on how that state came about, so it does not matter which process runs it, how often, or what
//! was killed half-way. Deliberately absent: side effects. `app::reconcile::sandbox` carries out the steps.

use crate::attempt::{Attempt, Outcome, Provisioning, Stage};
use crate::event::LifecycleEvent;
use crate::event::payloads::{SandboxEnd, SandboxFailed, SandboxTerminated, SandboxTerminatedIdle};
use crate::idle::{self, Liveness, Reason, Thresholds};
use crate::retry::Class;
use crate::sandbox::Status;
use crate::task::Status as TaskStatus;
use crate::{Sandbox, Task, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing is due before this time, unless the sandbox or its task changes.
    Wait { until: Option<Timestamp> },
    /// Begin this stage, or retry it.
    Provision(Stage),
    /// End the sandbox and record the outcome of the attempt.
    End(End),
    /// Apply this to the task, which has not caught up with the sandbox.
    UpdateTask(TaskUpdate),
    /// Open the pull request of the task's branch, and finish the task.
    OpenPullRequest,
    /// Have the provider delete the sandbox.
    Release,
}

/// An end that the worker did not report.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub cause: Cause,
    /// Since when the cause has held.
    pub since: Timestamp,
}

/// Defines [`Cause`] from one row per cause, so that `ALL` cannot lack one.
macro_rules! causes {
    ($($(#[$comment:meta])* $name:ident = $text:literal, $sentence:literal;)*) => {
        /// Why reconciliation ends a sandbox.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Cause {
            $($(#[$comment])* $name,)*
        }

        impl Cause {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The cause as a sentence for people.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

causes! {
    /// No heartbeat for too long.
    Dead = "dead", "The worker stopped sending heartbeats.";
    /// The agent has had nothing to do for too long.
    IdleTimeout = "idle_timeout", "The agent was idle for too long.";
    /// The agent's heartbeats report work, but no event shows any.
    StuckRunning = "stuck_running", "The agent reported that it was working but made no progress.";
    /// The agent's heartbeats report that it is starting, for too long.
    StuckStarting = "stuck_starting", "The agent did not start in time.";
    /// Provisioning takes too long.
    StuckCreating = "stuck_creating", "The sandbox could not be created in time.";
    /// The worker was started and has not reported.
    NeverStarted = "never_started", "The worker was started but never reported.";
    /// The task has exceeded its timeout.
    TimedOut = "timeout", "The task exceeded its timeout.";
    /// The task is finished, or another attempt is the current one.
    NotNeeded = "not_needed", "The task no longer needs this sandbox.";
    /// The provider no longer has the sandbox.
    Lost = "lost", "The provider no longer has the sandbox.";
}

impl Cause {
    /// Whether the cause is the absence of something. Then it only counts while the plane was up to receive it.
    pub fn is_silence(self) -> bool {
        match self {
            Self::Dead
            | Self::IdleTimeout
            | Self::StuckRunning
            | Self::StuckStarting
            | Self::StuckCreating
            | Self::NeverStarted
            | Self::TimedOut => true,
            Self::NotNeeded | Self::Lost => false,
        }
    }

    /// Whether the worker may live, so that it can save the work of its agent before the sandbox is removed.
    pub fn worker_may_live(self) -> bool {
        match self {
            Self::IdleTimeout
            | Self::StuckRunning
            | Self::StuckStarting
            | Self::TimedOut
            | Self::NotNeeded => true,
            Self::Dead | Self::StuckCreating | Self::NeverStarted | Self::Lost => false,
        }
    }

    /// Whether the worker's output may explain the cause.
    pub fn needs_worker_logs(self) -> bool {
        match self {
            Self::Dead | Self::NeverStarted | Self::Lost => true,
            Self::IdleTimeout
            | Self::StuckRunning
            | Self::StuckStarting
            | Self::StuckCreating
            | Self::TimedOut
            | Self::NotNeeded => false,
        }
    }
}

impl End {
    /// The lifecycle event to emit, and the outcome of the attempt.
    ///
    /// A failure of the infrastructure is transient. An agent that was idle or exceeded its timeout would do the same
    /// in the next attempt, so that failure is permanent.
    pub fn outcome(&self, now: Timestamp) -> (EndEvent, Outcome) {
        let failed = |class| Outcome::Failed { error: self.cause.sentence().to_owned(), class, at: now };
        match self.cause {
            Cause::Dead | Cause::StuckCreating | Cause::NeverStarted | Cause::Lost => {
                (EndEvent::Failed, failed(Class::Transient))
            }
            Cause::TimedOut => (EndEvent::Failed, failed(Class::Permanent)),
            Cause::StuckRunning | Cause::StuckStarting => {
                (EndEvent::TerminatedIdle, failed(Class::Transient))
            }
            Cause::IdleTimeout => (EndEvent::TerminatedIdle, failed(Class::Permanent)),
            Cause::NotNeeded => {
                let reason = self.cause.sentence().to_owned();
                (EndEvent::Terminated, Outcome::Cancelled { reason, at: now })
            }
        }
    }

    pub fn event(&self, kind: EndEvent, end: SandboxEnd) -> LifecycleEvent {
        let reason = self.cause.as_str().to_owned();
        match kind {
            EndEvent::Failed => {
                LifecycleEvent::new(&SandboxFailed { reason, end, ..SandboxFailed::default() })
            }
            EndEvent::TerminatedIdle => LifecycleEvent::new(&SandboxTerminatedIdle { reason, end }),
            EndEvent::Terminated => LifecycleEvent::new(&SandboxTerminated { reason, by: None, end }),
        }
    }
}

/// The event that reports the end of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndEvent {
    /// `sandbox.failed`
    Failed,
    /// `sandbox.terminated_idle`
    TerminatedIdle,
    /// `sandbox.terminated`
    Terminated,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// Its sandbox is being provisioned.
    Assigned,
    /// An agent works on it.
    Started,
    /// The agent has completed it, and its branch becomes a pull request.
    Completing,
    /// The attempt is finished.
    Finished(Outcome),
}

/// The step that is due, assuming that the plane was always up. `task` is the task of the sandbox's assignment, if it
/// still exists.
///
/// Confirm a [`Step::End`] with [`next_since`] before you carry it out: see [`Cause::is_silence`].
pub fn next(sandbox: &Sandbox, task: Option<&Task>, thresholds: &Thresholds, now: Timestamp) -> Step {
    next_since(sandbox, task, thresholds, None, now)
}

/// The step that is due. Timeouts are counted from `up_since` at the earliest.
pub fn next_since(
    sandbox: &Sandbox,
    task: Option<&Task>,
    thresholds: &Thresholds,
    up_since: Option<Timestamp>,
    now: Timestamp,
) -> Step {
    let (Some(assignment), Some(provisioning)) = (&sandbox.assignment, &sandbox.activity.provisioning) else {
        return Step::Wait { until: None };
    };
    if provisioning.released_at.is_some() {
        return Step::Wait { until: None };
    }
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    let current = task.filter(|task| task.is_current(&attempt) && task.status.is_active());
    let task = match (&sandbox.activity.outcome, current) {
        // An agent may finish before its task was marked as started. Emit both events, in order.
        (Some(_), Some(task))
            if provisioning.running_since.is_some()
                && matches!(task.status, TaskStatus::Claiming | TaskStatus::Assigned) =>
        {
            return Step::UpdateTask(TaskUpdate::Started);
        }
        (Some(Outcome::Completed { .. }), Some(task)) if task.branch.is_some() => {
            return match task.status {
                TaskStatus::Completing => wait_or(provisioning, Step::OpenPullRequest, now),
                _ => Step::UpdateTask(TaskUpdate::Completing),
            };
        }
        (Some(outcome), Some(_)) => return Step::UpdateTask(TaskUpdate::Finished(outcome.clone())),
        (Some(_), None) => return release(sandbox, thresholds, now),
        (None, None) => return Step::End(End { cause: Cause::NotNeeded, since: now }),
        (None, Some(task)) => task,
    };
    if let Some(end) = overdue(sandbox, task, thresholds, up_since, now) {
        return Step::End(end);
    }
    match (sandbox.status(), task.status) {
        (Status::Pending | Status::Creating, TaskStatus::Claiming) => Step::UpdateTask(TaskUpdate::Assigned),
        (Status::Pending | Status::Creating, _) => provision(sandbox, now),
        (Status::Running, TaskStatus::Claiming | TaskStatus::Assigned) => {
            Step::UpdateTask(TaskUpdate::Started)
        }
        _ => Step::Wait { until: None },
    }
}

/// The timeout that has passed, if one has.
fn overdue(
    sandbox: &Sandbox,
    task: &Task,
    thresholds: &Thresholds,
    up_since: Option<Timestamp>,
    now: Timestamp,
) -> Option<End> {
    let provisioning = sandbox.activity.provisioning.as_ref()?;
    let past = |since: Timestamp, secs: i64| now >= since.plus_secs(secs);
    let while_up = |time: Timestamp| up_since.map_or(time, |since| since.max(time));
    match sandbox.status() {
        Status::Pending | Status::Creating if provisioning.stage == Stage::Started => {
            let since = while_up(provisioning.since);
            past(since, thresholds.start_secs).then_some(End { cause: Cause::NeverStarted, since })
        }
        Status::Pending | Status::Creating => {
            // Time during which the provider's circuit breaker was open does not count against the sandbox.
            let since = while_up(
                provisioning.held_until.map_or(sandbox.created_at, |held| held.max(sandbox.created_at)),
            );
            past(since, thresholds.creating_secs).then_some(End { cause: Cause::StuckCreating, since })
        }
        Status::Running => {
            let running_since = provisioning.running_since.unwrap_or(provisioning.since);
            // After an outage, a worker first gets the time to send what it did meanwhile: it may have finished.
            let catching_up = up_since.is_some_and(|since| {
                since > running_since && !past(since, thresholds.heartbeat_timeout_secs)
            });
            if let Some(timeout) = task.timeout_secs
                && past(running_since, i64::try_from(timeout).unwrap_or(i64::MAX / 2))
                && !catching_up
            {
                return Some(End { cause: Cause::TimedOut, since: running_since });
            }
            let running_since = while_up(running_since);
            let activity = &sandbox.activity;
            let liveness = Liveness {
                running_since,
                // Any event shows that the worker is alive.
                last_heartbeat_at: activity.heartbeats.last_at.max(activity.last_event_at),
                heartbeat_status: activity.heartbeats.last_status.clone(),
                last_work_at: activity.last_work_at,
            };
            let verdict = idle::verdict(&liveness, now, thresholds)?;
            let cause = match verdict.reason {
                Reason::Dead => Cause::Dead,
                Reason::IdleTimeout => Cause::IdleTimeout,
                Reason::StuckRunning => Cause::StuckRunning,
                Reason::StuckStarting => Cause::StuckStarting,
            };
            Some(End { cause, since: verdict.since })
        }
        _ => None,
    }
}

/// The provisioning stage that is due.
fn provision(sandbox: &Sandbox, now: Timestamp) -> Step {
    let Some(provisioning) = &sandbox.activity.provisioning else { return Step::Wait { until: None } };
    let step = match provisioning.stage {
        Stage::Recorded => Step::Provision(Stage::Preparing),
        Stage::Started => Step::Wait { until: None },
        stage => Step::Provision(stage),
    };
    wait_or(provisioning, step, now)
}

/// This step, or a wait while another process has the lease or until the time of the retry.
fn wait_or(provisioning: &Provisioning, step: Step, now: Timestamp) -> Step {
    match provisioning.lease_until.max(provisioning.retry_at).filter(|until| *until > now) {
        Some(until) => Step::Wait { until: Some(until) },
        None => step,
    }
}

/// A worker that lives gets a grace period before the sandbox is deleted: to send its last events, and to save the work of
/// its agent if the plane has ended the sandbox.
fn release(sandbox: &Sandbox, thresholds: &Thresholds, now: Timestamp) -> Step {
    let Some(provisioning) = &sandbox.activity.provisioning else { return Step::Wait { until: None } };
    let ended_at = match &sandbox.activity.outcome {
        Some(Outcome::Completed { at, .. } | Outcome::Failed { at, .. } | Outcome::Cancelled { at, .. }) => {
            Some(*at)
        }
        None => None,
    };
    let lived_at = |at: &Timestamp| {
        let last_sign = sandbox.activity.heartbeats.last_at.max(sandbox.activity.last_event_at);
        last_sign.is_none_or(|sign| *at < sign.plus_secs(thresholds.heartbeat_timeout_secs))
    };
    let may_live = provisioning.running_since.is_some() && provisioning.worker_exited_at.is_none();
    let grace = ended_at.filter(|_| may_live).filter(lived_at);
    let grace = grace.map(|at| at.plus_secs(thresholds.completing_secs));
    let wait = grace.max(provisioning.retry_at).max(provisioning.lease_until).filter(|until| *until > now);
    match wait {
        Some(_) => Step::Wait { until: wait },
        None => Step::Release,
    }
}

#[cfg(test)]
mod overdue_tests;
#[cfg(test)]
mod tests;
