//! Does what is due for a ticket that waits for somebody's approval: nobody gave it in time.

use crate::error::Error;
use crate::orchestration::Deps;
use crate::{events, race};
use domain::task::transitions::LifecycleEvent;
use domain::{Ticket, TicketId};
use serde_json::json;
use store::commit::{Change, Commit, Committed};

/// Which ticket.
pub type Command = TicketId;

/// As it is now, if it exists.
pub type Outcome = Option<Ticket>;

/// A repeat finds it decided.
pub async fn run(deps: Deps<'_>, id: Command) -> Result<Outcome, Error> {
    let mut race = race::Race::new(deps.clock);
    loop {
        let Some(ticket) = deps.store.ticket(&id).await? else { return Ok(None) };
        let now = deps.clock.now();
        if !ticket.is_overdue(now) {
            return Ok(Some(ticket));
        }
        let Ok(after) = ticket.time_out(now) else { return Ok(Some(ticket)) };
        let data = json!({"ticket_id": id, "reason": after.approval.reason});
        let events = vec![events::emit::event_of(deps.ids, LifecycleEvent::of_ticket("timed_out", &data))];
        let mut commit = Commit::new(now);
        commit.tickets.push(Change { before: Some(&ticket), after, events });
        match deps.store.commit(commit).await? {
            Committed::Done(mut done) => return Ok(done.tickets.pop()),
            Committed::Conflict => race.lost().await?,
        }
    }
}
