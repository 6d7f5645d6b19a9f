//! What a socket wants to see changes: by a `subscribe` frame, or because it has said who it is.

use crate::error::Error;
use crate::visibility::visible_sandbox;
use contract::socket::Subscribe;
use domain::access::{Principal, realm};
use domain::{ConnectionId, Timestamp};
use store::Store;
use store::connections::{Changed, Connection};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads and writes the connection and its subscriptions; reads a head.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// Which socket.
    pub connection: ConnectionId,
    /// Who it says it is, if that is new.
    pub principal: Option<(Principal, Option<Timestamp>)>,
    /// What it wants.
    pub change: Subscribe,
}

/// The socket as it is now.
pub type Outcome = Connection;

/// IdempotencyRecord this returns, every later event that matches is sent. A repeat changes nothing.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    for _ in 0..MAX_ATTEMPTS {
        let before = deps.store.connection(&command.connection).await?;
        let before = before.ok_or_else(|| Error::NotFound("This connection".into()))?;
        let (principal, until) = match (&command.principal, &before.principal) {
            (Some((principal, until)), _) => (principal.clone(), *until),
            (None, Some(principal)) => (principal.clone(), before.until),
            (None, None) => {
                return Err(Error::Unauthorized("Say who you are first: {\"type\":\"auth\",\"token\":…}."));
            }
        };
        let wish = Wish { principal, until, change: command.change.clone() };
        if let Some(after) = subscribe(deps.store, &before, wish).await? {
            return Ok(after);
        }
    }
    Err(Error::Unavailable("too many changes to one socket at once".into()))
}

/// API Gateway may handle two frames of one socket at the same time.
const MAX_ATTEMPTS: usize = 5;

pub(crate) struct Wish {
    pub(crate) principal: Principal,
    pub(crate) until: Option<Timestamp>,
    pub(crate) change: Subscribe,
}

/// The socket as it is now; `None` if somebody else has changed it meanwhile.
pub(crate) async fn subscribe(
    store: &Store,
    before: &Connection,
    wish: Wish,
) -> Result<Option<Connection>, Error> {
    let mut after = before.clone();
    after.filters = before.filters.changed(wish.change.filters)?;
    after.batch = wish.change.batch.unwrap_or(before.batch);
    after.until = wish.until;
    after.realm = Some(match (realm(&wish.principal), &wish.principal) {
        (Some(realm), _) => realm.to_owned(),
        // A worker hears of its own sandbox and of nothing else.
        (None, principal @ Principal::Worker { sandbox, .. }) => {
            let head = visible_sandbox(store, principal, sandbox).await?;
            if after.filters.entity_ids.iter().any(|id| id != sandbox.as_str()) {
                return Err(Error::Forbidden("A worker can subscribe to its own sandbox only."));
            }
            after.filters.entity_ids = [sandbox.to_string()].into();
            head.org.to_string()
        }
        (None, _) => return Err(Error::Forbidden("This token cannot subscribe.")),
    });
    after.principal = Some(wish.principal);
    match store.resubscribe(before, &mut after).await? {
        Changed::Yes => Ok(Some(after)),
        Changed::Transition => Ok(None),
    }
}
