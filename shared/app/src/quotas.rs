//! Counts what principals and orgs write, against their quotas.
//!
//! The quota of a sandbox for events is counted on the sandbox itself (`domain::ingest`). All others are counted in the
//! process, and in the table if several processes share them (`domain::quota`): most requests need no call for it.
//!
//! Deliberately absent: reads, which store nothing. The limit of requests per second bounds them.

use crate::Clock;
use crate::error::Error;
use domain::Timestamp;
use domain::quota::{Amount, Charge, QuotaOwner, Quotas, Window, retry_after_secs};
use std::collections::HashMap;
use std::sync::Mutex;
use store::Store;

/// Above this number, windows of earlier minutes are dropped.
const MAX_IDLE_WINDOWS: usize = 10_000;

/// What this process has admitted.
#[derive(Debug, Default)]
pub struct QuotaCounters(Mutex<HashMap<QuotaOwner, Window>>);

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub counters: &'a QuotaCounters,
    pub quotas: &'a Quotas,
    pub clock: &'a dyn Clock,
}

fn refusal(owner: &QuotaOwner) -> &'static str {
    match owner {
        QuotaOwner::Sandbox(_) => SANDBOX_REFUSAL,
        QuotaOwner::Org(_) => "The quota of this org is used up for this minute.",
        QuotaOwner::User(..) => "Your quota is used up for this minute.",
        QuotaOwner::Operator(_) => "The quota of this operator is used up for this minute.",
    }
}

pub(crate) const SANDBOX_REFUSAL: &str = "The quota of this sandbox is used up for this minute.";

/// Counts a request for each of these, or refuses it. To be called before anything is stored. What was counted for a request
/// that fails later stays counted.
pub async fn charge(deps: Deps<'_>, owners: &[QuotaOwner], cost: Amount) -> Result<(), Error> {
    for owner in owners {
        charge_one(deps, owner, cost).await?;
    }
    Ok(())
}

async fn charge_one(deps: Deps<'_>, owner: &QuotaOwner, cost: Amount) -> Result<(), Error> {
    let quota = owner.quota(deps.quotas);
    loop {
        let now = deps.clock.now();
        let charged =
            deps.counters.window(owner, now, |window| window.charge(cost, quota, deps.quotas.shared, now));
        match charged {
            Charge::Admitted => return Ok(()),
            Charge::Refused => {
                let (reason, retry_after_secs) = (refusal(owner), retry_after_secs(now));
                return Err(Error::RateLimited { reason, retry_after_secs });
            }
            Charge::NeedsGrant(part) => {
                // Boxed, because it is rare: otherwise every request would be as large as this call.
                let granted = Box::pin(deps.store.grant_quota(owner, part, quota, now)).await?;
                deps.counters.window(owner, now, |window| window.record_grant(granted.then_some(part), now));
            }
        }
    }
}

impl QuotaCounters {
    fn window<T>(&self, owner: &QuotaOwner, now: Timestamp, act: impl FnOnce(&mut Window) -> T) -> T {
        let mut windows = self.0.lock().expect("no code panics while it holds the windows");
        if windows.len() >= MAX_IDLE_WINDOWS && !windows.contains_key(owner) {
            windows.retain(|_, window| !window.is_over(now));
        }
        act(windows.entry(owner.clone()).or_default())
    }
}
