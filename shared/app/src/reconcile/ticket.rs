//! Times out the approval of a ticket.

use crate::conflict_retry::ConflictRetry;
use crate::error::Error;
use crate::events;
use crate::orchestration::Deps;
use contract::payloads::TicketTimedOut;
use domain::event::LifecycleEvent;
use domain::{Ticket, TicketId};
use store::commit::{Change, Commit, Committed};

pub type Command = TicketId;

/// The current state, if the ticket exists.
pub type Outcome = Option<Ticket>;

/// Idempotent.
pub async fn run(deps: Deps<'_>, id: Command) -> Result<Outcome, Error> {
    let mut retry = ConflictRetry::new(deps.clock);
    loop {
        let Some(ticket) = deps.store.ticket(&id).await? else { return Ok(None) };
        let now = deps.clock.now();
        if !ticket.is_overdue(now) {
            return Ok(Some(ticket));
        }
        let Ok(after) = ticket.time_out(now) else { return Ok(Some(ticket)) };
        let timed_out = TicketTimedOut { ticket_id: id.clone(), reason: after.approval.reason.clone() };
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::new(&timed_out))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => return Ok(done.tickets.pop()),
            Committed::Conflict => retry.conflict().await?,
        }
    }
}
