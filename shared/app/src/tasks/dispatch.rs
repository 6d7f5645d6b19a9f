//! Claims ready tasks while there are free slots. A claim records a sandbox, which the reconciler then provisions.

mod candidates;

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::Deps;
use crate::{events, reconcile};
use candidates::{QueueScan, scan};
use contract::jobs::Job;
use contract::payloads::SandboxStage;
use domain::attempt::{Assignment, Stage};
use domain::{OrgId, Sandbox};
use store::commit::{Change, Commit, Committed};

/// The org whose tasks to claim.
pub type Command = OrgId;

/// Number of claimed tasks.
pub type Outcome = usize;

/// Maximum number of claims of one job. Another job claims the rest.
const MAX_CLAIMS: usize = 25;
/// Number of idle projects from which on their counters are removed.
const MAX_IDLE_PROJECTS: usize = 50;

/// Idempotent. Concurrent runs never claim a task twice: a claim is one transaction on the task, its place in the
/// queue and the slots.
pub async fn run(deps: Deps<'_>, org: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    let mut claimed = 0;
    while claimed < MAX_CLAIMS {
        let slots = deps.store.slots(&org).await?;
        if slots.running >= deps.orchestration.limits.org {
            return Ok(claimed);
        }
        if slots.projects.values().filter(|running| **running == 0).count() >= MAX_IDLE_PROJECTS {
            deps.store.remove_idle_projects(&org, &slots).await?;
        }
        let scanned = scan(deps, &org, &slots, deps.clock.now()).await?;
        // On a conflict, pick another candidate: concurrent runs see the same queue.
        let choice = retry.pick(scanned.candidates.len());
        match claim(deps, &org, scanned, choice).await? {
            Claim::Claimed => {
                claimed += 1;
                retry = ConflictRetry::new(deps.clock);
            }
            Claim::Conflict => retry.conflict().await?,
            Claim::NoCandidate => return Ok(claimed),
        }
    }
    reconcile::jobs::enqueue(deps.orchestration_jobs, &Job::Dispatch { org }).await;
    Ok(claimed)
}

enum Claim {
    Claimed,
    /// Another run claimed the task first.
    Conflict,
    /// No task can be claimed now.
    NoCandidate,
}

async fn claim(deps: Deps<'_>, org: &OrgId, scanned: QueueScan, choice: usize) -> Result<Claim, Error> {
    let Some(candidate) = scanned.candidates.get(choice) else { return Ok(Claim::NoCandidate) };
    let Some(task) = deps.store.task(&candidate.id).await? else { return Ok(Claim::Conflict) };
    let now = deps.clock.now();
    let provider = task.execution.provider.as_ref().unwrap_or(&deps.orchestration.default_provider).clone();
    let sandbox_id = deps.ids.sandbox_for(&task);
    let Some(transition) = task.claim(sandbox_id.clone(), now) else { return Ok(Claim::Conflict) };
    let (ticket, attempt) = (task.ticket.clone(), transition.task.attempt);
    let assignment = Assignment { task: task.id.clone(), ticket, attempt, provider };
    let event = Stage::Recorded.event(SandboxStage::new(assignment.of(&sandbox_id)));
    let events = vec![events::emit::event_of(deps.ids, event)];
    let name: String = task.title.chars().take(MAX_NAME_CHARS).collect();
    let sandbox = Sandbox::assigned(sandbox_id.clone(), org.clone(), name, assignment, now);
    let mut sandbox = sandbox.with_events(&events);
    sandbox.version = 1;
    let mut commit = Commit::new(now);
    (commit.limits, commit.queue_cursor) = (deps.orchestration.limits, scanned.cursor);
    commit.tasks.push(events::emit::task_change(deps.ids, &task, transition));
    commit.sandboxes.push(Change { before: None, after: sandbox, events });
    match deps.store.commit(commit).await? {
        Committed::Done(_) => {
            tracing::info!(task.id = %task.id, sandbox.id = %sandbox_id, "Claimed task {} for sandbox {sandbox_id}", task.id);
            reconcile::jobs::enqueue(deps.orchestration_jobs, &Job::ReconcileSandbox { sandbox_id }).await;
            Ok(Claim::Claimed)
        }
        Committed::Conflict => Ok(Claim::Conflict),
    }
}

/// Maximum length of a sandbox's name, which is the title of its task.
const MAX_NAME_CHARS: usize = 200;
