//! Stores events of a worker, exactly once. They are stored when the response is sent.

use crate::error::Error;
use crate::quotas::{self, Payer};
use crate::sandboxes::keyed_locks::KeyedLocks;
use crate::sandboxes::write_guard::WriteGuard;
use crate::{Clock, IdSource, events, reconcile, visibility};
use contract::BadInput;
use contract::ProblemCode;
use contract::ingest::{BatchReceived, EventReceived, Ingest, digest_of_single};
use contract::jobs::Job;
use domain::access::Principal;
use domain::event::LifecycleEvent;
use domain::ingest::{Batch, Decision, Refusal, decide};
use domain::quota::Amount;
use domain::sandbox::{BatchNumber, Receipt};
use domain::{EventId, EventType, Invalid, OrgId, Sandbox, SandboxId, Timestamp};
use serde_json::json;
use std::borrow::Cow;
use store::log::{Append, Appended, IdempotencyRecord};
use store::{JobQueue, Store};

#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    pub store: &'a Store,
    pub locks: &'a KeyedLocks,
    pub clock: &'a dyn Clock,
    pub ids: &'a dyn IdSource,
    pub quotas: quotas::Deps<'a>,
    /// The org of sandboxes that were not registered. Only set if authentication is disabled.
    pub adopting_org: Option<&'a OrgId>,
    /// A sandbox has to be reconciled after a lifecycle event.
    pub orchestration_jobs: &'a JobQueue,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub principal: Principal,
    pub sandbox: SandboxId,
    pub ingest: Ingest,
    /// Size of the request.
    pub body_bytes: u64,
    /// Makes a single event idempotent, as its number does a batch.
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Event(EventReceived),
    Batch(BatchReceived),
}

/// Idempotent: a retry with the same batch number or idempotency key stores nothing and gets the first response.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox: sandbox_id, ingest, body_bytes, idempotency_key } = command;
    let (batch, single) = match ingest {
        Ingest::Batch(batch) => (batch, None),
        Ingest::Single(event) => {
            let idempotency = idempotency_key.map(|key| (key, digest_of_single(&event)));
            let single = Single { id: event.id.clone(), event_type: event.event_type.clone(), idempotency };
            (Batch::new(None, vec![*event], String::new()), Some(single))
        }
    };
    let quota = deps.quotas.quotas.sandbox;
    let mut is_charged = false;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &sandbox_id).await;
    loop {
        let (sandbox, is_cached) = match guard.cached() {
            Some(sandbox) => (sandbox, true),
            None => (read_or_create(deps, &mut guard, &sandbox_id).await?, false),
        };
        let now = deps.clock.now();
        let decision = match visibility::check_report(&principal, &sandbox, now)
            .and_then(|()| decide(&sandbox, &batch, body_bytes, quota, now).map_err(refusal))
        {
            // The cached state may be stale. Decide again with the stored one.
            Err(_) | Ok(Decision::Repeat(_)) if is_cached => continue,
            Err(error) => {
                guard.cache(sandbox);
                return Err(error);
            }
            Ok(decision) => decision,
        };
        let (next, first_seq, receipt, lifecycle_events) = match decision {
            Decision::Store { next, first_seq, receipt, lifecycle_events } => {
                (next, first_seq, receipt, lifecycle_events)
            }
            Decision::Repeat(receipt) => {
                guard.cache(sandbox);
                return Ok(Outcome::Batch(batch_response(&sandbox_id, batch.number, receipt, true)));
            }
        };
        // Last, so that only what would be stored counts. A retry after a conflict is the same request.
        if !is_charged {
            let cost = Amount::new(batch.len(), body_bytes);
            if let Err(refused) = quotas::charge(deps.quotas, &payers(&principal, &sandbox), cost).await {
                guard.cache(sandbox);
                return Err(refused);
            }
            is_charged = true;
        }
        let idempotency = single.as_ref().and_then(|single| single.idempotency_record(&receipt));
        // A sandbox whose worker has exited can be released.
        let exited_at = |sandbox: &Sandbox| {
            sandbox.activity.provisioning.as_ref().and_then(|provisioning| provisioning.worker_exited_at)
        };
        let needs_reconcile = !lifecycle_events.is_empty() || exited_at(&sandbox) != exited_at(&next);
        let batch = with_lifecycle_events(deps.ids, &batch, lifecycle_events);
        let append = Append {
            before: &sandbox,
            after: &next,
            first_seq,
            batch: &batch,
            now,
            idempotency: idempotency.as_ref(),
            changes: &[],
        };
        match deps.store.append(append).await? {
            Appended::Stored(sandbox) => {
                guard.cache(*sandbox);
                if needs_reconcile {
                    reconcile::jobs::enqueue(
                        deps.orchestration_jobs,
                        &Job::ReconcileSandbox { sandbox_id: sandbox_id.clone() },
                    )
                    .await;
                }
                return Ok(match single {
                    Some(single) => {
                        Outcome::Event(single.response(sandbox_id, receipt.first_seq, receipt.received_at))
                    }
                    None => Outcome::Batch(batch_response(&sandbox_id, batch.number, receipt, false)),
                });
            }
            Appended::KeyUsed(used) => {
                let single = single.expect("only a single event carries a key");
                return single.first_response(sandbox_id, used).map(Outcome::Event);
            }
            Appended::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Appended::TooLarge => {
                let reason = "exceeds 3.5 MB after compression";
                return Err(BadInput::TooLarge(Invalid::new("event_data", reason)).into());
            }
            Appended::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// The sandbox counts its events itself.
fn payers(principal: &Principal, sandbox: &Sandbox) -> Vec<Payer> {
    let mut payers = match principal {
        Principal::Worker { .. } => Vec::new(),
        other => Payer::of(other),
    };
    let org = Payer::Org(sandbox.org.clone());
    if !payers.contains(&org) {
        payers.push(org);
    }
    payers
}

async fn read_or_create(
    deps: Deps<'_>,
    guard: &mut WriteGuard<'_>,
    sandbox_id: &SandboxId,
) -> Result<Sandbox, Error> {
    if let Some(sandbox) = guard.read(sandbox_id).await? {
        return Ok(sandbox);
    }
    let Some(org) = deps.adopting_org else { return Err(Error::no_sandbox(sandbox_id)) };
    let sandbox = Sandbox::new(sandbox_id.clone(), org.clone(), None, deps.clock.now());
    deps.store.create_sandbox(&sandbox).await?;
    Ok(sandbox)
}

/// The batch, followed by the lifecycle events of the sandbox that result from it.
fn with_lifecycle_events<'a>(
    ids: &dyn IdSource,
    batch: &'a Batch,
    lifecycle_events: Vec<LifecycleEvent>,
) -> Cow<'a, Batch> {
    if lifecycle_events.is_empty() {
        return Cow::Borrowed(batch);
    }
    let mut batch = batch.clone();
    batch.events.extend(events::emit::events_of(ids, lifecycle_events));
    Cow::Owned(batch)
}

/// What the response to a single event needs.
struct Single {
    id: EventId,
    event_type: EventType,
    /// The idempotency key and the digest of the request.
    idempotency: Option<(String, String)>,
}

impl Single {
    fn idempotency_record(&self, receipt: &Receipt) -> Option<IdempotencyRecord> {
        let (key, digest) = self.idempotency.clone()?;
        let (seq, received_at) = (receipt.first_seq, receipt.received_at);
        Some(IdempotencyRecord { key, digest, event_id: self.id.clone(), seq, received_at })
    }

    fn response(self, sandbox_id: SandboxId, seq: Option<u64>, timestamp: Timestamp) -> EventReceived {
        let Self { id: event_id, event_type, .. } = self;
        EventReceived { status: RECEIVED.into(), sandbox_id, event_type, event_id, seq, timestamp }
    }

    fn first_response(
        mut self,
        sandbox_id: SandboxId,
        used: IdempotencyRecord,
    ) -> Result<EventReceived, Error> {
        if self.idempotency.as_ref().is_some_and(|(_, digest)| *digest != used.digest) {
            return Err(Invalid::new("Idempotency-Key", "was already used for another event").into());
        }
        self.id = used.event_id;
        Ok(self.response(sandbox_id, used.seq, used.received_at))
    }
}

const RECEIVED: &str = "received";

fn batch_response(
    sandbox_id: &SandboxId,
    number: Option<BatchNumber>,
    receipt: Receipt,
    repeated: bool,
) -> BatchReceived {
    let number = number.unwrap_or_default();
    BatchReceived {
        status: RECEIVED.into(),
        sandbox_id: sandbox_id.clone(),
        epoch: number.epoch,
        batch: number.batch,
        repeated,
        first_seq: receipt.first_seq,
        events: receipt.events,
        heartbeats: receipt.heartbeats,
        timestamp: receipt.received_at,
    }
}

fn refusal(refusal: Refusal) -> Error {
    match refusal {
        Refusal::StaleEpoch { current } => Error::conflict(
            ProblemCode::StaleEpoch,
            format!("A newer run of the worker (epoch {current}) is active; this one must stop."),
            json!({"current_epoch": current}),
        ),
        Refusal::EpochTooHigh { current, max } => Error::conflict(
            ProblemCode::EpochTooHigh,
            format!("The last epoch is {current}; the next one may be at most {max}. Nothing was stored."),
            json!({"current_epoch": current, "max_epoch": max}),
        ),
        Refusal::BatchGap { expected } => Error::conflict(
            ProblemCode::BatchGap,
            format!("Expected batch {expected} first; nothing was stored."),
            json!({"expected_batch": expected}),
        ),
        Refusal::BatchChanged => Error::conflict(
            ProblemCode::BatchChanged,
            "This batch number was already used for other events; nothing was stored.".into(),
            json!({}),
        ),
        Refusal::BatchExpired { expected } => Error::conflict(
            ProblemCode::BatchExpired,
            format!("This batch number is too old to verify; batch {expected} is next. Nothing was stored."),
            json!({"expected_batch": expected}),
        ),
        Refusal::RateLimited { retry_after_secs } => {
            Error::RateLimited { reason: quotas::SANDBOX_REFUSAL, retry_after_secs }
        }
    }
}
