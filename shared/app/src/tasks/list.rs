//! The tasks that somebody can see, newest first.
//!
//! A list looks at so many tasks at most. If few of many are asked for, a page may be short or empty and still have a
//! place to go on from; whoever goes on gets to the end.

use crate::error::Error;
use contract::limits::MAX_PAGE_BYTES;
use domain::access::Principal;
use domain::task::Status;
use domain::{Invalid, OrgId, ProjectId, SandboxId, Task, TicketId, Timestamp};
use store::Store;
use store::sandboxes::Whose;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads tasks, and the ticket or the head of the sandbox whose tasks are asked for.
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
    pub wanted: Wanted,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// Which tasks are asked for. What is absent may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// In one of these states; any, if empty.
    pub statuses: Vec<Status>,
    /// Of this kind.
    pub task_type: Option<String>,
    /// In this phase.
    pub phase: Option<String>,
    /// Of this project.
    pub project: Option<ProjectId>,
    /// Of this ticket.
    pub ticket: Option<TicketId>,
    /// The one that this sandbox was made for.
    pub sandbox: Option<SandboxId>,
    /// With a sandbox, or without one.
    pub has_sandbox: Option<bool>,
}

/// A page.
#[derive(Debug)]
pub struct Outcome {
    /// Newest first.
    pub tasks: Vec<Task>,
    /// Where the next page starts, if there may be more.
    pub next_cursor: Option<String>,
}

/// How many are read between two looks: as many as can be read at once.
const AT_ONCE: usize = 100;
/// How often that is done for one page.
const MAX_LOOKS: usize = 10;

/// Reads a page.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, org, wanted, cursor, limit } = command;
    let whose = whose(principal, org)?;
    // A cursor is the time and id of a task; anything else would list from a surprising place.
    if cursor.as_ref().is_some_and(|cursor| !is_place(cursor)) {
        return Err(Invalid::new("cursor", "must be the next_cursor of an earlier answer").into());
    }
    if let Some(sandbox) = &wanted.sandbox {
        let task = of_sandbox(deps.store, sandbox).await?;
        let fits = |task: &Task| is_seen(&whose, &task.org) && wanted.fits(task) && cursor.is_none();
        return Ok(Outcome { tasks: task.into_iter().filter(fits).collect(), next_cursor: None });
    }
    // Before any of its tasks: a place to go on from would tell of them.
    if let Some(ticket) = &wanted.ticket
        && !deps.store.ticket(ticket).await?.is_some_and(|ticket| is_seen(&whose, &ticket.org))
    {
        return Ok(Outcome { tasks: Vec::new(), next_cursor: None });
    }
    let (mut tasks, mut next, mut bytes) = (Vec::new(), cursor, 0);
    // Without a wish every task is one more on the page, and none is read for nothing.
    let at_once = if wanted == Wanted::default() { limit } else { AT_ONCE };
    for _ in 0..MAX_LOOKS {
        let page = read(deps.store, &whose, wanted.ticket.as_ref(), next.take(), at_once).await?;
        for task in page.items {
            if !(is_seen(&whose, &task.org) && wanted.fits(&task)) {
                continue;
            }
            if tasks.len() == limit || bytes >= MAX_PAGE_BYTES {
                let next_cursor = tasks.last().map(Store::behind);
                return Ok(Outcome { tasks, next_cursor });
            }
            bytes += size(&task);
            tasks.push(task);
        }
        next = page.next;
        if next.is_none() || tasks.len() == limit || bytes >= MAX_PAGE_BYTES {
            break;
        }
    }
    Ok(Outcome { tasks, next_cursor: next })
}

impl Wanted {
    fn fits(&self, task: &Task) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&task.status))
            && self.task_type.as_ref().is_none_or(|wanted| *wanted == task.task_type)
            && self.phase.as_ref().is_none_or(|wanted| *wanted == task.phase)
            && self.project.as_ref().is_none_or(|wanted| task.project.as_ref() == Some(wanted))
            && self.ticket.as_ref().is_none_or(|wanted| task.ticket.as_ref() == Some(wanted))
            && self.has_sandbox.is_none_or(|wanted| task.sandbox.is_some() == wanted)
    }
}

fn whose(principal: Principal, org: Option<OrgId>) -> Result<Whose, Error> {
    match (principal, org) {
        (Principal::Operator, None) => Ok(Whose::All),
        (Principal::Operator, Some(org)) => Ok(Whose::Org(org)),
        (Principal::User { org: own, .. }, None) => Ok(Whose::Org(own)),
        (Principal::User { org: own, .. }, Some(org)) if org == own => Ok(Whose::Org(own)),
        (Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous, _) => {
            Err(Error::Forbidden("You can list tasks of your own org only."))
        }
    }
}

fn is_seen(whose: &Whose, owner: &OrgId) -> bool {
    match whose {
        Whose::All => true,
        Whose::Org(org) => org == owner,
    }
}

/// What it takes of an answer, nearly: its text may double when it is written as JSON.
fn size(task: &Task) -> usize {
    let words = [Some(&task.title), Some(&task.description), task.error.as_ref(), task.feedback.as_ref()];
    let result = task.result.as_ref().map_or(0, |result| result.text().len());
    2 * words.into_iter().flatten().map(String::len).sum::<usize>() + result
}

fn is_place(cursor: &str) -> bool {
    cursor
        .split_once('#')
        .is_some_and(|(time, id)| Timestamp::parse(time).is_some() && domain::TaskId::parse(id).is_ok())
}

async fn of_sandbox(store: &Store, sandbox: &SandboxId) -> Result<Option<Task>, Error> {
    let assignment = store.sandbox(sandbox).await?.and_then(|head| head.assignment);
    let Some(assignment) = assignment else { return Ok(None) };
    Ok(store.task(&assignment.task).await?)
}

async fn read(
    store: &Store,
    whose: &Whose,
    ticket: Option<&TicketId>,
    from: Option<String>,
    limit: usize,
) -> Result<store::tasks::Page<Task>, Error> {
    let Some(ticket) = ticket else { return Ok(store.tasks_of(whose, from, limit).await?) };
    let page = store.tasks_of_ticket(ticket, from, limit).await?;
    Ok(store::tasks::Page { items: store.tasks(&page.items).await?, next: page.next })
}
