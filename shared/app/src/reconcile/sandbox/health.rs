//! How a provider is doing: whether to ask it for a sandbox, and what its answer says of it.
//!
//! Only making sandboxes asks and tells here. A removal is asked for in any case: it has waits of its own, and it may be
//! what a provider that is full needs.

use super::Deps;
use crate::error::{Error, chain};
use domain::Timestamp;
use domain::breaker::Allow;
use providers::{Failure, FailureClass};

/// How often a race for the breaker is run. It is a hint: beyond that nothing is lost.
const MAX_RACES: usize = 5;

/// Until when a provider is to be left alone, if it is. Whoever finds that the time is over tries it, one at a time, and
/// the others wait for what comes of it.
pub(super) async fn closed_until(deps: Deps<'_>, provider: &str) -> Result<Option<Timestamp>, Error> {
    let now = deps.deps.clock.now();
    for _ in 0..MAX_RACES {
        let breaker = deps.deps.store.breaker(provider).await?;
        match breaker.allows(now) {
            Allow::Yes => return Ok(None),
            Allow::No { until } => return Ok(Some(until)),
            Allow::Probe => {
                if deps.deps.store.keep_breaker(provider, &breaker.probing(now)).await? {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(now.plus_secs(1)))
}

/// Keeps what an answer says of the provider. That we ask too much says nothing of it.
pub(super) async fn note<T>(deps: Deps<'_>, provider: &str, made: &Result<T, Failure>) {
    let now = deps.deps.clock.now();
    for _ in 0..MAX_RACES {
        let Ok(breaker) = deps.deps.store.breaker(provider).await else { return };
        let after = match made {
            Err(Failure { class: FailureClass::Busy { .. }, .. }) => return,
            Err(Failure { class: FailureClass::Unreachable, .. }) => breaker.failed(now),
            Err(Failure { class: FailureClass::Refused, .. }) | Ok(_) => breaker.succeeded(now),
        };
        if after == breaker {
            return;
        }
        match deps.deps.store.keep_breaker(provider, &after).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                return tracing::debug!("Could not keep the health of {provider}: {}", chain(&error));
            }
        }
    }
}
