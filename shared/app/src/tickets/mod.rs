//! Tickets: create, read, list, approve, reject and transition them.

pub mod approve;
pub mod create;
pub mod get;
pub mod list;
pub mod merge;
pub mod reject;
pub mod transition;

use crate::error::Error;
use crate::{IdSource, events};
use contract::ProblemCode;
use domain::access::{OPERATOR_PREFIX, Principal, UNNAMED_OPERATOR, Visibility, can_see_org};
use domain::score::Weights;
use domain::ticket::{Refused, Status, first_task};
use domain::{Entity, Task, Ticket, TicketId, Timestamp};
use serde_json::json;
use store::Store;
use store::commit::Change;

/// A ticket, if `principal` may see it. A ticket of another org looks as if it did not exist.
pub(crate) async fn visible(store: &Store, principal: &Principal, id: &TicketId) -> Result<Ticket, Error> {
    match store.ticket(id).await? {
        Some(ticket) if can_see_org(principal, &ticket.org) == Visibility::Visible => Ok(ticket),
        _ => Err(Error::no_entity(&Entity::Ticket(id.clone()))),
    }
}

/// Creates the first task of a ticket, and links it to the ticket.
pub(crate) fn create_first_task(
    principal: &Principal,
    ids: &dyn IdSource,
    ticket: &mut Ticket,
    weights: &Weights,
    now: Timestamp,
) -> Change<'static, Task> {
    let created = first_task(ticket).into_task(ids.task(), now).created(weights, now).by(principal);
    ticket.first_task = Some(created.task.id.clone());
    let events = events::emit::events_of(ids, created.events);
    Change { before: None, after: created.task, events }
}

/// The name of a principal in tickets and their events.
pub(crate) fn name_of(principal: &Principal) -> Option<String> {
    match principal {
        Principal::User { id, .. } => Some(id.clone()),
        // The id of a user cannot look like this (`looks_like_operator`).
        Principal::Operator { name } if name == UNNAMED_OPERATOR => Some(UNNAMED_OPERATOR.to_owned()),
        Principal::Operator { name } => Some(format!("{OPERATOR_PREFIX}{name}")),
        Principal::Worker { .. } | Principal::Anonymous => None,
    }
}

/// The error for a transition that the state of the ticket does not allow.
pub(crate) fn transition_error(ticket: &Ticket, refused: &Refused, now: Timestamp) -> Error {
    let code = match refused {
        Refused::AlreadyInStatus { .. } => ProblemCode::AlreadyInStatus,
        Refused::NotAllowed { .. } | Refused::Blocked { .. } => ProblemCode::TransitionNotAllowed,
        Refused::NotPending { .. } | Refused::NotDue { .. } => ProblemCode::ApprovalNotPending,
    };
    let (id, mut detail) = (&ticket.id, format!("Ticket {} was not changed: {refused}.", ticket.id));
    if code == ProblemCode::ApprovalNotPending {
        let approval = ticket.approval.status;
        return Error::conflict(code, detail, json!({"ticket_id": id, "approval_status": approval}));
    }
    let targets = Status::ALL.into_iter();
    let allowed: Vec<&str> =
        targets.filter(|to| ticket.transition(*to, false, now).is_ok()).map(Status::as_str).collect();
    match allowed.as_slice() {
        [] => detail.push_str(" No other status is allowed, unless forced."),
        statuses => detail.push_str(&format!(" Allowed: {}.", statuses.join(", "))),
    }
    Error::conflict(
        code,
        detail,
        json!({"ticket_id": id, "current_status": ticket.status, "allowed": allowed}),
    )
}

/// A bug: a commit returns the entities that it wrote.
pub(crate) fn not_returned() -> Error {
    Error::Internal("a commit did not return the ticket that it wrote".into())
}
