//! A socket opens, or says who it is.

use crate::Clock;
use crate::error::Error;
use crate::sockets::subscribe::{Wish, subscribe};
use crate::visibility::visible_sandbox;
use contract::jobs::Job;
use contract::socket::Subscribe;
use domain::access::Principal;
use domain::filter::Filters;
use domain::{ConnectionId, SandboxId, Timestamp};
use std::time::Duration;
use store::connections::{Changed, Connection};
use store::{Jobs, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Writes the connection and its subscriptions; reads a head.
    pub store: &'a Store,
    /// Has a socket closed whose owner does not say who they are.
    pub jobs: &'a Jobs,
    /// The time.
    pub clock: &'a dyn Clock,
    /// How long they have to say so.
    pub known_within: Duration,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// Which socket.
    pub connection: ConnectionId,
    /// Who is there, and until when that holds; `None` if they will say so in their first frame.
    pub principal: Option<(Principal, Option<Timestamp>)>,
    /// The sandbox in the path, if the socket is for one.
    pub sandbox: Option<SandboxId>,
    /// What it wants.
    pub wish: Subscribe,
}

/// The socket as it is stored.
pub type Outcome = Connection;

/// Stores the socket; if it is known who is there, it is subscribed when this returns.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let mut wish = command.wish;
    if let Some(sandbox) = &command.sandbox {
        if let Some((principal, _)) = &command.principal {
            visible_sandbox(deps.store, principal, sandbox).await?;
        }
        wish.filters.entity_types = Some(vec![domain::entity::SANDBOX.to_owned()]);
        wish.filters.entity_ids = Some(vec![sandbox.to_string()]);
    }
    let mut connection = Connection {
        id: command.connection,
        principal: None,
        realm: None,
        filters: Filters::default().changed(wish.filters)?,
        batch: wish.batch.unwrap_or(false),
        version: 0,
        connected_at: deps.clock.now(),
        until: None,
    };
    let before = connection.clone();
    let opened = match command.principal {
        None => {
            // The job first: one for a socket that is not there does nothing, a socket without one stays for hours.
            let job = Job::ExpireSocket { connection_id: connection.id.clone() };
            deps.jobs.send(&job.encode(), deps.known_within).await?;
            match deps.store.resubscribe(&before, &mut connection).await? {
                Changed::Yes => Some(connection),
                Changed::Transition => None,
            }
        }
        Some((principal, until)) => {
            let wish = Wish { principal, until, change: Subscribe::default() };
            subscribe(deps.store, &connection, wish).await?
        }
    };
    opened.ok_or_else(|| Error::Unavailable("a socket of this name is open".into()))
}
