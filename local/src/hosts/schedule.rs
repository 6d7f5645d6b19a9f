//! What happens every so often.

use crate::aws::Sweeper;
use std::time::Duration;

/// What expires does so after hours or days, and a sweep looks at every item.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Runs until it is dropped.
pub async fn run(sweeper: Sweeper) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        match sweeper.sweep().await {
            Ok(count) => tracing::debug!("Removed {count} expired items"),
            Err(error) => tracing::warn!(%error, "Could not remove expired items"),
        }
    }
}
