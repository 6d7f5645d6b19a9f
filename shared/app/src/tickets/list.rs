//! The tickets that somebody can see, newest first.

use crate::error::Error;
use contract::limits::MAX_PAGE_BYTES;
use contract::tickets::Filter;
use domain::access::Principal;
use domain::{Invalid, OrgId, Ticket};
use store::Store;
use store::keys::by_time;
use store::sandboxes::Whose;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads tickets.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which org: an operator may name one, and sees all otherwise.
    pub org: Option<OrgId>,
    /// Which of them.
    pub filter: Filter,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A page.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Newest first.
    pub tickets: Vec<Ticket>,
    /// Where the next page starts. Set whenever there may be more, on an empty page too.
    pub next_cursor: Option<String>,
}

/// Most tickets that are looked at for one page: whoever looks for something rare asks again.
const LOOKED_AT: usize = 500;
/// How many are read at a time.
const AT_ONCE: usize = 100;

/// Reads a page.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, org, filter, cursor, limit } = command;
    let whose = whose(principal, org)?;
    // A cursor is the time and id of a ticket; anything else would list from a surprising place.
    if cursor.as_ref().is_some_and(|cursor| !cursor.contains('#') || cursor.len() > 200) {
        return Err(Invalid::new("cursor", "must be the next_cursor of an earlier answer").into());
    }
    // Without a filter everything fits, and nothing is read for nothing.
    let at_once = if filter == Filter::default() { limit.min(AT_ONCE) } else { AT_ONCE };
    let mut page = Outcome { tickets: Vec::new(), next_cursor: cursor };
    let (mut checked_at, mut bytes) = (0, 0);
    while checked_at < LOOKED_AT {
        let found = deps.store.tickets_of(&whose, page.next_cursor.take(), at_once).await?;
        checked_at += at_once;
        let mut items = found.items.into_iter().peekable();
        while let Some(ticket) = items.next() {
            if !fits(&filter, &ticket) {
                continue;
            }
            bytes += size(&ticket);
            let place = by_time(ticket.created_at, ticket.id.as_str());
            page.tickets.push(ticket);
            if page.tickets.len() >= limit || bytes >= MAX_PAGE_BYTES {
                page.next_cursor = Some(place).filter(|_| items.peek().is_some() || found.next.is_some());
                return Ok(page);
            }
        }
        page.next_cursor = found.next;
        if page.next_cursor.is_none() {
            break;
        }
    }
    Ok(page)
}

fn whose(principal: Principal, org: Option<OrgId>) -> Result<Whose, Error> {
    match (principal, org) {
        (Principal::Operator, None) => Ok(Whose::All),
        (Principal::Operator, Some(org)) => Ok(Whose::Org(org)),
        (Principal::User { org: own, .. }, None) => Ok(Whose::Org(own)),
        (Principal::User { org: own, .. }, Some(org)) if org == own => Ok(Whose::Org(own)),
        (Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous, _) => {
            Err(Error::Forbidden("You can list tickets of your own org only."))
        }
    }
}

fn fits(filter: &Filter, ticket: &Ticket) -> bool {
    let Filter { status, priority, project, approval, search } = filter;
    status.is_none_or(|status| status == ticket.status)
        && priority.is_none_or(|priority| priority == ticket.priority)
        && project.as_ref().is_none_or(|project| ticket.project.as_ref() == Some(project))
        && approval.is_none_or(|approval| approval == ticket.approval.status)
        && search.as_ref().is_none_or(|search| {
            [&ticket.title, &ticket.description].iter().any(|text| text.to_lowercase().contains(search))
        })
}

/// What it takes of an answer, nearly: its text may double when it is written as JSON.
fn size(ticket: &Ticket) -> usize {
    2 * (ticket.title.len() + ticket.description.len())
}
