//! Stores a new socket, and subscribes it if it is authenticated.

use crate::Clock;
use crate::error::Error;
use crate::sockets::subscribe::{Subscription, subscribe};
use crate::visibility::visible_sandbox;
use contract::jobs::Job;
use contract::socket::Subscribe;
use domain::access::Principal;
use domain::filter::Filters;
use domain::{ConnectionId, SandboxId, Timestamp};
use std::time::Duration;
use store::connections::{Connection, Resubscribed};
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

pub type Outcome = Connection;

/// An authenticated socket is subscribed when this returns.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut request = command.subscribe;
    if let Some(sandbox) = &command.sandbox {
        if let Some((principal, _)) = &command.principal {
            visible_sandbox(deps.store, principal, sandbox).await?;
        }
        request.filters.entity_types = Some(vec![domain::entity::SANDBOX.to_owned()]);
        request.filters.entity_ids = Some(vec![sandbox.to_string()]);
    }
    let mut connection = Connection {
        id: command.connection,
        principal: None,
        realm: None,
        filters: Filters::default().changed(request.filters)?,
        batch: request.batch.unwrap_or(false),
        version: 0,
        connected_at: deps.clock.now(),
        until: None,
    };
    let before = connection.clone();
    let opened = match command.principal {
        None => {
            // The job first: a job without a socket does nothing, but a socket without a job would stay open for
            // hours.
            let job = Job::ExpireSocket { connection_id: connection.id.clone() };
            deps.socket_jobs.send(&job.encode(), deps.auth_timeout).await?;
            match deps.store.resubscribe(&before, &mut connection).await? {
                Resubscribed::Stored => Some(connection),
                Resubscribed::Conflict => None,
            }
        }
        Some((principal, until)) => {
            let subscription = Subscription { principal, until, change: Subscribe::default() };
            subscribe(deps.store, &connection, subscription).await?
        }
    };
    opened.ok_or_else(|| Error::Unavailable("a socket with this id is open".into()))
}
