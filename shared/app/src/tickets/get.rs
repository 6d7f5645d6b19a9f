//! Returns one ticket with its tasks.

use crate::error::Error;
use crate::tickets;
use domain::access::Principal;
use domain::{Task, Ticket, TicketId};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub ticket: TicketId,
}

#[derive(Debug)]
pub struct Outcome {
    pub ticket: Ticket,
    /// Its newest tasks, newest first.
    pub tasks: Vec<Task>,
    pub has_more_tasks: bool,
}

/// Maximum number of tasks in the response.
const MAX_TASKS: usize = 100;

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let ticket = tickets::visible(deps.store, &command.principal, &command.ticket).await?;
    let page = deps.store.tasks_of_ticket(&ticket.id, None, MAX_TASKS).await?;
    let tasks = deps.store.tasks(&page.items).await?;
    Ok(Outcome { ticket, tasks, has_more_tasks: page.next.is_some() })
}
