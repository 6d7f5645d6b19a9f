//! Gives free slots to the tasks that are ready: each gets a sandbox, on paper. Whoever tends that makes it.

mod look;

use crate::error::Error;
use crate::orchestration::Deps;
use crate::{events, race, reconcile};
use contract::jobs::Job;
use domain::attempt::{Assignment, Stage};
use domain::task::transitions::LifecycleEvent;
use domain::{OrgId, Sandbox};
use look::{Seen, look};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

/// Whose tasks.
pub type Command = OrgId;

/// How many tasks were claimed.
pub type Outcome = usize;

/// Most that are claimed in one go: the rest is another job's, so that none takes long.
const AT_ONCE: usize = 25;
/// From so many projects on of which no task is being worked on, they are counted no longer.
const MAX_IDLE: usize = 50;

/// A repeat claims what is still to be claimed. Several at once never claim one task twice: each claim is a transaction
/// on the task, its place in the queue and the slots.
pub async fn run(deps: Deps<'_>, org: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    let mut claimed = 0;
    while claimed < AT_ONCE {
        let slots = deps.store.slots(&org).await?;
        if slots.running >= deps.orchestration.limits.org {
            return Ok(claimed);
        }
        if slots.projects.values().filter(|running| **running == 0).count() >= MAX_IDLE {
            deps.store.forget_idle_projects(&org, &slots).await?;
        }
        let seen = look(deps, &org, &slots, deps.clock.now()).await?;
        // Whoever loses goes for another next time: the others who look now see the same queue.
        let choice = race.choice(seen.candidates.len());
        match claim(deps, &org, seen, choice).await? {
            Claim::Made => {
                claimed += 1;
                race = race::Race::new(deps.clock);
            }
            Claim::Lost => race.lost().await?,
            Claim::NoCandidate => return Ok(claimed),
        }
    }
    reconcile::jobs::ask(deps.work, &Job::Dispatch { org }).await;
    Ok(claimed)
}

enum Claim {
    Made,
    /// Somebody else was faster.
    Lost,
    /// There is none that can be claimed now.
    NoCandidate,
}

/// Claims one of them.
async fn claim(deps: Deps<'_>, org: &OrgId, seen: Seen, choice: usize) -> Result<Claim, Error> {
    let Some(candidate) = seen.candidates.get(choice) else { return Ok(Claim::NoCandidate) };
    let Some(task) = deps.store.task(&candidate.id).await? else { return Ok(Claim::Lost) };
    let now = deps.clock.now();
    let provider = task.execution.provider.as_ref().unwrap_or(&deps.orchestration.default_provider).clone();
    let sandbox = deps.ids.sandbox_for(&task);
    let Some(moved) = task.claim(sandbox.clone(), now) else { return Ok(Claim::Lost) };
    let (ticket, attempt) = (task.ticket.clone(), moved.task.attempt);
    let assignment = Assignment { task: task.id.clone(), ticket, attempt, provider };
    let data = json!({
        "sandbox_id": sandbox, "task_id": task.id, "ticket_id": task.ticket, "attempt": attempt,
        "provider": assignment.provider,
    });
    let told = LifecycleEvent { event_type: Stage::Recorded.event(), data: domain::JsonObject::of(&data) };
    let events = vec![events::emit::event_of(deps.ids, told)];
    let name: String = task.title.chars().take(MAX_NAME_CHARS).collect();
    let head = Sandbox::assigned(sandbox.clone(), org.clone(), name, assignment, now);
    let mut head = head.telling(&events);
    head.version = 1;
    let mut commit = Commit::new(now);
    (commit.limits, commit.turn) = (deps.orchestration.limits, seen.turn);
    commit.tasks.push(events::emit::task_change(deps.ids, &task, moved));
    commit.sandboxes.push(Change { before: None, after: head, events });
    match deps.store.commit(commit).await? {
        Committed::Done(_) => {
            tracing::info!(task.id = %task.id, sandbox.id = %sandbox, "Claimed task {} for sandbox {sandbox}", task.id);
            reconcile::jobs::ask(deps.work, &Job::ReconcileSandbox { sandbox_id: sandbox }).await;
            Ok(Claim::Made)
        }
        Committed::Conflict => Ok(Claim::Lost),
    }
}

/// A sandbox is called as its task, at most so long.
const MAX_NAME_CHARS: usize = 200;
