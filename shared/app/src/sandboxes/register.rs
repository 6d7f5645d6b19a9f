//! Registers a sandbox that the plane did not provision.

use crate::error::Error;
use crate::messages::queue;
use crate::{Clock, IdSource, visibility};
use contract::ProblemCode;
use contract::sandboxes::Register;
use domain::access::Principal;
use domain::message::Sender;
use domain::{Invalid, OrgId, Sandbox, SessionId};
use serde_json::json;
use store::{Mailboxes, Store};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub mailboxes: &'a Mailboxes,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
    /// The org of sandboxes that an operator registers without an org.
    pub default_org: &'a OrgId,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub register: Register,
}

pub type Outcome = Sandbox;

/// Not idempotent: a second registration with the same id is rejected, because it must not obtain the first one's
/// token.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Register { id, org, name, resumes } = command.register;
    let org = visibility::owning_org(&command.principal, org, deps.default_org)?;
    if let Some(session) = &resumes {
        check_session(deps.store, session, &org).await?;
    }
    let mut sandbox = Sandbox::new(id.unwrap_or_else(|| deps.ids.sandbox()), org, name, deps.clock.now());
    sandbox.resumes = resumes;
    sandbox.registered_by = Some(Sender::of(&command.principal));
    if deps.store.create_sandbox(&sandbox).await? {
        queue::create(deps.mailboxes, &sandbox.id).await;
        return Ok(sandbox);
    }
    Err(Error::conflict(
        ProblemCode::SandboxExists,
        format!("Sandbox {} already exists; request a new worker token instead.", sandbox.id),
        json!({}),
    ))
}

/// A session of another org looks as if it did not exist.
async fn check_session(store: &Store, id: &SessionId, org: &OrgId) -> Result<(), Error> {
    match store.session(id).await? {
        Some(session) if session.org == *org => Ok(()),
        _ => Err(Invalid::new("resumes", "does not name a session of this org").into()),
    }
}
