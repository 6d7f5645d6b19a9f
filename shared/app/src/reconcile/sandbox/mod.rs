//! Reconciles a sandbox that the plane provisions: creates it, ends it, updates its task and releases it.
//!
//! [`domain::sandbox::reconcile::next`] decides on the next step from the stored state alone, so this may be called
//! by any process, at any time, and after any crash. All requests to the provider are idempotent by the sandbox's id.

mod branch;
mod breaker;
mod provision;
mod pull_request;
mod release;
mod update_task;
mod worker_output;

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{self, Providers, ReconcileDeps};
use crate::{events, reconcile};
use contract::jobs::Job;
use contract::payloads::SandboxEnd;
use domain::attempt;
use domain::event::LifecycleEvent;
use domain::sandbox::reconcile::{Cause, End, Step, next};
use domain::sandbox::transitions::Trigger;
use domain::{Sandbox, SandboxId, Task, Timestamp};
use std::time::Duration;
use store::commit::{Change, Commit, Committed};

pub type Deps<'a> = ReconcileDeps<'a>;

pub type Command = SandboxId;

/// When to reconcile again, if nothing happens before. A run that has changed the sandbox has enqueued a job for that
/// time. A run that has changed nothing has not, because otherwise the jobs would multiply.
pub type Outcome = Option<Timestamp>;

/// Maximum number of steps in one run, which is more than the whole lifecycle of a sandbox has.
const MAX_STEPS: usize = 60;

/// Idempotent.
pub async fn run(deps: Deps<'_>, sandbox_id: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    let (started_at, mut changed) = (deps.clock.now(), false);
    for _ in 0..MAX_STEPS {
        let Some((sandbox, task)) = read(*deps, &sandbox_id).await? else { return Ok(None) };
        let step = reconcile::uptime::due(*deps, &sandbox, task.as_ref()).await?;
        tracing::debug!(sandbox.id = %sandbox_id, "Next step of sandbox {sandbox_id}: {step:?}");
        let flow = match step {
            Step::Wait { until } if changed => Flow::Wait(until),
            Step::Wait { until } => return Ok(until),
            Step::Provision(stage) => provision::run(deps, sandbox, task, stage, started_at).await?,
            Step::End(end) => self::end(*deps, deps.providers, &sandbox, &end, None).await?,
            Step::UpdateTask(update) => match task {
                Some(task) => update_task::run(*deps, &task, &sandbox, update).await?,
                None => Flow::Wait(None),
            },
            Step::OpenPullRequest => match task {
                Some(task) => pull_request::run(deps, &sandbox, &task).await?,
                None => Flow::Wait(None),
            },
            Step::Release => release::run(deps, sandbox).await?,
        };
        match flow {
            Flow::Continue => changed = true,
            Flow::Conflict => retry.conflict().await?,
            Flow::Wait(until) => {
                if let Some(until) = until {
                    let wait_ms = (until.as_micros() - deps.clock.now().as_micros()).max(0) / 1_000;
                    let wait = Duration::from_millis(wait_ms.unsigned_abs());
                    // Rounded up, because the queue takes whole seconds and a job that runs too early does nothing.
                    let wait = Duration::from_secs(wait.as_secs_f64().ceil() as u64);
                    reconcile::jobs::enqueue_later(
                        deps.orchestration_jobs,
                        &Job::ReconcileSandbox { sandbox_id },
                        wait,
                    )
                    .await;
                }
                return Ok(until);
            }
        }
    }
    Err(Error::Internal(format!("reconciling sandbox {sandbox_id} does not terminate").into()))
}

/// Applies the state of a sandbox to its task only. Returns the current task.
pub(crate) async fn update_task(
    deps: orchestration::Deps<'_>,
    sandbox_id: &SandboxId,
) -> Result<Option<Task>, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let Some((sandbox, task)) = read(deps, sandbox_id).await? else { return Ok(None) };
        let due = next(&sandbox, task.as_ref(), &deps.orchestration.thresholds, deps.clock.now());
        let (Step::UpdateTask(update), Some(task)) = (due, &task) else { return Ok(task) };
        match update_task::run(deps, task, &sandbox, update).await? {
            Flow::Continue => retry = ConflictRetry::new(deps.clock),
            Flow::Conflict | Flow::Wait(_) => retry.conflict().await?,
        }
    }
}

/// Ends a sandbox that does not exist at its provider, or whose worker has exited, and enqueues a job for its task.
/// Does nothing if the sandbox already has an outcome.
pub async fn lost(
    deps: orchestration::Deps<'_>,
    providers: &Providers,
    sandbox_id: &SandboxId,
    reason: Option<&str>,
) -> Result<(), Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let Some(sandbox) = deps.store.sandbox(sandbox_id).await? else { return Ok(()) };
        if !sandbox.needs_reconcile() || sandbox.activity.outcome.is_some() {
            return Ok(());
        }
        let end = End { cause: Cause::Lost, since: deps.clock.now() };
        match self::end(deps, providers, &sandbox, &end, reason).await? {
            Flow::Conflict => retry.conflict().await?,
            _ => {
                reconcile::jobs::enqueue(
                    deps.orchestration_jobs,
                    &Job::ReconcileSandbox { sandbox_id: sandbox_id.clone() },
                )
                .await;
                return Ok(());
            }
        }
    }
}

/// Releases the lease of a sandbox before it expires, because the caller knows that its holder has stopped. If
/// `lease` is given, only that one is released.
pub(crate) async fn release_lease(
    deps: orchestration::Deps<'_>,
    sandbox_id: &SandboxId,
    lease: Option<Timestamp>,
) -> Result<(), Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let Some(sandbox) = deps.store.sandbox(sandbox_id).await? else { return Ok(()) };
        match sandbox.activity.provisioning.as_ref().and_then(|provisioning| provisioning.lease_until) {
            Some(until) if lease.is_none_or(|lease| lease == until) => {}
            _ => return Ok(()),
        }
        let written = write(deps, &sandbox, None, |after| {
            if let Some(provisioning) = &mut after.activity.provisioning {
                provisioning.lease_until = None;
            }
        });
        match written.await? {
            Some(_) => return Ok(()),
            None => retry.conflict().await?,
        }
    }
}

/// How the loop continues after a step.
enum Flow {
    /// The sandbox has changed: decide on the next step.
    Continue,
    /// Another writer committed first: read again after a short wait.
    Conflict,
    /// There is nothing to do until then.
    Wait(Option<Timestamp>),
}

async fn read(
    deps: orchestration::Deps<'_>,
    sandbox_id: &SandboxId,
) -> Result<Option<(Sandbox, Option<Task>)>, Error> {
    let Some(sandbox) = deps.store.sandbox(sandbox_id).await? else { return Ok(None) };
    let Some(assignment) = &sandbox.assignment else { return Ok(None) };
    let task = deps.store.task(&assignment.task).await?;
    Ok(Some((sandbox, task)))
}

/// Ends a sandbox. `reason` replaces the general sentence of the cause, if the caller knows more.
async fn end(
    deps: orchestration::Deps<'_>,
    providers: &Providers,
    sandbox: &Sandbox,
    end: &End,
    reason: Option<&str>,
) -> Result<Flow, Error> {
    let output = match end.cause.needs_worker_logs() {
        true => worker_output::of(deps.orchestration, providers, sandbox).await,
        false => None,
    };
    let now = deps.clock.now();
    let (event, mut outcome) = end.outcome(now);
    let message = reason.unwrap_or_else(|| end.cause.sentence());
    if let attempt::Outcome::Failed { error, .. } = &mut outcome {
        message.clone_into(error);
    }
    let assignment = sandbox.assignment.as_ref();
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let silent_secs = (now.as_micros() - end.since.as_micros()) as f64 / 1_000_000.0;
    let found = SandboxEnd {
        message: Some(message.to_owned()),
        idle_duration_seconds: Some(silent_secs),
        task_id: assignment.map(|assignment| assignment.task.clone()),
        ticket_id: assignment.and_then(|assignment| assignment.ticket.clone()),
        // The worker uploads the transcript while the agent writes it.
        transcript_saved: Some(true),
        worker_log: output,
    };
    let event = end.event(event, found);
    let written = write(deps, sandbox, Some(event), |after| {
        after.transition(Trigger::Ended(end.cause));
        after.activity.outcome = Some(outcome);
        let reason = message.to_owned();
        after.activity.ended.get_or_insert(domain::sandbox::Ended { at: now, reason });
        if let Some(provisioning) = &mut after.activity.provisioning {
            if !end.cause.worker_may_live() {
                provisioning.worker_exited_at.get_or_insert(now);
            }
            (provisioning.lease_until, provisioning.retry_at, provisioning.attempts) = (None, None, 0);
        }
    })
    .await?;
    if written.is_some() {
        let (id, cause) = (&sandbox.id, end.cause.as_str());
        tracing::info!(sandbox.id = %id, reason = cause, "Ended sandbox {id}: {message}");
    }
    Ok(if written.is_some() { Flow::Continue } else { Flow::Conflict })
}

/// Writes a sandbox, with or without an event. Returns `None` on a conflict.
async fn write(
    deps: orchestration::Deps<'_>,
    before: &Sandbox,
    event: Option<LifecycleEvent>,
    change: impl FnOnce(&mut Sandbox),
) -> Result<Option<Sandbox>, Error> {
    let events: Vec<_> = event.into_iter().map(|event| events::emit::event_of(deps.ids, event)).collect();
    let mut after = before.with_events(&events);
    change(&mut after);
    let mut commit = Commit::new(deps.clock.now());
    commit.sandboxes.push(Change { before: Some(before), after, events });
    match deps.store.commit(commit).await? {
        Committed::Done(mut done) => Ok(done.sandboxes.pop()),
        Committed::Conflict => Ok(None),
    }
}
