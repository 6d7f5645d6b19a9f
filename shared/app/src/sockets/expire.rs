//! Closes a socket that was not authenticated in time.

use crate::error::Error;
use contract::{ProblemCode, socket};
use domain::ConnectionId;
use store::push::Pushed;
use store::{Push, Store};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub push: &'a Push,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub connection: ConnectionId,
}

/// Whether it was closed.
pub type Outcome = bool;

/// Does nothing if the socket is authenticated: only then it is stored. Idempotent: closing a closed socket does nothing,
/// so a retry completes what the first attempt may have left over.
///
/// A client that authenticates at this moment may be confirmed and closed nevertheless. It reconnects, and its record is
/// deleted like that of any closed socket.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let stored = deps.store.connection(&command.connection).await?;
    // An earlier version stored sockets before they were authenticated.
    if stored.is_some_and(|connection| connection.principal.is_some()) {
        return Ok(false);
    }
    let frame = socket::error(
        ProblemCode::Unauthorized.as_str(),
        "Not authenticated in time; closing the connection.",
    );
    deps.push.send(&command.connection, &frame).await;
    match deps.push.close(&command.connection).await {
        Pushed::Failed(reason) => {
            Err(Error::Unavailable(format!("could not close the socket: {reason}").into()))
        }
        Pushed::Sent | Pushed::Gone => Ok(true),
    }
}
