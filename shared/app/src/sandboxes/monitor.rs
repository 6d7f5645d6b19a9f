//! Lists the sandboxes that the plane reconciles, with their last signals, and which of them the next sweep would
//! end.

use crate::error::Error;
use crate::{Clock, visibility};
use contract::monitoring::{Monitored, Monitoring};
use domain::access::Principal;
use domain::idle::Thresholds;
use domain::sandbox::reconcile::{Step, next_since};
use domain::uptime::since;
use domain::{OrgId, Sandbox, SandboxId, Task, TaskId, Timestamp};
use std::collections::HashMap;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
    pub thresholds: &'a Thresholds,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// Only operators may name another org than their own. Without one they list all orgs.
    pub org: Option<OrgId>,
    /// The last sandbox of the previous page.
    pub cursor: Option<SandboxId>,
}

pub type Outcome = Monitoring;

/// Number of sandboxes on a page.
const PAGE_SIZE: usize = 200;
/// Number of sandboxes to read in one call.
const READ_SIZE: usize = 100;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let scope = visibility::list_scope(&command.principal, command.org)?;
    let (ids, has_more) = deps.store.watched_sandboxes(&scope, command.cursor.as_ref(), PAGE_SIZE).await?;
    let now = deps.clock.now();
    let up_since = since(deps.store.uptime().await?.as_ref(), now);
    let (mut monitored, mut active_count) = (Vec::new(), 0);
    for chunk in ids.chunks(READ_SIZE) {
        let mut sandboxes = deps.store.sandboxes_by_id(chunk).await?;
        sandboxes.sort_by(|left, right| left.id.cmp(&right.id));
        let tasks = tasks(deps, &sandboxes).await?;
        for sandbox in &sandboxes {
            active_count += usize::from(!sandbox.status().is_final());
            monitored.push(Monitored::new(sandbox, is_stuck(deps, sandbox, &tasks, up_since, now), now));
        }
    }
    Ok(Monitoring {
        stuck_count: monitored.iter().filter(|sandbox| sandbox.stuck).count(),
        sandboxes: monitored,
        active_count,
        spec_sandbox_count: 0,
        next_cursor: ids.last().filter(|_| has_more).cloned(),
        has_more,
        timestamp: now,
    })
}

async fn tasks(deps: Deps<'_>, sandboxes: &[Sandbox]) -> Result<HashMap<TaskId, Task>, Error> {
    let mut wanted: Vec<TaskId> =
        sandboxes.iter().filter_map(|sandbox| Some(sandbox.assignment.as_ref()?.task.clone())).collect();
    wanted.sort();
    wanted.dedup();
    let found = deps.store.tasks(&wanted).await?;
    Ok(found.into_iter().map(|task| (task.id.clone(), task)).collect())
}

/// Uses the same decision as the sweep.
fn is_stuck(
    deps: Deps<'_>,
    sandbox: &Sandbox,
    tasks: &HashMap<TaskId, Task>,
    up_since: Timestamp,
    now: Timestamp,
) -> bool {
    let task = sandbox.assignment.as_ref().and_then(|assignment| tasks.get(&assignment.task));
    matches!(next_since(sandbox, task, deps.thresholds, Some(up_since), now), Step::End(_))
}
