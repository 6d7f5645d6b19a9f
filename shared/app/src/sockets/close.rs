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
    // Sockets that never authenticated are not stored. For the table, a deletion of nothing is a write.
    if deps.store.connection(&command.connection).await?.is_none() {
        return Ok(());
    }
    Ok(deps.store.delete_connection(&command.connection).await?)
}
