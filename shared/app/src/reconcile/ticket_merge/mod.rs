//! Performs the merge of all finished branches of a ticket, one step for each job: find the order, merge a branch or find
//! out why that is not possible, end.
//!
//! **Invariant:** a step can be repeated, and its result is stored with the ticket. So a crash at any point continues, at
//! the latest when the lease has passed.

mod branch;
mod conflict;
mod order;

use crate::clock::jitter;
use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{self, CodeHosts, dispatch_job};
use crate::reconcile::jobs;
use crate::{events, tasks};
use code_hosts::{Failure, Reason};
use contract::jobs::Job;
use contract::payloads::{TicketMergeEnded, TicketMergeProgress};
use domain::event::LifecycleEvent;
use domain::retry::backoff_secs;
use domain::task::transitions::Transition;
use domain::ticket::merge::{BranchState, MAX_FAILURES, MergeStep, TicketMerge};
use domain::{Task, Ticket, TicketId, Timestamp};
use std::ops::Deref;
use std::time::Duration;
use store::commit::{Change, Commit, Committed};
use tokio::time::timeout;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub base: orchestration::Deps<'a>,
    pub code_hosts: &'a CodeHosts,
}

impl<'a> Deref for Deps<'a> {
    type Target = orchestration::Deps<'a>;

    fn deref(&self) -> &orchestration::Deps<'a> {
        &self.base
    }
}

impl<'a> Deps<'a> {
    fn pull_requests(&self) -> tasks::pull_request::Deps<'a> {
        let orchestration::Deps { store, clock, ids, orchestration, .. } = self.base;
        tasks::pull_request::Deps { store, clock, ids, orchestration, code_hosts: self.code_hosts }
    }
}

pub type Command = TicketId;

pub type Outcome = ();

/// A step that takes longer has failed and is repeated. It fits into a job.
const STEP_SECS: u64 = 150;
/// Longer than a step, so that no other process begins the same one meanwhile.
const LEASE_SECS: i64 = 180;

/// What a step has found out.
#[derive(Debug)]
struct Progress {
    merge: TicketMerge,
    events: Vec<LifecycleEvent>,
    /// A task that gets an event, as it was read.
    task: Option<(Task, Transition)>,
    /// A new task.
    created: Option<Transition>,
}

impl Progress {
    fn new(merge: TicketMerge) -> Self {
        Self { merge, events: Vec::new(), task: None, created: None }
    }
}

/// Why a step has no result.
#[derive(Debug)]
enum Stopped {
    CodeHost(Failure),
    Other(Error),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::CodeHost(failure)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<store::Error> for Stopped {
    fn from(error: store::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Performs the step that is due, and requests a job for the next one. Idempotent.
pub async fn run(deps: Deps<'_>, id: Command) -> Result<Outcome, Error> {
    let Some(ticket) = deps.store.ticket(&id).await? else { return Ok(()) };
    let now = deps.clock.now();
    let Some(merge) = ticket.merge.clone().filter(|merge| merge.is_due(now)) else { return Ok(()) };
    let leased = merge.leased(now.plus_secs(LEASE_SECS));
    let mut commit = Commit::new(now);
    let after = ticket.with_merge(leased.clone(), now);
    commit.tickets.push(Change { before: Some(&ticket), after, events: Vec::new() });
    let ticket = match deps.store.commit(commit).await? {
        Committed::Done(mut done) => done.tickets.pop().ok_or_else(crate::tickets::not_returned)?,
        // Another process works on it, or the ticket has changed: the next sweep finds it again.
        Committed::Conflict => return Ok(()),
    };
    let step = leased.next();
    let performed = timeout(Duration::from_secs(STEP_SECS), perform(deps, &ticket, &leased, step)).await;
    let performed = performed.unwrap_or_else(|_| {
        Err(Failure::new(Reason::Unreachable, "the code host did not answer in time").into())
    });
    let progress = match performed {
        Ok(progress) => progress,
        Err(Stopped::Other(error)) => return Err(error),
        Err(Stopped::CodeHost(failure)) => {
            after_failure(&ticket, leased.clone(), step, &failure, deps.clock.now())
        }
    };
    store(deps, ticket, &leased, progress).await
}

async fn perform(
    deps: Deps<'_>,
    ticket: &Ticket,
    merge: &TicketMerge,
    step: MergeStep,
) -> Result<Progress, Stopped> {
    match step {
        MergeStep::Order => order::find(deps, ticket, merge).await,
        MergeStep::Merge(index) => branch::merge(deps, ticket, merge, index).await,
        MergeStep::Finish => {
            let mut progress = Progress::new(merge.clone().ended(deps.clock.now()));
            progress.events.push(LifecycleEvent::new(&TicketMergeEnded {
                ticket_id: ticket.id.clone(),
                merged: merge.tasks_in(BranchState::Merged),
                conflicts: merge.tasks_in(BranchState::Conflict),
                skipped: merge.tasks_in(BranchState::Skipped),
            }));
            Ok(progress)
        }
    }
}

/// A transient failure is repeated, a limited number of times; after that the branch is skipped.
fn after_failure(
    ticket: &Ticket,
    merge: TicketMerge,
    step: MergeStep,
    failure: &Failure,
    now: Timestamp,
) -> Progress {
    if failure.reason.is_transient() && merge.failures + 1 < MAX_FAILURES {
        let secs = match failure.reason {
            Reason::Busy { retry_after_secs: Some(secs) } => secs.min(600) as f64,
            _ => backoff_secs(merge.failures, jitter(now)),
        };
        tracing::warn!(ticket.id = %ticket.id, "Could not continue the merge of ticket {}: {failure}", ticket.id);
        #[expect(clippy::cast_possible_truncation, reason = "at most ten minutes")]
        let until = Timestamp::from_micros(now.as_micros() + (secs * 1_000_000.0) as i64);
        return Progress::new(merge.failed(until));
    }
    let reason = format!("{failure}. {}", failure.reason.remedy());
    match step {
        MergeStep::Order => order::unknown(ticket, merge, &reason, now),
        MergeStep::Merge(index) => changed(ticket, merge, index, BranchState::Skipped, Some(&reason), now),
        MergeStep::Finish => Progress::new(merge),
    }
}

/// A branch has reached a state.
fn changed(
    ticket: &Ticket,
    merge: TicketMerge,
    index: usize,
    state: BranchState,
    reason: Option<&str>,
    now: Timestamp,
) -> Progress {
    let mut progress = Progress::new(merge.with_branch(index, state, reason, now));
    progress.events.extend(event_of(ticket, &progress.merge, index));
    progress
}

/// A branch waits for this, until which it is not looked at again. The event is emitted once for a reason.
fn waiting(ticket: &Ticket, merge: &TicketMerge, index: usize, reason: &str, until: Timestamp) -> Progress {
    let known = merge.branches.get(index).and_then(|branch| branch.reason.as_deref());
    let is_new = known != Some(reason);
    let mut progress = Progress::new(merge.clone().waiting(index, reason, until));
    progress.events.extend(event_of(ticket, &progress.merge, index).filter(|_| is_new));
    progress
}

fn event_of(ticket: &Ticket, merge: &TicketMerge, index: usize) -> Option<LifecycleEvent> {
    let branch = merge.branches.get(index)?;
    Some(LifecycleEvent::new(&TicketMergeProgress {
        ticket_id: ticket.id.clone(),
        task_id: branch.task_id.clone(),
        branch: branch.branch.clone(),
        state: branch.state,
        reason: branch.reason.clone(),
        commit: branch.commit.clone(),
    }))
}

/// Stores the result of a step. The ticket may have changed meanwhile, but its merge has not: this process has the lease.
async fn store(
    deps: Deps<'_>,
    mut ticket: Ticket,
    leased: &TicketMerge,
    progress: Progress,
) -> Result<Outcome, Error> {
    let Progress { merge, events, task, created } = progress;
    let has_new_task = created.is_some();
    let events = events::emit::events_of(deps.ids, events);
    let created = created.map(|created| Change {
        before: None,
        after: created.task,
        events: events::emit::events_of(deps.ids, created.events),
    });
    let task =
        task.map(|(before, after)| (before, after.task, events::emit::events_of(deps.ids, after.events)));
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let now = deps.clock.now();
        let mut commit = Commit::new(now);
        let after = ticket.with_merge(merge.clone(), now);
        commit.tickets.push(Change { before: Some(&ticket), after, events: events.clone() });
        if let Some((before, after, events)) = &task {
            let (after, events) = (after.clone(), events.clone());
            commit.tasks.push(Change { before: Some(before), after, events });
        }
        if let Some(Change { after, events, .. }) = &created {
            commit.tasks.push(Change { before: None, after: after.clone(), events: events.clone() });
        }
        match deps.store.commit(commit).await? {
            Committed::Done(_) => break,
            Committed::Conflict => retry.conflict().await?,
        }
        let current = deps.store.ticket(&ticket.id).await?;
        // Otherwise the lease has passed, and another process goes on.
        let Some(current) = current.filter(|current| current.merge.as_ref() == Some(leased)) else {
            return Ok(());
        };
        ticket = current;
        if let Some((before, ..)) = &task {
            let is_unchanged =
                deps.store.task(&before.id).await?.is_some_and(|now| now.version == before.version);
            if !is_unchanged {
                // The step is repeated when the lease has passed.
                return Ok(());
            }
        }
    }
    if has_new_task {
        jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&ticket.org)).await;
    }
    if merge.is_running() {
        let wait_ms = (merge.next_at.as_micros() - deps.clock.now().as_micros()).max(0) / 1_000;
        let wait = Duration::from_secs(wait_ms.unsigned_abs().div_ceil(1_000));
        let job = Job::ReconcileTicket { ticket_id: ticket.id.clone() };
        jobs::enqueue_later(deps.orchestration_jobs, &job, wait).await;
    }
    Ok(())
}
