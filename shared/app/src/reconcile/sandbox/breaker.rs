//! The circuit breaker of a provider.
//!
//! It covers provisioning only. Deletions are always attempted: they have their own backoff, and may be what a
//! provider at full capacity needs.

use super::Deps;
use crate::error::{Error, chain};
use domain::Timestamp;
use domain::breaker::Allow;
use providers::{Failure, FailureClass};

/// Maximum number of attempts after conflicts. The breaker is only a hint, so giving up is harmless.
const MAX_ATTEMPTS: usize = 5;

/// Until when the breaker is open, if it is. When that time has passed, one caller probes the provider and the others
/// wait for the result.
pub(super) async fn open_until(deps: Deps<'_>, provider: &str) -> Result<Option<Timestamp>, Error> {
    let now = deps.clock.now();
    for _ in 0..MAX_ATTEMPTS {
        let breaker = deps.store.breaker(provider).await?;
        match breaker.allows(now) {
            Allow::Yes => return Ok(None),
            Allow::No { until } => return Ok(Some(until)),
            Allow::Probe => {
                if deps.store.put_breaker(provider, &breaker.probing(now)).await? {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(now.plus_secs(1)))
}

/// Records the result of a request. Rate limiting does not count as a failure of the provider.
pub(super) async fn record<T>(deps: Deps<'_>, provider: &str, result: &Result<T, Failure>) {
    let now = deps.clock.now();
    for _ in 0..MAX_ATTEMPTS {
        let Ok(breaker) = deps.store.breaker(provider).await else { return };
        let after = match result {
            Err(Failure { class: FailureClass::Busy { .. }, .. }) => return,
            Err(Failure { class: FailureClass::Unreachable, .. }) => breaker.failed(now),
            Err(Failure { class: FailureClass::Refused, .. }) | Ok(_) => breaker.succeeded(now),
        };
        if after == breaker {
            return;
        }
        match deps.store.put_breaker(provider, &after).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                return tracing::debug!(
                    "Could not update the circuit breaker of {provider}: {}",
                    chain(&error)
                );
            }
        }
    }
}
