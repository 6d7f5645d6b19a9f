//! Removing a sandbox: at its provider, with its mailbox and its tokens. Its log and its agent's record stay.

use super::making::{closed_until, jitter, note_health};
use super::{Deps, Flow, write};
use crate::error::Error;
use crate::terminate_sandbox;
use domain::head::Status;
use domain::retry::backoff_secs;
use domain::{Head, Timestamp};
use providers::Gone;
use serde_json::json;

/// How soon to look again whether it is gone.
const POLL_SECS: i64 = 2;
/// From so many failures on somebody should look.
const WORRYING: u32 = 10;

pub(super) async fn run(deps: Deps<'_>, head: Head) -> Result<Flow, Error> {
    let Some(assignment) = &head.assignment else { return Ok(Flow::Rest(None)) };
    let now = deps.deps.clock.now();
    let Some(provider) = deps.providers.get(&assignment.provider) else {
        // It may come back with the next configuration; until then nobody can say that it is gone.
        tracing::error!(sandbox.id = %head.id, "There is no provider {} to remove {}", assignment.provider, head.id);
        return put_off(deps, &head, now.plus_secs(600)).await;
    };
    if let Some(until) = closed_until(deps, provider.name()).await? {
        return put_off(deps, &head, until).await;
    }
    let gone = provider.destroy(&head.id).await;
    note_health(deps, provider.name(), &gone).await;
    match gone {
        Ok(Gone::Yes) => {}
        Ok(Gone::NotYet) => return put_off(deps, &head, now.plus_secs(POLL_SECS)).await,
        Err(failure) => {
            let tries = head.activity.spawn.as_ref().map_or(0, |spawn| spawn.tries) + 1;
            let id = &head.id;
            if tries >= WORRYING {
                tracing::error!(sandbox.id = %id, "Could not remove sandbox {id} (try {tries}): {failure}");
            } else {
                tracing::warn!(sandbox.id = %id, "Could not remove sandbox {id} (try {tries}): {failure}");
            }
            return later(deps, &head, tries).await;
        }
    }
    // Before it counts as removed: whoever dies in between comes back to it.
    let steering = crate::steering::Deps {
        store: deps.deps.store,
        mailboxes: deps.mailboxes,
        lanes: deps.lanes,
        clock: deps.deps.clock,
    };
    let wound_up = finished(deps, &head).await?;
    let Some(head) = wound_up else { return Ok(Flow::Lost) };
    let head = terminate_sandbox::wind_up(steering, &head.id).await?;
    if !head.needs_care() {
        // Somebody else was at it too, and has said so.
        return Ok(Flow::Again);
    }
    let now = deps.deps.clock.now();
    let data = json!({"task_id": head.assignment.as_ref().map(|assignment| &assignment.task)});
    let written = write(deps.deps, &head, Some(("released", data)), |after| {
        after.generation += 1;
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.released_at = Some(now);
            (spawn.lease_until, spawn.next_try_at, spawn.tries) = (None, None, 0);
        }
    })
    .await?;
    if written.is_some() {
        tracing::info!(sandbox.id = %head.id, "Removed sandbox {}", head.id);
    }
    Ok(written.map_or(Flow::Lost, |_| Flow::Again))
}

/// One whose agent was done is completed now.
async fn finished(deps: Deps<'_>, head: &Head) -> Result<Option<Head>, Error> {
    if head.status.is_final() {
        return Ok(Some(head.clone()));
    }
    let now = deps.deps.clock.now();
    let data = json!({"task_id": head.assignment.as_ref().map(|assignment| &assignment.task)});
    write(deps.deps, head, Some(("completed", data)), |after| {
        after.status = Status::Completed;
        let reason = "The task is done.".to_owned();
        after.activity.ended.get_or_insert(domain::head::Ended { at: now, reason });
    })
    .await
}

async fn later(deps: Deps<'_>, head: &Head, tries: u32) -> Result<Flow, Error> {
    let now = deps.deps.clock.now();
    #[expect(clippy::cast_possible_truncation, reason = "a minute or so")]
    let wait_micros = (backoff_secs(tries - 1, jitter(now)) * 1_000_000.0) as i64;
    let until = Timestamp::from_micros(now.as_micros() + wait_micros);
    let written = write(deps.deps, head, None, |after| {
        if let Some(spawn) = &mut after.activity.spawn {
            spawn.tries = tries;
            (spawn.lease_until, spawn.next_try_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Rest(Some(until))))
}

async fn put_off(deps: Deps<'_>, head: &Head, until: Timestamp) -> Result<Flow, Error> {
    let written = write(deps.deps, head, None, |after| {
        if let Some(spawn) = &mut after.activity.spawn {
            (spawn.lease_until, spawn.next_try_at) = (None, Some(until));
        }
    })
    .await?;
    Ok(written.map_or(Flow::Lost, |_| Flow::Rest(Some(until))))
}
