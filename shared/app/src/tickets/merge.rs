//! Starts the merge of all finished branches of a ticket. `reconcile::ticket_merge` performs it.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::Deps;
use crate::{events, reconcile, tickets};
use contract::ProblemCode;
use contract::jobs::Job;
use contract::payloads::TicketMergeStarted;
use contract::tickets::MergeTicket;
use domain::access::Principal;
use domain::event::LifecycleEvent;
use domain::message::Sender;
use domain::task::Status;
use domain::ticket::merge::{BranchMerge, MAX_BRANCHES, MergeState, TicketMerge};
use domain::{Task, Ticket, TicketId, Timestamp};
use serde_json::json;
use std::collections::BTreeSet;
use store::commit::{Change, Commit, Committed};

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub ticket: TicketId,
    pub request: MergeTicket,
}

pub type Outcome = Ticket;

/// Maximum number of tasks of a ticket that are searched, newest first.
const MAX_TASKS: usize = 100;

/// Idempotent: a merge that is running goes on as it was requested.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, ticket: id, request } = command;
    let mut retry = ConflictRetry::new(deps.clock);
    let ticket = loop {
        let ticket = tickets::visible(deps.store, &principal, &id).await?;
        if ticket.merge.as_ref().is_some_and(TicketMerge::is_running) {
            break ticket;
        }
        let now = deps.clock.now();
        let branches = finished_branches(deps, &ticket, now).await?;
        let task_ids = branches.iter().map(|branch| branch.task_id.clone()).collect();
        let started = TicketMergeStarted {
            ticket_id: id.clone(),
            task_ids,
            method: request.method,
            resolve_conflicts: request.resolve_conflicts,
            by: Sender::of(&principal),
        };
        let merge = TicketMerge {
            state: MergeState::Running,
            method: request.method,
            delete_branches: request.delete_branch,
            resolve_conflicts: request.resolve_conflicts,
            by: started.by.clone(),
            started_at: now,
            ended_at: None,
            branches,
            is_ordered: false,
            next_at: now,
            failures: 0,
        };
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::new(&started))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after: ticket.with_merge(merge, now), events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => break done.tickets.pop().ok_or_else(tickets::not_returned)?,
            Committed::Conflict => retry.conflict().await?,
        }
    };
    // After a retry too: the first request may have failed before it enqueued the job.
    reconcile::jobs::enqueue(deps.orchestration_jobs, &Job::ReconcileTicket { ticket_id: id }).await;
    Ok(ticket)
}

/// The branches of completed tasks with a pull request that is not merged, oldest task first.
async fn finished_branches(
    deps: Deps<'_>,
    ticket: &Ticket,
    now: Timestamp,
) -> Result<Vec<BranchMerge>, Error> {
    let ids = deps.store.tasks_of_ticket(&ticket.id, None, MAX_TASKS).await?.items;
    let mut tasks = deps.store.tasks(&ids).await?;
    tasks.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
    // A task that resolves conflicts works on the branch of another one.
    let mut seen = BTreeSet::new();
    let found = tasks.into_iter().filter_map(|task| branch_of(&task, now));
    let found = found.filter(|branch| seen.insert(branch.branch.clone()));
    let found: Vec<BranchMerge> = found.take(MAX_BRANCHES).collect();
    if found.is_empty() {
        let detail = format!("Ticket {} has no finished task with a pull request to merge.", ticket.id);
        return Err(Error::conflict(ProblemCode::NoPullRequest, detail, json!({})));
    }
    Ok(found)
}

fn branch_of(task: &Task, now: Timestamp) -> Option<BranchMerge> {
    let branch = task.branch.as_ref().filter(|_| task.status == Status::Completed)?;
    branch.pull_request.as_ref().filter(|link| link.merged_at.is_none())?;
    Some(BranchMerge::new(task.id.clone(), branch.name.clone(), now))
}
