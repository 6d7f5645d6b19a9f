//! Closes a socket whose owner has not said who they are.

use crate::close_socket;
use crate::error::Error;
use contract::socket;
use domain::ConnectionId;
use store::{Push, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads and forgets the connection.
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

/// Leaves a socket alone that is known or gone; so does a repeat.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let found = deps.store.connection(&command.connection).await?;
    if found.is_none_or(|connection| connection.principal.is_some()) {
        return Ok(false);
    }
    let told = socket::error("unauthorized", "Nobody said who they are; closing.");
    deps.push.send(&command.connection, &told).await;
    deps.push.close(&command.connection).await;
    let forget = close_socket::Command { connection: command.connection };
    close_socket::run(close_socket::Deps { store: deps.store }, forget).await?;
    Ok(true)
}
