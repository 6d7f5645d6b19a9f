//! Creates a ticket and its first task.
//!
//! The ticket, its event, its first task and that task's place in the queue are one transaction: there is never a
//! ticket without its task, or a task without its ticket. If tickets require approval, [`crate::tickets::approve`]
//! creates the task.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::orchestration::{self, check_repository, dispatch_job};
use crate::{events, reconcile, tickets, visibility};
use contract::ProblemCode;
use contract::payloads::TicketCreated;
use contract::tickets::{Candidate, CreateTicket, TicketSpec};
use domain::access::Principal;
use domain::duplicates::{TicketText, ticket_similarity};
use domain::event::LifecycleEvent;
use domain::ticket::{ApprovalStatus, Status};
use domain::{OrgId, Ticket, TicketId, Timestamp};
use serde_json::json;
use std::ops::Deref;
use store::commit::{Change, Commit, Committed};
use store::page::ListScope;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub base: orchestration::Deps<'a>,
    /// The org of tickets that an operator creates without an org.
    pub default_org: &'a OrgId,
}

impl<'a> Deref for Deps<'a> {
    type Target = orchestration::Deps<'a>;

    fn deref(&self) -> &orchestration::Deps<'a> {
        &self.base
    }
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub create: CreateTicket,
}

#[derive(Debug)]
pub enum Outcome {
    Created(Box<Ticket>),
    /// The same request has created it before. Holds the current state.
    Repeated(Box<Ticket>),
    /// Not created, because similar tickets exist. Most similar first, never empty.
    Similar(Vec<Candidate>),
}

/// Number of an org's newest tickets to compare. Older ones are ignored.
const MAX_COMPARED: usize = 300;
/// Number of tickets to read in one call.
const READ_SIZE: usize = 100;
/// Maximum number of similar tickets in the response.
const MAX_CANDIDATES: usize = 5;

/// Idempotent by id. Without an id, a retry may create a second ticket.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, create } = command;
    let CreateTicket { id, org, duplicate_threshold, spec } = create;
    let org = visibility::owning_org(&principal, org, deps.default_org)?;
    let digest = spec.digest();
    if let Some(id) = &id
        && let Some(known) = deps.store.ticket(id).await?
    {
        return repeated(known, &org, &digest);
    }
    // After the lookup: a repeated request stays valid if the settings change.
    if let Some(agent) = &spec.execution.agent {
        deps.orchestration.check_agent(agent)?;
    }
    check_repository(&principal, spec.execution.repository.as_deref())?;
    if let Some(threshold) = duplicate_threshold {
        let similar = similar(deps, &org, id.as_ref(), &spec, threshold).await?;
        if !similar.is_empty() {
            return Ok(Outcome::Similar(similar));
        }
    }
    let id = id.unwrap_or_else(|| deps.ids.ticket());
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let now = deps.clock.now();
        let ticket = ticket(deps, &principal, &id, &org, spec.clone(), now);
        if let Some(created) = write(deps.base, &principal, ticket, now).await? {
            return Ok(Outcome::Created(Box::new(created)));
        }
        if let Some(known) = deps.store.ticket(&id).await? {
            return repeated(known, &org, &digest);
        }
        retry.conflict().await?;
    }
}

/// The response to a request whose id already has a ticket.
fn repeated(known: Ticket, org: &OrgId, digest: &str) -> Result<Outcome, Error> {
    if known.org != *org {
        // It cannot be hidden that the id is taken, but nothing else about the ticket may leak.
        let detail = format!("The id {} is already taken.", known.id);
        return Err(Error::conflict(ProblemCode::TicketIdTaken, detail, json!({})));
    }
    if known.digest.as_deref() == Some(digest) {
        return Ok(Outcome::Repeated(Box::new(known)));
    }
    let detail = format!("Ticket {} already exists with different content.", known.id);
    Err(Error::conflict(ProblemCode::TicketChanged, detail, json!({"ticket_id": known.id})))
}

/// Similar open tickets of the org. Two concurrent requests do not see each other.
async fn similar(
    deps: Deps<'_>,
    org: &OrgId,
    own: Option<&TicketId>,
    spec: &TicketSpec,
    threshold: f64,
) -> Result<Vec<Candidate>, Error> {
    let wanted = TicketText { title: &spec.title, description: &spec.description };
    let scope = ListScope::Org(org.clone());
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_COMPARED / READ_SIZE {
        let page = deps.store.tickets_of(&scope, cursor.as_ref(), READ_SIZE).await?;
        let open = page.items.into_iter().filter(|ticket| ticket.is_open() && own != Some(&ticket.id));
        found.extend(open.filter_map(|ticket| {
            let other = TicketText { title: &ticket.title, description: &ticket.description };
            let similarity_score = ticket_similarity(wanted, other);
            (similarity_score >= threshold).then_some(Candidate {
                ticket_id: ticket.id,
                title: ticket.title,
                description: ticket.description,
                status: ticket.status,
                similarity_score,
            })
        }));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    found.sort_by(|left, right| right.similarity_score.total_cmp(&left.similarity_score));
    found.truncate(MAX_CANDIDATES);
    Ok(found)
}

fn ticket(
    deps: Deps<'_>,
    principal: &Principal,
    id: &TicketId,
    org: &OrgId,
    spec: TicketSpec,
    now: Timestamp,
) -> Ticket {
    let digest = Some(spec.digest());
    Ticket {
        id: id.clone(),
        org: org.clone(),
        title: spec.title,
        description: spec.description,
        phase: spec.phase.unwrap_or_else(|| Status::Backlog.phase().to_owned()),
        previous_phase: None,
        status: Status::Backlog,
        priority: spec.priority,
        blocked: None,
        approval: deps.orchestration.approval.initial(now),
        project: spec.project,
        repository: spec.execution.repository.clone(),
        workflow_mode: spec.workflow_mode,
        execution: spec.execution,
        task_options: spec.task_options,
        first_task: None,
        merge: None,
        created_by: tickets::name_of(principal),
        digest,
        created_at: now,
        updated_at: now,
        version: 1,
        seq: 0,
        segments: 0,
    }
}

/// Writes the ticket, with its first task if it is approved. Returns `None` on a conflict.
async fn write(
    deps: orchestration::Deps<'_>,
    principal: &Principal,
    mut ticket: Ticket,
    now: Timestamp,
) -> Result<Option<Ticket>, Error> {
    let mut commit = Commit::new(now);
    let is_approved = ticket.approval.status == ApprovalStatus::Approved;
    if is_approved {
        commit.tasks.push(tickets::create_first_task(
            principal,
            deps.ids,
            &mut ticket,
            &deps.orchestration.weights,
            now,
        ));
    }
    let created = TicketCreated {
        ticket_id: ticket.id.clone(),
        title: ticket.title.clone(),
        status: ticket.status,
        phase_id: ticket.phase.clone(),
        priority: ticket.priority,
        project_id: ticket.project.clone(),
        workflow_mode: ticket.workflow_mode,
        approval_status: ticket.approval.status,
        approval_deadline_at: ticket.approval.deadline_at,
        task_id: ticket.first_task.clone(),
        created_by: ticket.created_by.clone(),
    };
    let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::new(&created))];
    commit.tickets.push(Change { before: None, after: ticket, events });
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let Some(created) = done.tickets.pop() else { return Ok(None) };
    tracing::info!(ticket.id = %created.id, "Created ticket {}", created.id);
    if is_approved {
        reconcile::jobs::enqueue(deps.orchestration_jobs, &dispatch_job(&created.org)).await;
    }
    Ok(Some(created))
}
