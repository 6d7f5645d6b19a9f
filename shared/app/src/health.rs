//! Health check of the plane: its table responds.

use crate::error::Error;
use domain::access::EVERY_ORG;
use store::Store;

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
}

/// Reads one item, and fails if the table does not respond.
pub async fn run(deps: Deps<'_>) -> Result<(), Error> {
    deps.store.subscription_versions(&[EVERY_ORG]).await?;
    Ok(())
}
