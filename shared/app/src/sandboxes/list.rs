//! The sandboxes that somebody can see, newest first.

use crate::error::Error;
use domain::access::Principal;
use domain::{Invalid, OrgId, Sandbox};
use store::Store;
use store::sandboxes::Whose;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads heads.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// Of which org: an operator may name one, and sees all otherwise.
    pub org: Option<OrgId>,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A page.
#[derive(Debug)]
pub struct Outcome {
    /// Newest first.
    pub heads: Vec<Sandbox>,
    /// Where the next page starts.
    pub next_cursor: Option<String>,
}

/// Reads a page.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let whose = match (command.principal, command.org) {
        (Principal::Operator, None) => Whose::All,
        (Principal::Operator, Some(org)) => Whose::Org(org),
        (Principal::User { org: own, .. }, None) => Whose::Org(own),
        (Principal::User { org: own, .. }, Some(org)) if org == own => Whose::Org(own),
        (Principal::User { .. } | Principal::Worker { .. } | Principal::Anonymous, _) => {
            return Err(Error::Forbidden("You can list sandboxes of your own org only."));
        }
    };
    // A cursor is the time and id of a sandbox; anything else would list from a surprising place.
    if command.cursor.as_ref().is_some_and(|cursor| !cursor.contains('#') || cursor.len() > 200) {
        return Err(Invalid::new("cursor", "must be the next_cursor of an earlier answer").into());
    }
    let page = deps.store.sandboxes_of(&whose, command.cursor, command.limit).await?;
    Ok(Outcome { heads: page.heads, next_cursor: page.next })
}
