//! How the sandboxes are doing that the plane looks after: what is heard of them, and which of them the next sweep ends.

use crate::Clock;
use crate::error::Error;
use contract::monitoring::{Monitored, Monitoring};
use domain::access::Principal;
use domain::idle::Thresholds;
use domain::sandbox::reconcile::{Step, next_since};
use domain::uptime::since;
use domain::{OrgId, Sandbox, SandboxId, Task, TaskId, Timestamp};
use std::collections::HashMap;
use store::Store;
use store::sandboxes::Whose;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads what is watched, heads and tasks.
    pub store: &'a Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// After how long what is too long.
    pub thresholds: &'a Thresholds,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which org: an operator may name one, and sees all otherwise.
    pub org: Option<OrgId>,
    /// The last sandbox of the last page.
    pub cursor: Option<SandboxId>,
}

/// A page.
pub type Outcome = Monitoring;

/// How many are on a page.
const PAGE: usize = 200;
/// How many are read at once.
const AT_ONCE: usize = 100;

/// Reads a page.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let whose = match (command.principal, command.org) {
        (Principal::Operator, None) => Whose::All,
        (Principal::Operator, Some(org)) => Whose::Org(org),
        (Principal::User { org: own, .. }, None) => Whose::Org(own),
        (Principal::User { org: own, .. }, Some(org)) if org == own => Whose::Org(own),
        (Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous, _) => {
            return Err(Error::Forbidden("You can see sandboxes of your own org only."));
        }
    };
    let (ids, has_more) = deps.store.watched_sandboxes(&whose, command.cursor.as_ref(), PAGE).await?;
    let now = deps.clock.now();
    let up_since = since(deps.store.uptime().await?.as_ref(), now);
    let (mut sandboxes, mut active_count) = (Vec::new(), 0);
    for some in ids.chunks(AT_ONCE) {
        let heads = heads(deps, some).await?;
        let tasks = tasks(deps, &heads).await?;
        for head in &heads {
            active_count += usize::from(!head.status.is_final());
            sandboxes.push(Monitored::new(head, is_stuck(deps, head, &tasks, up_since, now), now));
        }
    }
    Ok(Monitoring {
        stuck_count: sandboxes.iter().filter(|one| one.stuck).count(),
        sandboxes,
        active_count,
        spec_sandbox_count: 0,
        next_cursor: ids.last().filter(|_| has_more).cloned(),
        has_more,
        timestamp: now,
    })
}

async fn heads(deps: Deps<'_>, ids: &[SandboxId]) -> Result<Vec<Sandbox>, Error> {
    let mut heads = deps.store.sandboxes_by_id(ids).await?;
    heads.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(heads)
}

async fn tasks(deps: Deps<'_>, heads: &[Sandbox]) -> Result<HashMap<TaskId, Task>, Error> {
    let mut wanted: Vec<TaskId> =
        heads.iter().filter_map(|head| Some(head.assignment.as_ref()?.task.clone())).collect();
    wanted.sort();
    wanted.dedup();
    let found = deps.store.tasks(&wanted).await?;
    Ok(found.into_iter().map(|task| (task.id.clone(), task)).collect())
}

/// By the same decision as the sweep's.
fn is_stuck(
    deps: Deps<'_>,
    head: &Sandbox,
    tasks: &HashMap<TaskId, Task>,
    up_since: Timestamp,
    now: Timestamp,
) -> bool {
    let task = head.assignment.as_ref().and_then(|assignment| tasks.get(&assignment.task));
    matches!(next_since(head, task, deps.thresholds, Some(up_since), now), Step::End(_))
}
