//! What the use cases around tickets share.

pub mod approve;
pub mod create;
pub mod get;
pub mod list;
pub mod reject;
pub mod transition;

use crate::error::Error;
use crate::{IdSource, events};
use domain::access::{Principal, Visibility, can_see_org};
use domain::score::Weights;
use domain::ticket::{Refused, Status, first_task};
use domain::{Entity, Task, Ticket, TicketId, Timestamp};
use serde_json::json;
use store::Store;
use store::commit::Change;

/// A ticket, if `principal` may see it. A foreign one looks exactly like one that is not there.
pub(crate) async fn visible(store: &Store, principal: &Principal, id: &TicketId) -> Result<Ticket, Error> {
    match store.ticket(id).await? {
        Some(ticket) if can_see_org(principal, &ticket.org) == Visibility::Visible => Ok(ticket),
        _ => Err(Error::no_entity(&Entity::Ticket(id.clone()))),
    }
}

/// Begins the work on a ticket: its first task, which the ticket knows from now on.
pub(crate) fn begin(
    ids: &dyn IdSource,
    ticket: &mut Ticket,
    weights: &Weights,
    now: Timestamp,
) -> Change<'static, Task> {
    let moved = first_task(ticket).into_task(ids.task(), now).created(weights, now);
    ticket.first_task = Some(moved.task.id.clone());
    let events = events::emit::events_of(ids, moved.events);
    Change { before: None, after: moved.task, events }
}

/// Who did something, as tickets remember it.
pub(crate) fn name_of(principal: &Principal) -> Option<String> {
    match principal {
        Principal::User { id, .. } => Some(id.clone()),
        Principal::Operator => Some("operator".to_owned()),
        Principal::Worker { .. } | Principal::Anonymous => None,
    }
}

/// What somebody is told whose wish cannot be done as the ticket stands.
pub(crate) fn refusal(ticket: &Ticket, refused: &Refused, now: Timestamp) -> Error {
    let code = match refused {
        Refused::AlreadyThere { .. } => "already_there",
        Refused::NoEdge { .. } | Refused::Blocked { .. } => "no_such_move",
        Refused::NotPending { .. } | Refused::NotDue { .. } => "not_pending",
    };
    let (id, mut detail) = (&ticket.id, format!("Ticket {} stays as it is: {refused}.", ticket.id));
    if code == "not_pending" {
        let approval = ticket.approval.status;
        return Error::conflict(code, detail, json!({"ticket_id": id, "approval_status": approval}));
    }
    let targets = Status::ALL.into_iter();
    let allowed: Vec<&str> =
        targets.filter(|to| ticket.transition(*to, false, now).is_ok()).map(Status::as_str).collect();
    match allowed.as_slice() {
        [] => detail.push_str(" It goes nowhere from there, unless it is forced."),
        some => detail.push_str(&format!(" It may go to {}.", some.join(", "))),
    }
    Error::conflict(
        code,
        detail,
        json!({"ticket_id": id, "current_status": ticket.status, "allowed": allowed}),
    )
}

/// A mistake of ours: a transaction gives back what it wrote.
pub(crate) fn nothing() -> Error {
    Error::Internal("a ticket was written and not given back".into())
}
