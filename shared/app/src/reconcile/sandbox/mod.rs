//! Does what is due for a sandbox that the plane made, until nothing is: makes it, watches it, settles its task, removes
//! it.
//!
//! What is due is decided by [`domain::sandbox::reconcile::next`] from what is stored, so it does not matter who calls this, how often,
//! or what was killed half-way. Everything at the provider is done under the sandbox's own name and can be done again.

mod health;
mod last_words;
mod making;
mod removing;
mod settling;

use crate::error::Error;
use crate::orchestration::{self, Providers, ReconcileDeps};
use crate::{events, race, reconcile};
use contract::jobs::Job;
use domain::attempt;
use domain::sandbox::reconcile::{Cause, End, Step, next};
use domain::task::transitions::LifecycleEvent;
use domain::{Sandbox, SandboxId, Task, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;
use store::commit::{Change, Commit, Committed};

/// What it touches.
pub type Deps<'a> = ReconcileDeps<'a>;

/// Which sandbox.
pub type Command = SandboxId;

/// When to look again, if nothing happens before. Whoever wrote what is waited for has asked for a job for that; whoever
/// only finds it has not, or every look would begin a row of looks of its own.
pub type Outcome = Option<Timestamp>;

/// So many things are done in one go, which is more than a sandbox's whole life has.
const MAX_STEPS: usize = 60;

/// A repeat does what is still to be done.
pub async fn run(deps: Deps<'_>, sandbox: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.deps.clock);
    let (begun, mut changed) = (deps.deps.clock.now(), false);
    for _ in 0..MAX_STEPS {
        let Some((head, task)) = read(deps.deps, &sandbox).await? else { return Ok(None) };
        let step = reconcile::uptime::due(deps.deps, &head, task.as_ref()).await?;
        tracing::debug!(sandbox.id = %sandbox, "Due for {sandbox}: {step:?}");
        let flow = match step {
            Step::Wait { until } if changed => Flow::Rest(until),
            Step::Wait { until } => return Ok(until),
            Step::Provision(stage) => making::run(deps, head, task, stage, begun).await?,
            Step::End(end) => self::end(deps.deps, deps.providers, &head, &end, None).await?,
            Step::UpdateTask(settlement) => match task {
                Some(task) => settling::run(deps.deps, &task, &head, settlement).await?,
                None => Flow::Rest(None),
            },
            Step::Release => removing::run(deps, head).await?,
        };
        match flow {
            Flow::Again => changed = true,
            Flow::Lost => race.lost().await?,
            Flow::Rest(until) => {
                if let Some(until) = until {
                    let wait_ms = (until.as_micros() - deps.deps.clock.now().as_micros()).max(0) / 1_000;
                    let wait = Duration::from_millis(wait_ms.unsigned_abs());
                    // The queue counts in whole seconds, and to look too early would be to look twice.
                    let wait = Duration::from_secs(wait.as_secs_f64().ceil() as u64);
                    reconcile::jobs::ask_later(
                        deps.deps.work,
                        &Job::ReconcileSandbox { sandbox_id: sandbox },
                        wait,
                    )
                    .await;
                }
                return Ok(until);
            }
        }
    }
    Err(Error::Internal(format!("sandbox {sandbox} is never done with").into()))
}

/// Does what is due for the task of a sandbox, and leaves the sandbox itself to whoever tends it. The task as it is now.
pub(crate) async fn settle(
    deps: orchestration::Deps<'_>,
    sandbox: &SandboxId,
) -> Result<Option<Task>, Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let Some((head, task)) = read(deps, sandbox).await? else { return Ok(None) };
        let due = next(&head, task.as_ref(), &deps.orchestration.thresholds, deps.clock.now());
        let (Step::UpdateTask(settlement), Some(task)) = (due, &task) else { return Ok(task) };
        match settling::run(deps, task, &head, settlement).await? {
            Flow::Again => race = race::Race::new(deps.clock),
            Flow::Lost | Flow::Rest(_) => race.lost().await?,
        }
    }
}

/// The provider does not have it any more, or not its worker: whoever noticed says so, in their own words if they have
/// some, and asks that its task be settled. One that is not to be there anyway stays as it is.
pub async fn lost(
    deps: orchestration::Deps<'_>,
    providers: &Providers,
    sandbox: &SandboxId,
    why: Option<&str>,
) -> Result<(), Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let Some(head) = deps.store.sandbox(sandbox).await? else { return Ok(()) };
        if !head.needs_reconcile() || head.activity.outcome.is_some() {
            return Ok(());
        }
        let end = End { cause: Cause::Lost, since: deps.clock.now() };
        match self::end(deps, providers, &head, &end, why).await? {
            Flow::Lost => race.lost().await?,
            _ => {
                reconcile::jobs::ask(deps.work, &Job::ReconcileSandbox { sandbox_id: sandbox.clone() }).await;
                return Ok(());
            }
        }
    }
}

/// Nobody is at it any more, as whoever calls this knows: so nobody waits until they would have let go. With a `lease`
/// only that one is given back.
pub(crate) async fn let_go(
    deps: orchestration::Deps<'_>,
    sandbox: &SandboxId,
    lease: Option<Timestamp>,
) -> Result<(), Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let Some(head) = deps.store.sandbox(sandbox).await? else { return Ok(()) };
        match head.activity.spawn.as_ref().and_then(|spawn| spawn.lease_until) {
            Some(until) if lease.is_none_or(|lease| lease == until) => {}
            _ => return Ok(()),
        }
        let written = write(deps, &head, None, |after| {
            if let Some(spawn) = &mut after.activity.spawn {
                spawn.lease_until = None;
            }
        });
        match written.await? {
            Some(_) => return Ok(()),
            None => race.lost().await?,
        }
    }
}

/// How to go on.
enum Flow {
    /// Something was done: look again.
    Again,
    /// Somebody else was faster: look again, a little later.
    Lost,
    /// Nothing to do until then.
    Rest(Option<Timestamp>),
}

async fn read(
    deps: orchestration::Deps<'_>,
    sandbox: &SandboxId,
) -> Result<Option<(Sandbox, Option<Task>)>, Error> {
    let Some(head) = deps.store.sandbox(sandbox).await? else { return Ok(None) };
    let Some(assignment) = &head.assignment else { return Ok(None) };
    let task = deps.store.task(&assignment.task).await?;
    Ok(Some((head, task)))
}

/// Ends it. `why` says more than the cause does, if somebody knows more.
async fn end(
    deps: orchestration::Deps<'_>,
    providers: &Providers,
    head: &Sandbox,
    end: &End,
    why: Option<&str>,
) -> Result<Flow, Error> {
    let printed = match end.cause.needs_worker_logs() {
        true => last_words::of(deps.orchestration, providers, head).await,
        false => None,
    };
    let now = deps.clock.now();
    let (status, turn, mut outcome) = end.outcome(now);
    let sentence = why.unwrap_or_else(|| end.cause.sentence());
    if let attempt::Outcome::Failed { error, .. } = &mut outcome {
        sentence.clone_into(error);
    }
    let assignment = head.assignment.as_ref();
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    let silent_secs = (now.as_micros() - end.since.as_micros()) as f64 / 1_000_000.0;
    let mut data = json!({
        "reason": end.cause.as_str(),
        "message": sentence,
        "idle_duration_seconds": silent_secs,
        "task_id": assignment.map(|assignment| &assignment.task),
        "ticket_id": assignment.and_then(|assignment| assignment.ticket.as_ref()),
        // The agent's record is at the plane as it is written.
        "transcript_saved": true,
    });
    if let Some(printed) = printed {
        data["worker_log"] = json!(printed);
    }
    let written = write(deps, head, Some((turn, data)), |after| {
        after.status = status;
        after.activity.outcome = Some(outcome);
        let reason = sentence.to_owned();
        after.activity.ended.get_or_insert(domain::sandbox::Ended { at: now, reason });
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.left_at.get_or_insert(now);
            (spawn.lease_until, spawn.retry_at, spawn.tries) = (None, None, 0);
        }
    })
    .await?;
    if written.is_some() {
        let (id, why) = (&head.id, end.cause.as_str());
        tracing::info!(sandbox.id = %id, reason = why, "Ended sandbox {id}: {sentence}");
    }
    Ok(if written.is_some() { Flow::Again } else { Flow::Lost })
}

/// Writes a sandbox's head with one event, or without; `None` if somebody else was faster.
async fn write(
    deps: orchestration::Deps<'_>,
    before: &Sandbox,
    told: Option<(&str, Value)>,
    change: impl FnOnce(&mut Sandbox),
) -> Result<Option<Sandbox>, Error> {
    let events: Vec<_> = told
        .into_iter()
        .map(|(turn, data)| events::emit::event_of(deps.ids, LifecycleEvent::of_sandbox(turn, &data)))
        .collect();
    let mut after = before.telling(&events);
    change(&mut after);
    let mut commit = Commit::new(deps.clock.now());
    commit.sandboxes.push(Change { before: Some(before), after, events });
    match deps.store.commit(commit).await? {
        Committed::Done(mut done) => Ok(done.sandboxes.pop()),
        Committed::Conflict => Ok(None),
    }
}
