//! Stores what a worker tells, exactly once, and answers only when it is stored.

use crate::error::Error;
use crate::sandboxes::keyed_locks::KeyedLocks;
use crate::sandboxes::write_guard::WriteGuard;
use crate::{Clock, IdSource, events, reconcile, visibility};
use contract::BadInput;
use contract::ingest::{BatchReceived, EventReceived, Ingest, digest_of_single};
use contract::jobs::Job;
use domain::access::Principal;
use domain::ingest::{Batch, Decision, Refusal, decide};
use domain::sandbox::{BatchNumber, Receipt};
use domain::task::transitions::LifecycleEvent;
use domain::{EventId, EventType, Invalid, OrgId, Sandbox, SandboxId, Timestamp};
use serde_json::json;
use std::borrow::Cow;
use store::log::{Append, Appended, IdempotencyRecord};
use store::{Jobs, Store};

/// What it touches.
#[derive(Debug, Clone, Copy)]
pub struct Deps<'a> {
    /// Reads and writes the head, writes the log.
    pub store: &'a Store,
    /// The process's lanes.
    pub lanes: &'a KeyedLocks,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Source of new ids.
    pub ids: &'a dyn IdSource,
    /// How many events a sandbox may send in a minute.
    pub events_per_minute: u64,
    /// The org that takes in sandboxes nobody registered: only where there is no authentication at all.
    pub adopting_org: Option<&'a OrgId>,
    /// Where work is asked for: a sandbox that takes a turn has to be looked after.
    pub work: &'a Jobs,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Command {
    /// By whom.
    pub principal: Principal,
    /// For which sandbox.
    pub sandbox: SandboxId,
    /// What came in.
    pub ingest: Ingest,
    /// Gives the single form the promise that numbers give a batch.
    pub idempotency_key: Option<String>,
}

/// What came of it: it is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A single event.
    Event(EventReceived),
    /// A batch.
    Batch(BatchReceived),
}

/// A repeat of a numbered batch, or of a key, stores nothing and gets the first answer.
pub async fn run(deps: Deps<'_>, command: Command) -> Result<Outcome, Error> {
    let Command { principal, sandbox, ingest, idempotency_key } = command;
    let (batch, single) = match ingest {
        Ingest::Batch(batch) => (batch, None),
        Ingest::Single(event) => {
            let once = idempotency_key.map(|key| (key, digest_of_single(&event)));
            let single = Single { id: event.id.clone(), event_type: event.event_type.clone(), once };
            (Batch::new(None, vec![*event], String::new()), Some(single))
        }
    };
    let mut turn = WriteGuard::begin(deps.store, deps.lanes, deps.clock, &sandbox).await;
    loop {
        let (head, remembered) = match turn.recall() {
            Some(head) => (head, true),
            None => (current_head(deps, &mut turn, &sandbox).await?, false),
        };
        let now = deps.clock.now();
        let decision = match visibility::check(&principal, &head)
            .and_then(|()| decide(&head, &batch, deps.events_per_minute, now).map_err(refusal))
        {
            Err(_) | Ok(Decision::Repeat(_)) if remembered => continue,
            Err(error) => {
                turn.keep(head);
                return Err(error);
            }
            Ok(decision) => decision,
        };
        let (next, first_seq, receipt, turns) = match decision {
            Decision::Store { next, first_seq, receipt, turns } => (next, first_seq, receipt, turns),
            Decision::Repeat(receipt) => {
                turn.keep(head);
                return Ok(Outcome::Batch(batch_answer(&sandbox, batch.number, receipt, true)));
            }
        };
        let once = single.as_ref().and_then(|single| single.once(&receipt));
        // A worker that says goodbye is waited for no longer.
        let left = |head: &Sandbox| head.activity.spawn.as_ref().and_then(|spawn| spawn.left_at);
        let turned = !turns.is_empty() || left(&head) != left(&next);
        let batch = with_turns(deps.ids, &batch, turns);
        let append = Append {
            before: &head,
            after: &next,
            first_seq,
            batch: &batch,
            now,
            once: once.as_ref(),
            changes: &[],
        };
        match deps.store.append(append).await? {
            Appended::Stored(head) => {
                turn.keep(*head);
                if turned {
                    reconcile::jobs::ask(deps.work, &Job::ReconcileSandbox { sandbox_id: sandbox.clone() })
                        .await;
                }
                return Ok(match single {
                    Some(single) => {
                        Outcome::Event(single.answer(sandbox, receipt.first_seq, receipt.received_at))
                    }
                    None => Outcome::Batch(batch_answer(&sandbox, batch.number, receipt, false)),
                });
            }
            Appended::KeyUsed(used) => {
                let single = single.expect("only a single event carries a key");
                return single.first_answer(sandbox, used).map(Outcome::Event);
            }
            Appended::Conflict(head) => turn.lost(head).await?,
            Appended::TooLarge => {
                let reason = "does not compress to a size that can be stored (3.5 MB)";
                return Err(BadInput::TooLarge(Invalid::new("event_data", reason)).into());
            }
            Appended::MessageKnown(_) => return Err(Error::Internal("no message was sent".into())),
        }
    }
}

async fn current_head(
    deps: Deps<'_>,
    turn: &mut WriteGuard<'_>,
    sandbox: &SandboxId,
) -> Result<Sandbox, Error> {
    if let Some(head) = turn.read(sandbox).await? {
        return Ok(head);
    }
    let Some(org) = deps.adopting_org else { return Err(Error::no_sandbox(sandbox)) };
    let head = Sandbox::new(sandbox.clone(), org.clone(), None, deps.clock.now());
    deps.store.create_sandbox(&head).await?;
    Ok(head)
}

/// The batch, and behind it the turns that the sandbox takes with it.
fn with_turns<'a>(ids: &dyn IdSource, batch: &'a Batch, turns: Vec<LifecycleEvent>) -> Cow<'a, Batch> {
    if turns.is_empty() {
        return Cow::Borrowed(batch);
    }
    let mut batch = batch.clone();
    batch.events.extend(events::emit::events_of(ids, turns));
    Cow::Owned(batch)
}

/// What is remembered of a single event for its answer.
struct Single {
    id: EventId,
    event_type: EventType,
    /// Key, and fingerprint of what came with it.
    once: Option<(String, String)>,
}

impl Single {
    fn once(&self, receipt: &Receipt) -> Option<IdempotencyRecord> {
        let (key, digest) = self.once.clone()?;
        let (seq, received_at) = (receipt.first_seq, receipt.received_at);
        Some(IdempotencyRecord { key, digest, event_id: self.id.clone(), seq, received_at })
    }

    fn answer(self, sandbox_id: SandboxId, seq: Option<u64>, timestamp: Timestamp) -> EventReceived {
        let Self { id: event_id, event_type, .. } = self;
        EventReceived { status: RECEIVED.into(), sandbox_id, event_type, event_id, seq, timestamp }
    }

    fn first_answer(
        mut self,
        sandbox_id: SandboxId,
        used: IdempotencyRecord,
    ) -> Result<EventReceived, Error> {
        if self.once.as_ref().is_some_and(|(_, digest)| *digest != used.digest) {
            return Err(Invalid::new("Idempotency-Key", "was used before, for another event").into());
        }
        self.id = used.event_id;
        Ok(self.answer(sandbox_id, used.seq, used.received_at))
    }
}

const RECEIVED: &str = "received";

fn batch_answer(
    sandbox: &SandboxId,
    number: Option<BatchNumber>,
    receipt: Receipt,
    repeated: bool,
) -> BatchReceived {
    let number = number.unwrap_or_default();
    BatchReceived {
        status: RECEIVED.into(),
        sandbox_id: sandbox.clone(),
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
            "stale_epoch",
            format!("A newer run of the worker (epoch {current}) has written; this one must stop."),
            json!({"current_epoch": current}),
        ),
        Refusal::BatchGap { expected } => Error::conflict(
            "batch_gap",
            format!("Batch {expected} must come first; nothing of this one was stored."),
            json!({"expected_batch": expected}),
        ),
        Refusal::BatchChanged => Error::conflict(
            "batch_changed",
            "This batch number was used before, for other events; nothing of this one was stored.".into(),
            json!({}),
        ),
        Refusal::BatchForgotten { expected } => Error::conflict(
            "batch_forgotten",
            format!(
                "This batch number was used long ago; batch {expected} comes next. Nothing of this one was stored."
            ),
            json!({"expected_batch": expected}),
        ),
        Refusal::RateLimited { retry_after_secs } => Error::RateLimited { retry_after_secs },
    }
}
