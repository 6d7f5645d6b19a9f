//! Lists the tickets that the caller may see, newest first.

use crate::error::Error;
use crate::{paging, visibility};
use contract::limits::MAX_PAGE_BYTES;
use contract::tickets::Filter;
use domain::access::Principal;
use domain::{OrgId, Ticket};
use store::Store;
use store::page::Cursor;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// Only operators may name another org than their own. Without one they list all orgs.
    pub org: Option<OrgId>,
    pub filter: Filter,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Debug, Default)]
pub struct Outcome {
    /// Newest first.
    pub tickets: Vec<Ticket>,
    /// Set whenever there may be more, even on an empty page.
    pub next_cursor: Option<String>,
}

/// Maximum number of tickets to scan for one page.
const MAX_SCANNED: usize = 500;
/// Number of tickets to read in one call.
const READ_SIZE: usize = 100;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, org, filter, cursor, limit } = command;
    let scope = visibility::list_scope(&principal, org)?;
    let mut cursor = paging::parse_cursor(cursor.as_deref())?;
    // Without a filter all tickets match, so no more than the page needs are read.
    let read_size = if filter == Filter::default() { limit.min(READ_SIZE) } else { READ_SIZE };
    let (mut tickets, mut scanned, mut bytes) = (Vec::new(), 0, 0);
    while scanned < MAX_SCANNED {
        let page = deps.store.tickets_of(&scope, cursor.as_ref(), read_size).await?;
        scanned += read_size;
        let mut items = page.items.into_iter().peekable();
        while let Some(ticket) = items.next() {
            if !matches(&filter, &ticket) {
                continue;
            }
            bytes += size(&ticket);
            let position = Cursor::by_time(ticket.created_at, ticket.id.as_str());
            tickets.push(ticket);
            if tickets.len() >= limit || bytes >= MAX_PAGE_BYTES {
                let has_more = items.peek().is_some() || page.next.is_some();
                return Ok(Outcome { tickets, next_cursor: has_more.then(|| position.into()) });
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Outcome { tickets, next_cursor: cursor.map(String::from) })
}

fn matches(filter: &Filter, ticket: &Ticket) -> bool {
    let Filter { status, priority, phase, project, approval, search } = filter;
    status.is_none_or(|status| status == ticket.status)
        && priority.is_none_or(|priority| priority == ticket.priority)
        && phase.as_ref().is_none_or(|phase| *phase == ticket.phase)
        && project.as_ref().is_none_or(|project| ticket.project.as_ref() == Some(project))
        && approval.is_none_or(|approval| approval == ticket.approval.status)
        && search.as_ref().is_none_or(|search| {
            [&ticket.title, &ticket.description].iter().any(|text| text.to_lowercase().contains(search))
        })
}

/// Approximate size in a response. Text may double in size when it is escaped as JSON.
fn size(ticket: &Ticket) -> usize {
    2 * (ticket.title.len() + ticket.description.len())
}
