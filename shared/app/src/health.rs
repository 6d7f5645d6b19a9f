//! Looks whether the plane is alive: its table answers, and whoever asked could ask.

use crate::error::Error;
use domain::access::EVERY_ORG;
use store::Store;

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads one stamp.
    pub store: &'a Store,
}

/// Fails if the table does not answer. A repeat reads again.
pub async fn run(deps: Deps<'_>) -> Result<(), Error> {
    deps.store.subscription_versions(&[EVERY_ORG]).await?;
    Ok(())
}
