//! Changes the subscriptions of a socket: by a `subscribe` frame, or because it has authenticated.

use crate::Clock;
use crate::error::Error;
use crate::visibility::visible_sandbox;
use contract::socket::Subscribe;
use domain::access::{Principal, realm};
use domain::{ConnectionId, Timestamp};
use store::Store;
use store::connections::{Changes, Connection, Resubscribed};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub clock: &'a dyn Clock,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub connection: ConnectionId,
    /// The principal and the expiry of its token, if the socket authenticates now.
    pub principal: Option<(Principal, Option<Timestamp>)>,
    pub change: Subscribe,
}

pub type Outcome = Connection;

/// Every matching event stored after this returns is sent. Idempotent.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    for _ in 0..MAX_ATTEMPTS {
        let now = deps.clock.now();
        let before = deps.store.connection(&command.connection).await?;
        // Nothing is stored about a socket before it is authenticated.
        let before = before.unwrap_or_else(|| Connection::new(command.connection.clone(), now));
        let (principal, until) = match (&command.principal, &before.principal) {
            (Some((principal, until)), _) => (principal.clone(), *until),
            (None, Some(principal)) => (principal.clone(), before.until),
            (None, None) => {
                return Err(Error::Unauthorized("Authenticate first: {\"type\":\"auth\",\"token\":…}."));
            }
        };
        let subscription = Subscription { principal, until, change: command.change.clone() };
        if let Some(after) = subscribe(deps.store, &before, subscription, now).await? {
            return Ok(after);
        }
    }
    Err(Error::Unavailable("too many concurrent changes of one socket".into()))
}

/// Maximum number of changes of one socket in a window, authentications included: each is a transaction of up to 81 items
/// and makes the broadcasts of its realm read their subscribers again. A client changes its filters as a person navigates.
pub const MAX_CHANGES: u32 = 50;
/// Length of the window.
pub const WINDOW_SECS: i64 = 10;

/// Counts a change, or refuses it. The count is stored with the change, so it is exact whichever process handles the frame,
/// and a change that is refused costs one read.
fn count(changes: Changes, now: Timestamp) -> Result<Changes, Error> {
    let window = now.as_secs().div_euclid(WINDOW_SECS);
    let count = if changes.window == window { changes.count } else { 0 };
    if count >= MAX_CHANGES {
        let reason = "This socket changes its subscription too often.";
        let retry_after_secs = (WINDOW_SECS - now.as_secs().rem_euclid(WINDOW_SECS)).unsigned_abs();
        return Err(Error::RateLimited { reason, retry_after_secs });
    }
    Ok(Changes { window, count: count + 1 })
}

/// Maximum number of attempts after conflicts. API Gateway may process two frames of one socket concurrently.
const MAX_ATTEMPTS: usize = 5;

pub(crate) struct Subscription {
    pub(crate) principal: Principal,
    pub(crate) until: Option<Timestamp>,
    pub(crate) change: Subscribe,
}

/// Returns the new state of the socket, or `None` on a conflict.
pub(crate) async fn subscribe(
    store: &Store,
    before: &Connection,
    subscription: Subscription,
    now: Timestamp,
) -> Result<Option<Connection>, Error> {
    let mut after = before.clone();
    after.changes = count(before.changes, now)?;
    after.filters = before.filters.changed(subscription.change.filters)?;
    after.batch = subscription.change.batch.unwrap_or(before.batch);
    after.until = subscription.until;
    after.realm = Some(match (realm(&subscription.principal), &subscription.principal) {
        (Some(realm), _) => realm.to_owned(),
        // A worker subscribes to its own sandbox only.
        (None, principal @ Principal::Worker { sandbox: sandbox_id, .. }) => {
            let sandbox = visible_sandbox(store, principal, sandbox_id).await?;
            if after.filters.entity_ids.iter().any(|id| id != sandbox_id.as_str()) {
                return Err(Error::Forbidden("A worker can subscribe only to its own sandbox."));
            }
            after.filters.entity_ids = [sandbox_id.to_string()].into();
            sandbox.org.to_string()
        }
        (None, _) => return Err(Error::Forbidden("This token cannot subscribe.")),
    });
    after.principal = Some(subscription.principal);
    match store.resubscribe(before, &mut after).await? {
        Resubscribed::Stored => Ok(Some(after)),
        Resubscribed::Conflict => Ok(None),
    }
}
