//! Lists the tasks that the caller may see, newest first.
//!
//! A request scans a limited number of tasks. With a selective filter a page may be short or empty and still have a
//! `next_cursor`.

use crate::error::Error;
use crate::{paging, visibility};
use contract::limits::MAX_PAGE_BYTES;
use domain::access::Principal;
use domain::task::Status;
use domain::{OrgId, ProjectId, SandboxId, Task, TicketId};
use store::Store;
use store::page::{Cursor, ListScope, Page};

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

/// Absent fields match all tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Empty for all.
    pub statuses: Vec<Status>,
    pub task_type: Option<String>,
    pub phase: Option<String>,
    pub project: Option<ProjectId>,
    pub ticket: Option<TicketId>,
    /// The task that is assigned to this sandbox.
    pub sandbox: Option<SandboxId>,
    pub has_sandbox: Option<bool>,
}

#[derive(Debug)]
pub struct Outcome {
    /// Newest first.
    pub tasks: Vec<Task>,
    /// Set whenever there may be more, even on an empty page.
    pub next_cursor: Option<String>,
}

/// Number of tasks to read in one call.
const READ_SIZE: usize = 100;
/// Maximum number of reads for one page.
const MAX_READS: usize = 10;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, org, filter, cursor, limit } = command;
    let scope = visibility::list_scope(&principal, org)?;
    let cursor = paging::parse_cursor(cursor.as_deref())?;
    if let Some(sandbox) = &filter.sandbox {
        let task = of_sandbox(deps.store, sandbox).await?;
        let matches = |task: &Task| scope.includes(&task.org) && filter.matches(task) && cursor.is_none();
        return Ok(Outcome { tasks: task.into_iter().filter(matches).collect(), next_cursor: None });
    }
    // Checked before its tasks are read: a cursor would reveal that they exist.
    if let Some(ticket) = &filter.ticket
        && !deps.store.ticket(ticket).await?.is_some_and(|ticket| scope.includes(&ticket.org))
    {
        return Ok(Outcome { tasks: Vec::new(), next_cursor: None });
    }
    let (mut tasks, mut next, mut bytes) = (Vec::new(), cursor, 0);
    // Without a filter all tasks match, so no more than the page needs are read.
    let read_size = if filter == Filter::default() { limit } else { READ_SIZE };
    for _ in 0..MAX_READS {
        let page = read(deps.store, &scope, filter.ticket.as_ref(), next.as_ref(), read_size).await?;
        for task in page.items {
            if !(scope.includes(&task.org) && filter.matches(&task)) {
                continue;
            }
            if tasks.len() == limit || bytes >= MAX_PAGE_BYTES {
                let last: Option<&Task> = tasks.last();
                let next = last.map(|last| Cursor::by_time(last.created_at, last.id.as_str()));
                return Ok(Outcome { tasks, next_cursor: next.map(String::from) });
            }
            bytes += size(&task);
            tasks.push(task);
        }
        next = page.next;
        if next.is_none() || tasks.len() == limit || bytes >= MAX_PAGE_BYTES {
            break;
        }
    }
    Ok(Outcome { tasks, next_cursor: next.map(String::from) })
}

impl Filter {
    fn matches(&self, task: &Task) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&task.status))
            && self.task_type.as_ref().is_none_or(|wanted| *wanted == task.task_type)
            && self.phase.as_ref().is_none_or(|wanted| *wanted == task.phase)
            && self.project.as_ref().is_none_or(|wanted| task.project.as_ref() == Some(wanted))
            && self.ticket.as_ref().is_none_or(|wanted| task.ticket.as_ref() == Some(wanted))
            && self.has_sandbox.is_none_or(|wanted| task.sandbox.is_some() == wanted)
    }
}

/// Approximate size in a response. Text may double in size when it is escaped as JSON.
fn size(task: &Task) -> usize {
    let texts = [Some(&task.title), Some(&task.description), task.error.as_ref(), task.feedback.as_ref()];
    let result = task.result.as_ref().map_or(0, |result| result.text().len());
    2 * texts.into_iter().flatten().map(String::len).sum::<usize>() + result
}

async fn of_sandbox(store: &Store, sandbox: &SandboxId) -> Result<Option<Task>, Error> {
    let assignment = store.sandbox(sandbox).await?.and_then(|sandbox| sandbox.assignment);
    let Some(assignment) = assignment else { return Ok(None) };
    Ok(store.task(&assignment.task).await?)
}

async fn read(
    store: &Store,
    scope: &ListScope,
    ticket: Option<&TicketId>,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page<Task>, Error> {
    let Some(ticket) = ticket else { return Ok(store.tasks_of(scope, after, limit).await?) };
    let page = store.tasks_of_ticket(ticket, after, limit).await?;
    Ok(Page { items: store.tasks(&page.items).await?, next: page.next })
}
