//! The only place in the worker that reads the system clock.

use domain::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep_until};

#[expect(clippy::disallowed_methods, reason = "this is the worker's clock")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Sleeps until `instant`; never resolves if there is none.
pub async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
