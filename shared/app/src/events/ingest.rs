//! Stores events of a worker, exactly once. They are stored when the response is sent.

use crate::error::Error;
use crate::quotas;
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
use domain::message::Sender;
use domain::quota::{Amount, QuotaOwner};
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
    let request = Request::of(command);
    let mut is_charged = false;
    let mut guard = WriteGuard::acquire(deps.store, deps.locks, deps.clock, &request.sandbox).await;
    loop {
        let (sandbox, is_cached) = match guard.cached() {
            Some(sandbox) => (sandbox, true),
            None => (read_or_create(deps, &mut guard, &request).await?, false),
        };
        let now = deps.clock.now();
        let decision = match request.decide(deps, &sandbox, now) {
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
                let (id, number) = (&request.sandbox, request.batch.number);
                return Ok(Outcome::Batch(batch_response(id, number, receipt, true)));
            }
        };
        // Last, so that only what would be stored counts. A retry after a conflict is the same request.
        if !is_charged {
            if let Err(refused) = request.charge(deps, &sandbox).await {
                guard.cache(sandbox);
                return Err(refused);
            }
            is_charged = true;
        }
        let idempotency = request.single.as_ref().and_then(|single| single.idempotency_record(&receipt));
        let needs_reconcile = !lifecycle_events.is_empty() || worker_exited(&sandbox, &next);
        let batch = with_lifecycle_events(deps.ids, &request.batch, lifecycle_events);
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
                    let job = Job::ReconcileSandbox { sandbox_id: request.sandbox.clone() };
                    reconcile::jobs::enqueue(deps.orchestration_jobs, &job).await;
                }
                return Ok(request.response(receipt));
            }
            Appended::KeyUsed(used) => return request.first_response(used),
            Appended::Conflict(sandbox) => guard.conflict(sandbox).await?,
            Appended::TooLarge => {
                let reason = "exceeds 3.5 MB after compression";
                return Err(BadInput::TooLarge(Invalid::new("event_data", reason)).into());
            }
            Appended::MessageExists(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

/// What is stored, however often it is tried.
struct Request {
    principal: Principal,
    sandbox: SandboxId,
    batch: Batch,
    /// Present if the batch was sent as a single event.
    single: Option<Single>,
    body_bytes: u64,
}

impl Request {
    fn of(command: Command) -> Self {
        let Command { principal, sandbox, ingest, body_bytes, idempotency_key } = command;
        let (batch, single) = match ingest {
            Ingest::Batch(batch) => (batch, None),
            Ingest::Single(event) => {
                let idempotency = idempotency_key.map(|key| (key, digest_of_single(&event)));
                let (id, event_type) = (event.id.clone(), event.event_type.clone());
                let single = Single { id, event_type, idempotency };
                (Batch::new(None, vec![*event], String::new()), Some(single))
            }
        };
        Self { principal, sandbox, batch, single, body_bytes }
    }

    fn decide(&self, deps: Deps<'_>, sandbox: &Sandbox, now: Timestamp) -> Result<Decision, Error> {
        visibility::check_report(&self.principal, sandbox, now)?;
        decide(sandbox, &self.batch, self.body_bytes, deps.quotas.quotas.sandbox, now).map_err(refusal)
    }

    async fn charge(&self, deps: Deps<'_>, sandbox: &Sandbox) -> Result<(), Error> {
        let cost = Amount::new(self.batch.len(), self.body_bytes);
        quotas::charge(deps.quotas, &owners(&self.principal, sandbox), cost).await
    }

    fn response(&self, receipt: Receipt) -> Outcome {
        match &self.single {
            Some(single) => {
                Outcome::Event(single.response(&self.sandbox, receipt.first_seq, receipt.received_at))
            }
            None => Outcome::Batch(batch_response(&self.sandbox, self.batch.number, receipt, false)),
        }
    }

    /// The response to the request that used the idempotency key first.
    fn first_response(&self, used: IdempotencyRecord) -> Result<Outcome, Error> {
        let single = self.single.as_ref().expect("only a single event has an idempotency key");
        single.first_response(&self.sandbox, used).map(Outcome::Event)
    }
}

/// Whether the worker has reported its exit: its sandbox can be released.
fn worker_exited(before: &Sandbox, after: &Sandbox) -> bool {
    let exited_at = |sandbox: &Sandbox| {
        sandbox.activity.provisioning.as_ref().and_then(|provisioning| provisioning.worker_exited_at)
    };
    exited_at(before) != exited_at(after)
}

/// The sandbox counts its events itself.
fn owners(principal: &Principal, sandbox: &Sandbox) -> Vec<QuotaOwner> {
    let mut owners = match principal {
        Principal::Worker { .. } => Vec::new(),
        other => QuotaOwner::of(other),
    };
    let org = QuotaOwner::Org(sandbox.org.clone());
    if !owners.contains(&org) {
        owners.push(org);
    }
    owners
}

async fn read_or_create(
    deps: Deps<'_>,
    guard: &mut WriteGuard<'_>,
    request: &Request,
) -> Result<Sandbox, Error> {
    let id = &request.sandbox;
    if let Some(sandbox) = guard.read(id).await? {
        return Ok(sandbox);
    }
    let Some(org) = deps.adopting_org else { return Err(Error::no_sandbox(id)) };
    let mut sandbox = Sandbox::new(id.clone(), org.clone(), None, deps.clock.now());
    sandbox.registered_by = Some(Sender::of(&request.principal));
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

    fn response(&self, sandbox_id: &SandboxId, seq: Option<u64>, timestamp: Timestamp) -> EventReceived {
        EventReceived {
            status: RECEIVED.into(),
            sandbox_id: sandbox_id.clone(),
            event_type: self.event_type.clone(),
            event_id: self.id.clone(),
            seq,
            timestamp,
        }
    }

    fn first_response(
        &self,
        sandbox_id: &SandboxId,
        used: IdempotencyRecord,
    ) -> Result<EventReceived, Error> {
        if self.idempotency.as_ref().is_some_and(|(_, digest)| *digest != used.digest) {
            return Err(Invalid::new("Idempotency-Key", "was already used for another event").into());
        }
        let first = self.response(sandbox_id, used.seq, used.received_at);
        Ok(EventReceived { event_id: used.event_id, ..first })
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
