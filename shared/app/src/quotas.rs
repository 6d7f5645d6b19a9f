//! Counts what principals and orgs write, against their quotas.
//!
//! The quota of a sandbox for events is counted on the sandbox itself (`domain::ingest`). All others are counted in the
//! process, and in the table if several processes share them (`domain::quota`): most requests need no call for it.
//!
//! Deliberately absent: reads, which store nothing. The limit of requests per second bounds them.

use crate::Clock;
use crate::error::Error;
use domain::access::Principal;
use domain::quota::{Amount, Charge, Quotas, Window, retry_after_secs};
use domain::{OrgId, Sandbox, SandboxId, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;
use store::Store;
use store::quotas::QuotaOwner;

/// Above this number, windows of earlier minutes are dropped.
const MAX_IDLE_WINDOWS: usize = 10_000;

/// What this process has admitted.
#[derive(Debug, Default)]
pub struct QuotaCounters(Mutex<HashMap<Payer, Window>>);

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub counters: &'a QuotaCounters,
    pub quotas: &'a Quotas,
    pub clock: &'a dyn Clock,
}

/// Whose quota a request uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Payer {
    /// Everything that a worker sends but its events.
    Sandbox(SandboxId),
    Org(OrgId),
    User(OrgId, String),
    Operator(String),
}

impl Payer {
    /// The quotas that a request of this principal uses, besides that of the org of a worker.
    pub fn of(principal: &Principal) -> Vec<Self> {
        match principal {
            Principal::Worker { sandbox, .. } => vec![Self::Sandbox(sandbox.clone())],
            Principal::User { org, id, .. } => {
                vec![Self::User(org.clone(), id.clone()), Self::Org(org.clone())]
            }
            Principal::Operator { name } => vec![Self::Operator(name.clone())],
            Principal::Anonymous => Vec::new(),
        }
    }

    /// The org of a worker's sandbox. A worker's token does not name it, so the use case that reads the sandbox charges it.
    pub(crate) fn org_of_worker(principal: &Principal, sandbox: &Sandbox) -> Option<Self> {
        matches!(principal, Principal::Worker { .. }).then(|| Self::Org(sandbox.org.clone()))
    }

    fn quota(&self, quotas: &Quotas) -> Amount {
        match self {
            Self::Sandbox(_) => quotas.sandbox,
            Self::Org(_) => quotas.org,
            Self::User(..) => quotas.user,
            Self::Operator(_) => quotas.operator,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => "sandbox",
            Self::Org(_) => "org",
            Self::User(..) => "user",
            Self::Operator(_) => "operator",
        }
    }

    /// Unique within its kind: an org has no `#` in its id.
    fn id(&self) -> String {
        match self {
            Self::Sandbox(sandbox) => sandbox.to_string(),
            Self::Org(org) => org.to_string(),
            Self::User(org, id) => format!("{org}#{id}"),
            Self::Operator(name) => name.clone(),
        }
    }

    fn refusal(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => SANDBOX_REFUSAL,
            Self::Org(_) => "The quota of this org is used up for this minute.",
            Self::User(..) => "Your quota is used up for this minute.",
            Self::Operator(_) => "The quota of this operator is used up for this minute.",
        }
    }
}

pub(crate) const SANDBOX_REFUSAL: &str = "The quota of this sandbox is used up for this minute.";

/// Counts a request for each payer, or refuses it. To be called before anything is stored. What was counted for a request
/// that fails later stays counted.
pub async fn charge(deps: Deps<'_>, payers: &[Payer], cost: Amount) -> Result<(), Error> {
    for payer in payers {
        charge_one(deps, payer, cost).await?;
    }
    Ok(())
}

async fn charge_one(deps: Deps<'_>, payer: &Payer, cost: Amount) -> Result<(), Error> {
    let quota = payer.quota(deps.quotas);
    loop {
        let now = deps.clock.now();
        let charged =
            deps.counters.window(payer, now, |window| window.charge(cost, quota, deps.quotas.shared, now));
        match charged {
            Charge::Admitted => return Ok(()),
            Charge::Refused => {
                let (reason, retry_after_secs) = (payer.refusal(), retry_after_secs(now));
                return Err(Error::RateLimited { reason, retry_after_secs });
            }
            Charge::NeedsGrant(part) => {
                let owner = QuotaOwner { kind: payer.kind(), id: &payer.id() };
                // Boxed, because it is rare: otherwise every request would be as large as this call.
                let granted = Box::pin(deps.store.grant_quota(owner, part, quota, now)).await?;
                deps.counters.window(payer, now, |window| window.answered(granted.then_some(part), now));
            }
        }
    }
}

impl QuotaCounters {
    fn window<T>(&self, payer: &Payer, now: Timestamp, act: impl FnOnce(&mut Window) -> T) -> T {
        let mut windows = self.0.lock().expect("no code panics while it holds the windows");
        if windows.len() >= MAX_IDLE_WINDOWS && !windows.contains_key(payer) {
            windows.retain(|_, window| !window.is_over(now));
        }
        act(windows.entry(payer.clone()).or_default())
    }
}
