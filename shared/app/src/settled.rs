//! Writing a task's move, with what it does to its ticket, and asking for what follows from it.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{telling, work};
use contract::jobs::Job;
use domain::Task;
use domain::task::moves::Moved;
use std::time::Duration;
use store::commit::{Change, Commit, Committed};

/// Writes it; `None` if somebody else was faster. What follows is asked for, and found by the next sweep if that is
/// lost: a place in the queue, a free slot, a time to wait for, others that wait for this task.
pub(crate) async fn write(deps: Deps<'_>, before: &Task, moved: Moved) -> Result<Option<Task>, Error> {
    let now = deps.clock.now();
    let ticket = match &before.ticket {
        Some(id) if before.status != moved.task.status => deps.store.ticket(id).await?,
        _ => None,
    };
    let followed =
        ticket.as_ref().and_then(|ticket| ticket.follow(&moved.task.task_type, moved.task.status, now));
    let mut commit = Commit::new(now);
    commit.tasks.push(telling::task_change(before, moved));
    if let Some(after) = followed {
        let events = vec![telling::event_of(telling::transitioned(ticket.as_ref(), &after))];
        commit.tickets.push(Change { before: ticket.as_ref(), after, events });
    }
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let Some(after) = done.tasks.pop() else { return Ok(None) };
    follow_up(deps, before, &after).await;
    Ok(Some(after))
}

/// Asks for what follows from a task's move.
pub(crate) async fn follow_up(deps: Deps<'_>, before: &Task, after: &Task) {
    let freed = before.status.is_active() && !after.status.is_active();
    let queued = after.place.is_some() && before.place.is_none();
    if freed || queued {
        work::ask(deps.work, &dispatch_job(&after.org)).await;
    }
    if freed
        && after.status.is_final()
        && let Some(sandbox_id) = &after.sandbox
    {
        work::ask(deps.work, &Job::TendSandbox { sandbox_id: sandbox_id.clone() }).await;
    }
    if !after.needs_care() {
        return;
    }
    let wait_ms =
        after.not_before.map_or(0, |when| (when.as_micros() - deps.clock.now().as_micros()).max(0) / 1_000);
    let wait = Duration::from_secs(wait_ms.unsigned_abs().div_ceil(1_000));
    if after.status != domain::task::Status::Validating {
        work::ask_later(deps.work, &Job::TendTask { task_id: after.id.clone() }, wait).await;
    }
}
