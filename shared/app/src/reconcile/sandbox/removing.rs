//! Removing a sandbox: at its provider, with its mailbox and its tokens. Its log and its agent's record stay.

use super::making::{busy_secs, in_time};
use super::{Deps, Flow, write};
use crate::error::Error;
use crate::sandboxes;
use domain::attempt::Stage;
use domain::pace::removal_wait_secs;
use domain::sandbox::Status;
use domain::{Sandbox, Timestamp};
use providers::{FailureClass, Gone};
use serde_json::json;

/// How soon to look again where nobody is left to ask. It may come back with the next configuration; until then nobody
/// can say that it is gone.
const NOBODY_SECS: f64 = 600.0;
/// From so many looks on somebody should look.
const WORRYING: u32 = 10;

pub(super) async fn run(deps: Deps<'_>, head: Sandbox) -> Result<Flow, Error> {
    let asked = head.activity.spawn.as_ref().is_some_and(|spawn| spawn.stage.asks_the_provider());
    if asked && let Some(wait_secs) = remove(deps, &head).await {
        return later(deps, &head, wait_secs).await;
    }
    // Before it counts as removed: whoever dies in between comes back to it.
    let steering = crate::messages::Deps {
        store: deps.deps.store,
        mailboxes: deps.mailboxes,
        lanes: deps.lanes,
        clock: deps.deps.clock,
        ids: deps.deps.ids,
    };
    let wound_up = finished(deps, &head).await?;
    let Some(head) = wound_up else { return Ok(Flow::Lost) };
    let head = sandboxes::terminate::wind_up(steering, &head.id).await?;
    if !head.needs_reconcile() {
        // Somebody else was at it too, and has said so.
        return Ok(Flow::Again);
    }
    let now = deps.deps.clock.now();
    let data = json!({"task_id": head.assignment.as_ref().map(|assignment| &assignment.task)});
    let written = write(deps.deps, &head, Some(("released", data)), |after| {
        after.generation += 1;
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.released_at = Some(now);
            (spawn.lease_until, spawn.retry_at, spawn.tries) = (None, None, 0);
        }
    })
    .await?;
    if written.is_some() {
        tracing::info!(sandbox.id = %head.id, "Removed sandbox {}", head.id);
    }
    Ok(written.map_or(Flow::Lost, |_| Flow::Again))
}

/// One whose agent was done is completed now.
async fn finished(deps: Deps<'_>, head: &Sandbox) -> Result<Option<Sandbox>, Error> {
    if head.status.is_final() {
        return Ok(Some(head.clone()));
    }
    let now = deps.deps.clock.now();
    let data = json!({"task_id": head.assignment.as_ref().map(|assignment| &assignment.task)});
    write(deps.deps, head, Some(("completed", data)), |after| {
        after.status = Status::Completed;
        let reason = "The task is done.".to_owned();
        after.activity.ended.get_or_insert(domain::sandbox::Ended { at: now, reason });
    })
    .await
}

/// Has the provider remove it. How long to wait before the next look, if it is not gone.
async fn remove(deps: Deps<'_>, head: &Sandbox) -> Option<f64> {
    let (id, assignment) = (&head.id, head.assignment.as_ref()?);
    let Some(provider) = deps.providers.get(&assignment.provider) else {
        tracing::error!(sandbox.id = %id, "There is no provider {} to remove {id}", assignment.provider);
        return Some(NOBODY_SECS);
    };
    let looks = looks(head);
    let (why, asked_to_wait) = match in_time(Stage::Creating.most_secs(), provider.destroy(id)).await {
        Ok(Gone::Yes) => return None,
        Ok(Gone::NotYet) => ("it is still there".to_owned(), None),
        Err(failure) => {
            let wait = match failure.class {
                FailureClass::Busy { retry_after_secs } => Some(busy_secs(retry_after_secs)),
                FailureClass::Unreachable | FailureClass::Refused => None,
            };
            (failure.message, wait)
        }
    };
    match looks {
        ..WORRYING => {
            tracing::info!(sandbox.id = %id, "Sandbox {id} is not removed yet (look {looks}): {why}");
        }
        WORRYING.. => {
            tracing::error!(sandbox.id = %id, "Could not remove sandbox {id} (look {looks}): {why}");
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a minute at most")]
    let usual = removal_wait_secs(looks) as f64;
    Some(asked_to_wait.unwrap_or(usual))
}

/// How often somebody has looked, with this time.
fn looks(head: &Sandbox) -> u32 {
    head.activity.spawn.as_ref().map_or(0, |spawn| spawn.tries) + 1
}

async fn later(deps: Deps<'_>, head: &Sandbox, wait_secs: f64) -> Result<Flow, Error> {
    let now = deps.deps.clock.now();
    #[expect(clippy::cast_possible_truncation, reason = "some minutes")]
    let until = Timestamp::from_micros(now.as_micros() + (wait_secs * 1_000_000.0) as i64);
    let written = write(deps.deps, head, None, |after| {
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.tries = looks(head);
            (spawn.lease_until, spawn.retry_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Rest(Some(until))))
}
