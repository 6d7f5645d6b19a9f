//! Releases a sandbox: deletes it at its provider, deletes its mailbox and revokes its tokens. Its log and its
//! agent's transcript are kept.

use super::provision::{busy_secs, with_timeout};
use super::{Deps, Flow, write};
use crate::clock::jitter;
use crate::error::Error;
use crate::sandboxes;
use contract::payloads::{SandboxCompleted, SandboxReleased};
use domain::TaskId;
use domain::attempt::Stage;
use domain::event::LifecycleEvent;
use domain::sandbox::transitions::Trigger;
use domain::timeouts::deletion_wait_secs;
use domain::{Sandbox, Timestamp};
use providers::{Deletion, FailureClass};

/// Retry interval if the provider is not configured. The next configuration may have it again.
const UNKNOWN_PROVIDER_RETRY_SECS: f64 = 600.0;
/// Number of attempts from which on a failure is logged as an error.
const ERROR_ATTEMPTS: u32 = 10;

pub(super) async fn run(deps: Deps<'_>, sandbox: Sandbox) -> Result<Flow, Error> {
    let may_exist = sandbox
        .activity
        .provisioning
        .as_ref()
        .is_some_and(|provisioning| provisioning.stage.needs_provider());
    if may_exist && let Some(wait_secs) = delete(deps, &sandbox).await {
        return retry_later(deps, &sandbox, wait_secs).await;
    }
    // Cleared before the sandbox counts as released, so that a crash in between is recovered.
    let messages = crate::messages::Deps {
        store: deps.store,
        mailboxes: deps.mailboxes,
        locks: deps.locks,
        clock: deps.clock,
        ids: deps.ids,
    };
    let Some(sandbox) = complete(deps, &sandbox).await? else { return Ok(Flow::Conflict) };
    let sandbox = sandboxes::terminate::clear_mailbox(messages, &sandbox.id).await?;
    if !sandbox.needs_reconcile() {
        // Another process has released it.
        return Ok(Flow::Continue);
    }
    let now = deps.clock.now();
    let released = LifecycleEvent::new(&SandboxReleased { task_id: task_of(&sandbox) });
    let written = write(*deps, &sandbox, Some(released), |after| {
        after.generation += 1;
        if let Some(provisioning) = &mut after.activity.provisioning {
            provisioning.released_at = Some(now);
            (provisioning.lease_until, provisioning.retry_at, provisioning.attempts) = (None, None, 0);
        }
    })
    .await?;
    if written.is_some() {
        tracing::info!(sandbox.id = %sandbox.id, "Released sandbox {}", sandbox.id);
    }
    Ok(written.map_or(Flow::Conflict, |_| Flow::Continue))
}

/// Completes a sandbox whose agent has finished.
async fn complete(deps: Deps<'_>, sandbox: &Sandbox) -> Result<Option<Sandbox>, Error> {
    if sandbox.status().is_final() {
        return Ok(Some(sandbox.clone()));
    }
    let now = deps.clock.now();
    let completed = LifecycleEvent::new(&SandboxCompleted { task_id: task_of(sandbox) });
    write(*deps, sandbox, Some(completed), |after| {
        after.transition(Trigger::Released);
        let reason = "The task is completed.".to_owned();
        after.activity.ended.get_or_insert(domain::sandbox::Ended { at: now, reason });
    })
    .await
}

fn task_of(sandbox: &Sandbox) -> Option<TaskId> {
    sandbox.assignment.as_ref().map(|assignment| assignment.task.clone())
}

/// Deletes the sandbox at its provider. Returns how long to wait before the next attempt, if it still exists.
async fn delete(deps: Deps<'_>, sandbox: &Sandbox) -> Option<f64> {
    let (id, assignment) = (&sandbox.id, sandbox.assignment.as_ref()?);
    let Some(provider) = deps.providers.get(&assignment.provider) else {
        tracing::error!(sandbox.id = %id, "Provider {} is not configured; cannot delete sandbox {id}", assignment.provider);
        return Some(UNKNOWN_PROVIDER_RETRY_SECS);
    };
    let attempt = attempt(sandbox);
    let (reason, retry_after) = match with_timeout(Stage::Creating.timeout_secs(), provider.destroy(id)).await
    {
        Ok(Deletion::Done) => return None,
        Ok(Deletion::InProgress) => ("deletion is in progress".to_owned(), None),
        Err(failure) => {
            let wait = match failure.class {
                FailureClass::Busy { retry_after_secs } => Some(busy_secs(retry_after_secs)),
                FailureClass::Unreachable | FailureClass::Refused => None,
            };
            (failure.message, wait)
        }
    };
    match attempt {
        ..ERROR_ATTEMPTS => {
            tracing::info!(sandbox.id = %id, "Sandbox {id} is not deleted yet (attempt {attempt}): {reason}");
        }
        ERROR_ATTEMPTS.. => {
            tracing::error!(sandbox.id = %id, "Could not delete sandbox {id} (attempt {attempt}): {reason}");
        }
    }
    Some(retry_after.unwrap_or_else(|| deletion_wait_secs(attempt, jitter(deps.clock.now()))))
}

/// The number of this attempt.
fn attempt(sandbox: &Sandbox) -> u32 {
    sandbox.activity.provisioning.as_ref().map_or(0, |provisioning| provisioning.attempts) + 1
}

async fn retry_later(deps: Deps<'_>, sandbox: &Sandbox, wait_secs: f64) -> Result<Flow, Error> {
    let now = deps.clock.now();
    #[expect(clippy::cast_possible_truncation, reason = "some minutes")]
    let until = Timestamp::from_micros(now.as_micros() + (wait_secs * 1_000_000.0) as i64);
    let written = write(*deps, sandbox, None, |after| {
        if let Some(provisioning) = &mut after.activity.provisioning {
            provisioning.attempts = attempt(sandbox);
            (provisioning.lease_until, provisioning.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Conflict, |_| Flow::Wait(Some(until))))
}
