//! Lists the sandboxes that the caller may see, newest first.

use crate::error::Error;
use crate::{paging, visibility};
use domain::access::Principal;
use domain::{OrgId, Sandbox};
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    /// Only operators may name another org than their own. Without one they list all orgs.
    pub org: Option<OrgId>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
    pub limit: usize,
}

#[derive(Debug)]
pub struct Outcome {
    /// Newest first.
    pub sandboxes: Vec<Sandbox>,
    pub next_cursor: Option<String>,
}

pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let scope = visibility::list_scope(&command.principal, command.org)?;
    let cursor = paging::parse_cursor(command.cursor.as_deref())?;
    let page = deps.store.sandboxes_of(&scope, cursor.as_ref(), command.limit).await?;
    Ok(Outcome { sandboxes: page.items, next_cursor: page.next.map(String::from) })
}
