//! Checks all watched entities and enqueues the jobs that are due: the safety net for jobs that were lost.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{feedback, reconcile};
use contract::jobs::Job;
use domain::sandbox::reconcile::{Step, next_since};
use domain::{Entity, SandboxId, TaskId, Timestamp};
use std::collections::HashMap;
use store::keys::Watched;

/// Number of enqueued jobs.
pub type Outcome = usize;

/// Number of entries to read in one call.
const PAGE_SIZE: usize = 100;

/// Jobs are idempotent, so enqueueing one again is harmless. A page that cannot be read is skipped, and reported as
/// an error in the end, so that it does not keep other entities from being checked.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    let up_since = reconcile::uptime::record(deps).await?;
    let (mut cursor, mut enqueued, mut failure) = (None, 0, None);
    loop {
        let page = deps.store.watched(cursor.as_ref(), PAGE_SIZE).await?;
        match due(deps, page.items, up_since).await {
            Ok(jobs) => {
                enqueued += jobs.len();
                reconcile::jobs::enqueue_all(deps.orchestration_jobs, &jobs).await;
            }
            Err(error) => failure = Some(error),
        }
        cursor = page.next;
        if cursor.is_none() {
            return failure.map_or(Ok(enqueued), Err);
        }
    }
}

async fn due(deps: Deps<'_>, watched: Vec<Watched>, up_since: Timestamp) -> Result<Vec<Job>, Error> {
    let (mut orgs, mut sandboxes, mut tasks, mut tickets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for entry in watched {
        match entry {
            Watched::Ready(org, _) => orgs.push(org),
            Watched::Entity(Entity::Sandbox(id)) => sandboxes.push(id),
            Watched::Entity(Entity::Task(id)) => tasks.push(id),
            Watched::Entity(Entity::Ticket(id)) => tickets.push(id),
        }
    }
    // They are sorted.
    orgs.dedup();
    let now = deps.clock.now();
    let mut jobs: Vec<Job> = orgs.iter().map(dispatch_job).collect();
    jobs.extend(due_sandboxes(deps, &sandboxes, up_since).await?);
    let tasks = deps.store.tasks(&tasks).await?.into_iter();
    for task in tasks {
        if reconcile::task::is_due(deps, &task, now) {
            jobs.push(Job::ReconcileTask { task_id: task.id.clone() });
        }
        if feedback::read::is_due(&task, now) {
            jobs.push(Job::ReadFeedback { task_id: task.id });
        }
    }
    let tickets = deps.store.tickets(&tickets).await?.into_iter();
    let due = tickets.filter(|ticket| ticket.is_overdue(now) || ticket.merge_is_due(now));
    jobs.extend(due.map(|ticket| Job::ReconcileTicket { ticket_id: ticket.id }));
    Ok(jobs)
}

async fn due_sandboxes(deps: Deps<'_>, ids: &[SandboxId], up_since: Timestamp) -> Result<Vec<Job>, Error> {
    let sandboxes = deps.store.sandboxes_by_id(ids).await?;
    let wanted: Vec<TaskId> =
        sandboxes.iter().filter_map(|sandbox| Some(sandbox.assignment.as_ref()?.task.clone())).collect();
    let mut unique = wanted.clone();
    unique.sort();
    unique.dedup();
    let tasks = deps.store.tasks(&unique).await?;
    let tasks: HashMap<_, _> = tasks.iter().map(|task| (&task.id, task)).collect();
    let now = deps.clock.now();
    let due = sandboxes.iter().filter(|sandbox| {
        let task = sandbox.assignment.as_ref().and_then(|assignment| tasks.get(&assignment.task).copied());
        let thresholds = &deps.orchestration.thresholds;
        !matches!(next_since(sandbox, task, thresholds, Some(up_since), now), Step::Wait { .. })
    });
    Ok(due.map(|sandbox| Job::ReconcileSandbox { sandbox_id: sandbox.id.clone() }).collect())
}
