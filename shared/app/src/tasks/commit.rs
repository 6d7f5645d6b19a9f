//! Writing a task's move, with what it does to its ticket and the task that comes after it, and asking for what follows
//! from it.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{events, reconcile};
use contract::jobs::Job;
use domain::task::transitions::Transition;
use domain::ticket::next_task;
use domain::{Task, Ticket, Timestamp};
use std::time::Duration;
use store::commit::{Change, Commit, Committed};

/// Writes it; `None` if somebody else was faster. A task that others of its ticket follow brings the next one into the
/// queue in the same transaction, once. What else follows is asked for, and found by the next sweep if that is lost: a
/// place in the queue, a free slot, a time to wait for, others that wait for this task.
pub(crate) async fn write(deps: Deps<'_>, before: &Task, moved: Transition) -> Result<Option<Task>, Error> {
    let now = deps.clock.now();
    let ticket = match &before.ticket {
        Some(id) if before.status != moved.task.status => deps.store.ticket(id).await?,
        _ => None,
    };
    let mut commit = Commit::new(now);
    let mut next = None;
    if let Some(ticket) = &ticket {
        if let Some(after) = ticket.follow(&moved.task.task_type, moved.task.status, now) {
            let events = events::emit::followed(deps.ids, ticket, &after, &moved.task);
            commit.tickets.push(Change { before: Some(ticket), after, events });
        }
        next = next_of(deps, ticket, &moved.task, now).await?;
    }
    commit.tasks.push(events::emit::task_change(deps.ids, before, moved));
    let goes_on = next.is_some();
    commit.tasks.extend(next);
    let Committed::Done(done) = deps.store.commit(commit).await? else { return Ok(None) };
    let Some(after) = done.tasks.into_iter().next() else { return Ok(None) };
    if goes_on {
        reconcile::jobs::ask(deps.work, &dispatch_job(&after.org)).await;
    }
    follow_up(deps, before, &after).await;
    Ok(Some(after))
}

/// The task that follows this one, unless there is one under its id already: a conflict with that would be lost for ever.
async fn next_of(
    deps: Deps<'_>,
    ticket: &Ticket,
    task: &Task,
    now: Timestamp,
) -> Result<Option<Change<'static, Task>>, Error> {
    let Some((id, next)) = next_task(ticket, task) else { return Ok(None) };
    if deps.store.task(&id).await?.is_some() {
        return Ok(None);
    }
    let created = next.into_task(id, now).created(&deps.orchestration.weights, now);
    let events = events::emit::events_of(deps.ids, created.events);
    Ok(Some(Change { before: None, after: created.task, events }))
}

/// Asks for what follows from a task's move.
pub(crate) async fn follow_up(deps: Deps<'_>, before: &Task, after: &Task) {
    let freed = before.status.is_active() && !after.status.is_active();
    let queued = after.place.is_some() && before.place.is_none();
    if freed || queued {
        reconcile::jobs::ask(deps.work, &dispatch_job(&after.org)).await;
    }
    if freed
        && after.status.is_final()
        && let Some(sandbox_id) = &after.sandbox
    {
        reconcile::jobs::ask(deps.work, &Job::ReconcileSandbox { sandbox_id: sandbox_id.clone() }).await;
    }
    if !after.needs_reconcile() {
        return;
    }
    let wait_ms =
        after.not_before.map_or(0, |when| (when.as_micros() - deps.clock.now().as_micros()).max(0) / 1_000);
    let wait = Duration::from_secs(wait_ms.unsigned_abs().div_ceil(1_000));
    if after.status != domain::task::Status::Validating {
        reconcile::jobs::ask_later(deps.work, &Job::ReconcileTask { task_id: after.id.clone() }, wait).await;
    }
}
