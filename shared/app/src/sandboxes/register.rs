//! Makes a sandbox known that somebody else runs.

use crate::error::Error;
use crate::{Clock, IdSource};
use contract::sandboxes::Register;
use domain::access::Principal;
use domain::{Invalid, OrgId, Sandbox, SessionId};
use serde_json::json;
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Writes the head; reads the session that is to be resumed.
    pub store: &'a Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Source of new ids.
    pub ids: &'a dyn IdSource,
    /// The org of sandboxes that an operator registers without naming one.
    pub default_org: &'a OrgId,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// How it should be.
    pub register: Register,
}

/// The sandbox.
pub type Outcome = Sandbox;

/// Registers a sandbox. A repeat with the same id is refused: the token of the first is not to be had twice.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Register { id, org, name, resumes } = command.register;
    let org = match (&command.principal, org) {
        (Principal::User { org: own, .. }, Some(org)) if org != *own => {
            return Err(Error::Forbidden("You can register sandboxes in your own org only."));
        }
        (Principal::User { org: own, .. }, _) => own.clone(),
        (_, org) => org.unwrap_or_else(|| deps.default_org.clone()),
    };
    if let Some(session) = &resumes {
        check_session(deps.store, session, &org).await?;
    }
    let mut head = Sandbox::new(id.unwrap_or_else(|| deps.ids.sandbox()), org, name, deps.clock.now());
    head.resumes = resumes;
    if deps.store.create_sandbox(&head).await? {
        return Ok(head);
    }
    Err(Error::conflict(
        "sandbox_exists",
        format!("Sandbox {} exists already; ask for a new worker token instead.", head.id),
        json!({}),
    ))
}

/// A session of another org looks exactly like one that is not there.
async fn check_session(store: &Store, id: &SessionId, org: &OrgId) -> Result<(), Error> {
    match store.session(id).await? {
        Some(session) if session.org == *org => Ok(()),
        _ => Err(Invalid::new("resumes", "names no session of this org").into()),
    }
}
