//! What is due for a sandbox that the plane made: the one decision behind making, watching and removing sandboxes.
//!
//! It is asked again and again, by whoever has reason to: after a claim, after a batch that changed something, and every
//! so often for all of them. It looks at what is, never at how it came to be so; so it does not matter who asks, how
//! often, or what was killed half-way. Deliberately absent: the doing. `app::reconcile::sandbox` does what this says.

use crate::attempt::{Attempt, Outcome, Stage};
use crate::idle::{self, Reason, Signs, Thresholds};
use crate::retry::Class;
use crate::sandbox::Status;
use crate::task::Status as TaskStatus;
use crate::{Sandbox, Task, Timestamp};

/// The next thing to do for a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing, before this time or before something happens.
    Wait {
        /// When to look again, if nothing happens before.
        until: Option<Timestamp>,
    },
    /// Begin this stage, or do it again.
    Provision(Stage),
    /// It is over: this came of it.
    End(End),
    /// Its task is behind: this happened to it.
    UpdateTask(TaskUpdate),
    /// Have the provider remove it.
    Release,
}

/// An end that nobody reported.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// What is said of it.
    pub cause: Cause,
    /// Since when it was so.
    pub since: Timestamp,
}

/// Why a sandbox ends though its worker did not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its worker is silent.
    Dead,
    /// Its agent has nothing to do.
    Idle,
    /// Its agent says that it works, and nothing comes of it.
    Stuck,
    /// Its agent is said to come up, and does not.
    NotUp,
    /// Making it takes too long.
    NotMade,
    /// Its worker was started and never heard.
    NeverHeard,
    /// The task has run for longer than it may.
    TimedOut,
    /// The task is over, or another try is at it.
    NotNeeded,
    /// Its provider does not have it any more.
    Lost,
}

impl Cause {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Idle => "idle_timeout",
            Self::Stuck => "stuck_running",
            Self::NotUp => "stuck_starting",
            Self::NotMade => "stuck_creating",
            Self::NeverHeard => "never_started",
            Self::TimedOut => "timeout",
            Self::NotNeeded => "not_needed",
            Self::Lost => "lost",
        }
    }

    /// In words for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Dead => "The worker stopped giving signs of life.",
            Self::Idle => "The agent had nothing to do.",
            Self::Stuck => "The agent said that it works, and nothing came of it.",
            Self::NotUp => "The agent did not come up in time.",
            Self::NotMade => "The sandbox could not be made in time.",
            Self::NeverHeard => "The worker was started and never heard.",
            Self::TimedOut => "The task ran for longer than it may.",
            Self::NotNeeded => "The task does not need this sandbox any more.",
            Self::Lost => "The provider does not have the sandbox any more.",
        }
    }

    /// Whether something is missing, and nothing has happened: then it matters whether anybody was listening.
    pub fn is_silence(self) -> bool {
        match self {
            Self::Dead
            | Self::Idle
            | Self::Stuck
            | Self::NotUp
            | Self::NotMade
            | Self::NeverHeard
            | Self::TimedOut => true,
            Self::NotNeeded | Self::Lost => false,
        }
    }

    /// Whether what the worker has printed may say why.
    pub fn needs_worker_logs(self) -> bool {
        matches!(self, Self::Dead | Self::NeverHeard | Self::Lost)
    }
}

impl End {
    /// What came of the sandbox: its status, the turn that is told, and the outcome of the try.
    ///
    /// What was nobody's fault may go better the next time. An agent that has nothing to do, or that takes longer than it
    /// may, would do the same again.
    pub fn outcome(&self, now: Timestamp) -> (Status, &'static str, Outcome) {
        let failed = |class| Outcome::Failed { error: self.cause.sentence().to_owned(), class, at: now };
        match self.cause {
            Cause::Dead | Cause::NotMade | Cause::NeverHeard | Cause::Lost => {
                (Status::Failed, "failed", failed(Class::Transient))
            }
            Cause::TimedOut => (Status::Failed, "failed", failed(Class::Permanent)),
            Cause::Stuck | Cause::NotUp => (Status::Terminated, "terminated_idle", failed(Class::Transient)),
            Cause::Idle => (Status::Terminated, "terminated_idle", failed(Class::Permanent)),
            Cause::NotNeeded => {
                let reason = self.cause.sentence().to_owned();
                (Status::Terminated, "terminated", Outcome::CalledOff { reason, at: now })
            }
        }
    }
}

/// What happened to the task of a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// Its sandbox is being made.
    Assigned,
    /// An agent works on it.
    Started,
    /// The try is over.
    Finished(Outcome),
}

/// What is due, if somebody was always listening. `task` is the task of the sandbox's assignment, if it still exists.
///
/// Before anything is ended by it, [`next_since`] is to be asked: see [`Cause::is_silence`].
pub fn next(sandbox: &Sandbox, task: Option<&Task>, thresholds: &Thresholds, now: Timestamp) -> Step {
    next_since(sandbox, task, thresholds, None, now)
}

/// What is due. Whatever has lasted too long is counted from `up_since` at the earliest.
pub fn next_since(
    sandbox: &Sandbox,
    task: Option<&Task>,
    thresholds: &Thresholds,
    up_since: Option<Timestamp>,
    now: Timestamp,
) -> Step {
    let (Some(assignment), Some(spawn)) = (&sandbox.assignment, &sandbox.activity.spawn) else {
        return Step::Wait { until: None };
    };
    if spawn.released_at.is_some() {
        return Step::Wait { until: None };
    }
    let attempt = Attempt { number: assignment.attempt, sandbox: sandbox.id.clone() };
    let current = task.filter(|task| task.is_current(&attempt) && task.status.is_active());
    let task = match (&sandbox.activity.outcome, current) {
        // An agent may be done before anybody has looked: what it did is told in order all the same.
        (Some(_), Some(task)) if spawn.running_since.is_some() && task.status != TaskStatus::Running => {
            return Step::UpdateTask(TaskUpdate::Started);
        }
        (Some(outcome), Some(_)) => return Step::UpdateTask(TaskUpdate::Finished(outcome.clone())),
        (Some(_), None) => return release(sandbox, thresholds, now),
        (None, None) => return Step::End(End { cause: Cause::NotNeeded, since: now }),
        (None, Some(task)) => task,
    };
    if let Some(end) = overdue(sandbox, task, thresholds, up_since, now) {
        return Step::End(end);
    }
    match (sandbox.status, task.status) {
        (Status::Pending | Status::Creating, TaskStatus::Claiming) => Step::UpdateTask(TaskUpdate::Assigned),
        (Status::Pending | Status::Creating, _) => make(sandbox, now),
        (Status::Running, TaskStatus::Claiming | TaskStatus::Assigned) => {
            Step::UpdateTask(TaskUpdate::Started)
        }
        _ => Step::Wait { until: None },
    }
}

/// Whether something has taken too long.
fn overdue(
    sandbox: &Sandbox,
    task: &Task,
    thresholds: &Thresholds,
    up_since: Option<Timestamp>,
    now: Timestamp,
) -> Option<End> {
    let spawn = sandbox.activity.spawn.as_ref()?;
    let past = |since: Timestamp, secs: i64| now >= since.plus_secs(secs);
    let heard = |sign: Timestamp| up_since.map_or(sign, |since| since.max(sign));
    match sandbox.status {
        Status::Pending | Status::Creating if spawn.stage == Stage::Started => {
            let since = heard(spawn.since);
            past(since, thresholds.start_secs).then_some(End { cause: Cause::NeverHeard, since })
        }
        Status::Pending | Status::Creating => {
            // While its provider was left alone it could not be made: that time is not its own.
            let since =
                heard(spawn.held_until.map_or(sandbox.created_at, |held| held.max(sandbox.created_at)));
            past(since, thresholds.creating_secs).then_some(End { cause: Cause::NotMade, since })
        }
        Status::Running => {
            let running_since = spawn.running_since.unwrap_or(spawn.since);
            // What was done while nobody listened is told first: it may have been all.
            let untold = up_since.is_some_and(|since| {
                since > running_since && !past(since, thresholds.heartbeat_timeout_secs)
            });
            if let Some(timeout) = task.timeout_secs
                && past(running_since, i64::try_from(timeout).unwrap_or(i64::MAX / 2))
                && !untold
            {
                return Some(End { cause: Cause::TimedOut, since: running_since });
            }
            let running_since = heard(running_since);
            let activity = &sandbox.activity;
            let signs = Signs {
                running_since,
                // Whoever tells something is alive.
                last_heartbeat_at: activity.heartbeats.last_at.max(activity.last_event_at),
                heartbeat_status: activity.heartbeats.last_status.clone(),
                last_work_at: activity.last_work_at,
            };
            let verdict = idle::verdict(&signs, now, thresholds)?;
            let cause = match verdict.reason {
                Reason::Dead => Cause::Dead,
                Reason::IdleTimeout => Cause::Idle,
                Reason::StuckRunning => Cause::Stuck,
                Reason::StuckStarting => Cause::NotUp,
            };
            Some(End { cause, since: verdict.since })
        }
        _ => None,
    }
}

/// The stage that is due.
fn make(sandbox: &Sandbox, now: Timestamp) -> Step {
    let Some(spawn) = &sandbox.activity.spawn else { return Step::Wait { until: None } };
    let wait = spawn.lease_until.max(spawn.retry_at).filter(|until| *until > now);
    if wait.is_some() {
        return Step::Wait { until: wait };
    }
    match spawn.stage {
        Stage::Recorded => Step::Provision(Stage::Preparing),
        Stage::Started => Step::Wait { until: None },
        stage => Step::Provision(stage),
    }
}

/// A worker that is done gets a moment to say what it has left to say.
fn release(sandbox: &Sandbox, thresholds: &Thresholds, now: Timestamp) -> Step {
    let Some(spawn) = &sandbox.activity.spawn else { return Step::Wait { until: None } };
    let heard = spawn.running_since.is_some();
    let grace = match &sandbox.activity.outcome {
        Some(Outcome::Done { at, .. } | Outcome::Failed { at, .. }) if spawn.left_at.is_none() => Some(*at),
        _ => None,
    };
    let grace = grace.filter(|_| heard).map(|at| at.plus_secs(thresholds.completing_secs));
    let wait = grace.max(spawn.retry_at).max(spawn.lease_until).filter(|until| *until > now);
    match wait {
        Some(_) => Step::Wait { until: wait },
        None => Step::Release,
    }
}

#[cfg(test)]
mod overdue_tests;
#[cfg(test)]
mod tests;
