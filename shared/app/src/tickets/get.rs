//! One ticket, and the tasks that are done for it.

use crate::error::Error;
use crate::tickets;
use domain::access::Principal;
use domain::{Task, Ticket, TicketId};
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads the ticket and its tasks.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Which one.
    pub ticket: TicketId,
}

/// The ticket.
#[derive(Debug)]
pub struct Outcome {
    /// It.
    pub ticket: Ticket,
    /// Its newest tasks, newest first.
    pub tasks: Vec<Task>,
    /// Whether it has more.
    pub has_more_tasks: bool,
}

/// How many tasks are shown.
const MAX_TASKS: usize = 100;

/// Reads it.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let ticket = tickets::visible(deps.store, &command.principal, &command.ticket).await?;
    let page = deps.store.tasks_of_ticket(&ticket.id, None, MAX_TASKS).await?;
    let tasks = deps.store.tasks(&page.items).await?;
    Ok(Outcome { ticket, tasks, has_more_tasks: page.next.is_some() })
}
