//! Deletes a closed socket and its subscriptions.

use crate::error::Error;
use domain::ConnectionId;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub connection: ConnectionId,
}

pub type Outcome = ();

/// Idempotent.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    Ok(deps.store.delete_connection(&command.connection).await?)
}
