//! Looks at everything that has to be looked at every so often, and asks for what is due: the safety net under the jobs,
//! any of which may be lost.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::reconcile;
use contract::jobs::Job;
use domain::sandbox::reconcile::{Step, next_since};
use domain::{Entity, SandboxId, TaskId, Timestamp};
use std::collections::HashMap;
use store::keys::Watched;

/// How much was asked for.
pub type Outcome = usize;

/// How many are looked at between two calls of the table.
const AT_ONCE: usize = 100;

/// A repeat asks again, and whoever is asked finds it done. Whatever cannot be read is passed over with those that were
/// read with it, and told in the end: it must not keep the others from being looked at.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    let up_since = reconcile::uptime::look(deps).await?;
    let (mut after, mut asked, mut failure) = (None, 0, None);
    loop {
        let page = deps.store.watched(after, AT_ONCE).await?;
        match due(deps, page.watched, up_since).await {
            Ok(jobs) => {
                asked += jobs.len();
                reconcile::jobs::ask_all(deps.work, &jobs).await;
            }
            Err(error) => failure = Some(error),
        }
        after = page.next;
        if after.is_none() {
            return failure.map_or(Ok(asked), Err);
        }
    }
}

async fn due(deps: Deps<'_>, watched: Vec<Watched>, up_since: Timestamp) -> Result<Vec<Job>, Error> {
    let (mut orgs, mut sandboxes, mut tasks, mut tickets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for one in watched {
        match one {
            Watched::Ready(org, _) => orgs.push(org),
            Watched::Entity(Entity::Sandbox(id)) => sandboxes.push(id),
            Watched::Entity(Entity::Task(id)) => tasks.push(id),
            Watched::Entity(Entity::Ticket(id)) => tickets.push(id),
        }
    }
    // They come in the order of their names.
    orgs.dedup();
    let now = deps.clock.now();
    let mut jobs: Vec<Job> = orgs.iter().map(dispatch_job).collect();
    jobs.extend(due_sandboxes(deps, &sandboxes, up_since).await?);
    let tasks = deps.store.tasks(&tasks).await?.into_iter();
    let due = tasks.filter(|task| reconcile::task::is_due(deps, task, now));
    jobs.extend(due.map(|task| Job::ReconcileTask { task_id: task.id }));
    let tickets = deps.store.tickets(&tickets).await?.into_iter();
    let overdue = tickets.filter(|ticket| ticket.is_overdue(now));
    jobs.extend(overdue.map(|ticket| Job::ReconcileTicket { ticket_id: ticket.id }));
    Ok(jobs)
}

async fn due_sandboxes(deps: Deps<'_>, ids: &[SandboxId], up_since: Timestamp) -> Result<Vec<Job>, Error> {
    let heads = deps.store.sandboxes_by_id(ids).await?;
    let wanted: Vec<TaskId> =
        heads.iter().filter_map(|head| Some(head.assignment.as_ref()?.task.clone())).collect();
    let mut unique = wanted.clone();
    unique.sort();
    unique.dedup();
    let tasks = deps.store.tasks(&unique).await?;
    let tasks: HashMap<_, _> = tasks.iter().map(|task| (&task.id, task)).collect();
    let now = deps.clock.now();
    let due = heads.iter().filter(|head| {
        let task = head.assignment.as_ref().and_then(|assignment| tasks.get(&assignment.task).copied());
        let thresholds = &deps.orchestration.thresholds;
        !matches!(next_since(head, task, thresholds, Some(up_since), now), Step::Wait { .. })
    });
    Ok(due.map(|head| Job::ReconcileSandbox { sandbox_id: head.id.clone() }).collect())
}
