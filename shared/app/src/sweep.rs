//! Looks at everything that has to be looked at every so often, and asks for what is due: the safety net under the jobs,
//! any of which may be lost.

use crate::error::Error;
use crate::orchestration::{Deps, dispatch_job};
use crate::{tend_task, work};
use contract::jobs::Job;
use domain::care::{self, Step};
use domain::{Entity, SandboxId, TaskId};
use std::collections::HashMap;
use store::keys::Watched;

/// How much was asked for.
pub type Outcome = usize;

/// How many are looked at between two calls of the table.
const AT_ONCE: usize = 100;

/// A repeat asks again, and whoever is asked finds it done.
pub async fn run(deps: Deps<'_>) -> Result<Outcome, Error> {
    let (mut after, mut asked) = (None, 0);
    loop {
        let page = deps.store.watched(after, AT_ONCE).await?;
        for job in due(deps, page.watched).await? {
            work::ask(deps.work, &job).await;
            asked += 1;
        }
        after = page.next;
        if after.is_none() {
            return Ok(asked);
        }
    }
}

async fn due(deps: Deps<'_>, watched: Vec<Watched>) -> Result<Vec<Job>, Error> {
    let (mut jobs, mut sandboxes, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    let now = deps.clock.now();
    for one in watched {
        match one {
            Watched::Queue(org) => jobs.push(dispatch_job(&org)),
            Watched::Entity(Entity::Sandbox(id)) => sandboxes.push(id),
            Watched::Entity(Entity::Task(id)) => tasks.push(id),
            Watched::Entity(Entity::Ticket(id)) => {
                let overdue = deps.store.ticket(&id).await?.is_some_and(|ticket| ticket.is_overdue(now));
                jobs.extend(overdue.then_some(Job::TendTicket { ticket_id: id }));
            }
        }
    }
    jobs.extend(due_sandboxes(deps, &sandboxes).await?);
    for task in deps.store.tasks(&tasks).await? {
        if tend_task::is_due(deps, &task, now) {
            jobs.push(Job::TendTask { task_id: task.id });
        }
    }
    Ok(jobs)
}

async fn due_sandboxes(deps: Deps<'_>, ids: &[SandboxId]) -> Result<Vec<Job>, Error> {
    let heads = deps.store.heads_by_id(ids).await?;
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
        !matches!(care::next(head, task, &deps.orchestration.thresholds, now), Step::Rest { .. })
    });
    Ok(due.map(|head| Job::TendSandbox { sandbox_id: head.id.clone() }).collect())
}
