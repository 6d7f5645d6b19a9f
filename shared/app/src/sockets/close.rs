//! A socket is gone.

use crate::error::Error;
use domain::ConnectionId;
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Deletes the connection and its subscriptions.
    pub store: &'a Store,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// Which socket.
    pub connection: ConnectionId,
}

/// Nothing is left of it.
pub type Outcome = ();

/// Forgets it. A repeat does nothing.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    Ok(deps.store.drop_connection(&command.connection).await?)
}
