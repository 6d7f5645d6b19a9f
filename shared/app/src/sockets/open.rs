//! Opens a socket: one with a token is stored and subscribed, one without gets a deadline.
//!
//! **Invariant:** nothing is stored about a socket before it is authenticated. So the table does not grow
//! with sockets that any client may open.

use crate::Clock;
use crate::error::Error;
use crate::sockets::subscribe::{Subscription, subscribe};
use crate::visibility::visible_sandbox;
use contract::jobs::Job;
use contract::socket::Subscribe;
use domain::access::Principal;
use domain::{ConnectionId, Invalid, SandboxId, Timestamp};
use std::time::Duration;
use store::connections::Connection;
use store::{JobQueue, Store};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    /// Closes the socket later, if it is still unauthenticated.
    pub socket_jobs: &'a JobQueue,
    pub clock: &'a dyn Clock,
    /// Deadline for authentication.
    pub auth_timeout: Duration,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub connection: ConnectionId,
    /// The principal and the expiry of its token. `None` if the socket authenticates with its first frame.
    pub principal: Option<(Principal, Option<Timestamp>)>,
    /// The sandbox in the path, if the socket is for one.
    pub sandbox: Option<SandboxId>,
    pub subscribe: Subscribe,
}

pub type Outcome = ();

/// A socket with a token is subscribed when this returns.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { connection, principal, sandbox, subscribe: mut request } = command;
    let Some((principal, until)) = principal else {
        reject_filters_without_token(sandbox.as_ref(), &request)?;
        let job = Job::ExpireSocket { connection_id: connection };
        return Ok(deps.socket_jobs.send(&job.encode(), deps.auth_timeout).await?);
    };
    if let Some(sandbox) = &sandbox {
        visible_sandbox(deps.store, &principal, sandbox).await?;
        request.filters.entity_types = Some(vec![domain::entity::SANDBOX.to_owned()]);
        request.filters.entity_ids = Some(vec![sandbox.to_string()]);
    }
    let now = deps.clock.now();
    let subscription = Subscription { principal, until, change: request };
    match subscribe(deps.store, &Connection::new(connection, now), subscription, now).await? {
        Some(_) => Ok(()),
        None => Err(Error::Unavailable("a socket with this id is open".into())),
    }
}

/// A socket without a token cannot have filters in its URL: nothing is stored that could keep them.
fn reject_filters_without_token(sandbox: Option<&SandboxId>, request: &Subscribe) -> Result<(), Invalid> {
    let filters = &request.filters;
    for (field, is_present) in [
        ("sandbox_id", sandbox.is_some()),
        ("event_types", filters.event_types.is_some()),
        ("entity_types", filters.entity_types.is_some()),
        ("entity_ids", filters.entity_ids.is_some()),
        ("batch", request.batch.is_some()),
    ] {
        if is_present {
            let reason = "needs a token in the handshake; without one, send filters in the `auth` frame";
            return Err(Invalid::new(field, reason));
        }
    }
    Ok(())
}
