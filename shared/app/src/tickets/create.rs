//! Takes in what a person wants done, and begins the work on it.
//!
//! The ticket, what its log says, its first task and that task's place in the queue are one transaction: nobody sees a
//! ticket without its task, and no task is made for a ticket that was not stored. Where somebody has to approve of
//! tickets no task is made yet: see [`crate::tickets::approve`].

use crate::error::Error;
use crate::orchestration::{self, dispatch_job};
use crate::{events, race, reconcile, tickets};
use contract::tickets::{Candidate, CreateTicket, TicketSpec};
use domain::access::Principal;
use domain::similar::{Wanted, likeness};
use domain::task::transitions::LifecycleEvent;
use domain::ticket::{ApprovalStatus, Status};
use domain::{OrgId, Ticket, TicketId, Timestamp};
use serde_json::json;
use store::commit::{Change, Commit, Committed};
use store::sandboxes::Whose;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads tickets, writes one with its task, and asks for a free slot.
    pub orchestration: orchestration::Deps<'a>,
    /// The org of tickets that an operator creates without naming one.
    pub default_org: &'a OrgId,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// How it should be.
    pub create: CreateTicket,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// It is there now.
    Created(Box<Ticket>),
    /// It was there: this request was sent before. The ticket is as it is now.
    Repeated(Box<Ticket>),
    /// It was not created, because these ask for much the same. The most similar first, and never none.
    Similar(Vec<Candidate>),
}

/// How many of an org's newest tickets are compared. Older ones are forgotten, as people forget them.
const COMPARED: usize = 300;
/// How many are read at a time.
const AT_ONCE: usize = 100;
/// How many similar ones are told.
const MAX_CANDIDATES: usize = 5;

/// A repeat under the same id finds the first; without an id of the sender's it may be a second ticket.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, create } = command;
    let CreateTicket { id, org, duplicates_from, wish } = create;
    let org = org_of(deps, &principal, org)?;
    let digest = wish.digest();
    let store = deps.orchestration.store;
    if let Some(id) = &id
        && let Some(known) = store.ticket(id).await?
    {
        return repeated(known, &org, &digest);
    }
    if let Some(threshold) = duplicates_from {
        let similar = similar(deps, &org, id.as_ref(), &wish, threshold).await?;
        if !similar.is_empty() {
            return Ok(Outcome::Similar(similar));
        }
    }
    let id = id.unwrap_or_else(|| deps.orchestration.ids.ticket());
    let mut race = race::Race::new(deps.orchestration.clock);
    loop {
        let now = deps.orchestration.clock.now();
        let ticket = ticket(deps, &principal, &id, &org, wish.clone(), now);
        if let Some(created) = write(deps.orchestration, ticket, now).await? {
            return Ok(Outcome::Created(Box::new(created)));
        }
        if let Some(known) = store.ticket(&id).await? {
            return repeated(known, &org, &digest);
        }
        race.lost().await?;
    }
}

fn org_of(deps: Deps<'_>, principal: &Principal, named: Option<OrgId>) -> Result<OrgId, Error> {
    match (principal, named) {
        (Principal::User { org: own, .. }, Some(org)) if org != *own => {
            Err(Error::Forbidden("You can create tickets in your own org only."))
        }
        (Principal::User { org: own, .. }, _) => Ok(own.clone()),
        (_, named) => Ok(named.unwrap_or_else(|| deps.default_org.clone())),
    }
}

/// What somebody is told under whose id there is a ticket.
fn repeated(known: Ticket, org: &OrgId, digest: &str) -> Result<Outcome, Error> {
    if known.org != *org {
        // Nothing of it: that the id is taken cannot be hidden, whose it is can.
        let detail = format!("The id {} is taken.", known.id);
        return Err(Error::conflict("ticket_id_taken", detail, json!({})));
    }
    if known.digest.as_deref() == Some(digest) {
        return Ok(Outcome::Repeated(Box::new(known)));
    }
    let detail = format!("Ticket {} exists already and was created from something else.", known.id);
    Err(Error::conflict("ticket_changed", detail, json!({"ticket_id": known.id})))
}

/// Open tickets of the org that ask for much the same. Two that come in at the same moment do not see each other.
async fn similar(
    deps: Deps<'_>,
    org: &OrgId,
    own: Option<&TicketId>,
    wish: &TicketSpec,
    threshold: f64,
) -> Result<Vec<Candidate>, Error> {
    let wanted = Wanted { title: &wish.title, description: &wish.description };
    let whose = Whose::Org(org.clone());
    let (mut found, mut from) = (Vec::new(), None);
    for _ in 0..COMPARED / AT_ONCE {
        let page = deps.orchestration.store.tickets_of(&whose, from, AT_ONCE).await?;
        let open = page.items.into_iter().filter(|ticket| ticket.is_open() && own != Some(&ticket.id));
        found.extend(open.filter_map(|ticket| {
            let other = Wanted { title: &ticket.title, description: &ticket.description };
            let similarity_score = likeness(wanted, other);
            (similarity_score >= threshold).then_some(Candidate {
                ticket_id: ticket.id,
                title: ticket.title,
                description: ticket.description,
                status: ticket.status,
                similarity_score,
            })
        }));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    found.sort_by(|one, other| other.similarity_score.total_cmp(&one.similarity_score));
    found.truncate(MAX_CANDIDATES);
    Ok(found)
}

fn ticket(
    deps: Deps<'_>,
    principal: &Principal,
    id: &TicketId,
    org: &OrgId,
    wish: TicketSpec,
    now: Timestamp,
) -> Ticket {
    let digest = Some(wish.digest());
    Ticket {
        id: id.clone(),
        org: org.clone(),
        title: wish.title,
        description: wish.description,
        phase: wish.phase.unwrap_or_else(|| Status::Backlog.phase().to_owned()),
        previous_phase: None,
        status: Status::Backlog,
        priority: wish.priority,
        blocked: None,
        approval: deps.orchestration.orchestration.approval.begin(now),
        project: wish.project,
        repository: wish.execution.repository.clone(),
        workflow_mode: wish.workflow_mode,
        execution: wish.execution,
        terms: wish.terms,
        first_task: None,
        created_by: tickets::name_of(principal),
        digest,
        created_at: now,
        updated_at: now,
        version: 1,
        seq: 0,
        segments: 0,
    }
}

/// Writes it with its first task, if it may be worked on; `None` if somebody else was faster.
async fn write(
    deps: orchestration::Deps<'_>,
    mut ticket: Ticket,
    now: Timestamp,
) -> Result<Option<Ticket>, Error> {
    let mut commit = Commit::new(now);
    let begins = ticket.approval.status == ApprovalStatus::Approved;
    if begins {
        commit.tasks.push(tickets::begin(deps.ids, &mut ticket, &deps.orchestration.weights, now));
    }
    let data = json!({
        "ticket_id": ticket.id, "title": ticket.title, "status": ticket.status, "phase_id": ticket.phase,
        "priority": ticket.priority, "project_id": ticket.project, "workflow_mode": ticket.workflow_mode,
        "approval_status": ticket.approval.status, "approval_deadline_at": ticket.approval.deadline_at,
        "task_id": ticket.first_task, "created_by": ticket.created_by,
    });
    let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::of_ticket("created", &data))];
    commit.tickets.push(Change { before: None, after: ticket, events });
    let Committed::Done(mut done) = deps.store.commit(commit).await? else { return Ok(None) };
    let Some(created) = done.tickets.pop() else { return Ok(None) };
    tracing::info!(ticket.id = %created.id, "Created ticket {}", created.id);
    if begins {
        reconcile::jobs::ask(deps.work, &dispatch_job(&created.org)).await;
    }
    Ok(Some(created))
}
