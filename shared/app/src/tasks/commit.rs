//! Commits a transition of a task with its effects on the ticket and on the next task, and enqueues the jobs that
//! follow.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{events, reconcile};
use contract::jobs::Job;
use domain::task::transitions::Transition;
use domain::ticket::next_task;
use domain::{Task, Ticket, Timestamp};
use std::time::Duration;
use store::commit::{Change, Commit, Committed};

/// Returns `None` on a conflict. If another task of the ticket follows this one, the same transaction creates it. All
/// other effects are jobs, which the next sweep enqueues again if they are lost: dispatching the queue, using a free
/// slot, waiting for a time, and unblocking dependents.
pub(crate) async fn write(
    deps: Deps<'_>,
    before: &Task,
    transition: Transition,
) -> Result<Option<Task>, Error> {
    let now = deps.clock.now();
    let ticket = match &before.ticket {
        Some(id) if before.status != transition.task.status => deps.store.ticket(id).await?,
        _ => None,
    };
    let mut commit = Commit::new(now);
    let mut next = None;
    if let Some(ticket) = &ticket {
        if let Some(after) = ticket.follow(&transition.task.task_type, transition.task.status, now) {
            let events = events::emit::ticket_events(deps.ids, ticket, &after, &transition.task);
            commit.tickets.push(Change { before: Some(ticket), after, events });
        }
        next = next_of(deps, ticket, &transition.task, now).await?;
    }
    commit.tasks.push(events::emit::task_change(deps.ids, before, transition));
    let has_next = next.is_some();
    commit.tasks.extend(next);
    let Committed::Done(done) = deps.store.commit(commit).await? else { return Ok(None) };
    let Some(after) = done.tasks.into_iter().next() else { return Ok(None) };
    if has_next {
        reconcile::jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&after.org)).await;
    }
    enqueue_follow_ups(deps, before, &after).await;
    Ok(Some(after))
}

/// The task that follows this one, unless its id already exists: the commit would conflict with that forever.
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

/// Enqueues the jobs that follow from a transition of a task.
pub(crate) async fn enqueue_follow_ups(deps: Deps<'_>, before: &Task, after: &Task) {
    let freed = before.status.is_active() && !after.status.is_active();
    let queued = after.place.is_some() && before.place.is_none();
    if freed || queued {
        reconcile::jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&after.org)).await;
    }
    if freed
        && after.status.is_final()
        && let Some(sandbox_id) = &after.sandbox
    {
        reconcile::jobs::enqueue(
            deps.orchestration_jobs,
            &Job::ReconcileSandbox { sandbox_id: sandbox_id.clone() },
        )
        .await;
    }
    if !after.awaits_transition() {
        return;
    }
    let wait_ms =
        after.not_before.map_or(0, |when| (when.as_micros() - deps.clock.now().as_micros()).max(0) / 1_000);
    let wait = Duration::from_secs(wait_ms.unsigned_abs().div_ceil(1_000));
    if after.status != domain::task::Status::Validating {
        reconcile::jobs::enqueue_later(
            deps.orchestration_jobs,
            &Job::ReconcileTask { task_id: after.id.clone() },
            wait,
        )
        .await;
    }
}
