//! Closes a socket whose owner has not said who they are.

use crate::error::Error;
use contract::socket;
use domain::ConnectionId;
use store::push::Pushed;
use store::{Push, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Forgets the connection.
    pub store: &'a Store,
    /// Tells why, and closes.
    pub push: &'a Push,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// Which socket.
    pub connection: ConnectionId,
}

/// Whether it was closed.
pub type Outcome = bool;

/// Leaves a socket alone that is known. One that is gone already is closed once more, which does nothing: so a repeat
/// ends what a first try has begun.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    // Forgotten first, under a condition: somebody may say who they are at this moment.
    if !deps.store.drop_if_unknown(&command.connection).await? {
        return Ok(false);
    }
    let told = socket::error("unauthorized", "Nobody said who they are; closing.");
    deps.push.send(&command.connection, &told).await;
    match deps.push.close(&command.connection).await {
        Pushed::Failed(why) => Err(Error::Unavailable(format!("the socket cannot be closed: {why}").into())),
        Pushed::Sent | Pushed::Gone => Ok(true),
    }
}
