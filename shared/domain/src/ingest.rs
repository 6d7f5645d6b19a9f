//! Ingest: how a batch of events changes a sandbox.

use crate::attempt::{Outcome, Stage, reported_outcome};
use crate::continuous;
use crate::event::payloads::{
    AgentHeartbeat, AgentShutdown, SandboxCompleting, SandboxFailed, SandboxRunning, SandboxStage,
};
use crate::event::{LifecycleEvent, catalogue};
use crate::quota::{self, Amount};
use crate::sandbox::transitions::Trigger;
use crate::sandbox::{BatchNumber, RateWindow, Receipt, Sandbox};
use crate::{EventId, EventType, JsonObject, Source, Timestamp};

/// A validated batch.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `None` for a single event, which has no batch number.
    pub number: Option<BatchNumber>,
    /// Events for the log.
    pub events: Vec<NewEvent>,
    /// Events that are broadcast and not stored.
    pub ephemeral: Vec<NewEvent>,
    /// Hash of the content.
    pub digest: String,
}

impl Batch {
    /// Separates ephemeral events from log events and keeps the order within each.
    pub fn new(number: Option<BatchNumber>, events: Vec<NewEvent>, digest: String) -> Self {
        let (ephemeral, events) = events.into_iter().partition(|event| event.event_type.is_ephemeral());
        Self { number, events, ephemeral, digest }
    }

    pub fn heartbeats(&self) -> impl Iterator<Item = &NewEvent> {
        self.ephemeral.iter().filter(|event| event.event_type.is_heartbeat())
    }

    /// Number of events of both kinds.
    pub fn len(&self) -> u64 {
        (self.events.len() + self.ephemeral.len()) as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An event that has no sequence number yet.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Chosen by the sender, or generated.
    pub id: EventId,
    pub event_type: EventType,
    pub source: Source,
    /// The full data, before it is abridged.
    pub data: JsonObject,
    /// The sender's timestamp.
    pub emitted_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Write this sandbox, and the log events with sequence numbers from `first_seq` on, in one transaction.
    Store {
        next: Box<Sandbox>,
        first_seq: u64,
        receipt: Receipt,
        /// To be appended to the log after the batch. `next` counts them already.
        lifecycle_events: Vec<LifecycleEvent>,
    },
    /// The batch is stored already: answer with the original receipt.
    Repeat(Receipt),
}

/// Why a well-formed batch is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A newer run of the worker has sent a batch.
    StaleEpoch { current: u64 },
    /// The epoch is further ahead than any worker needs.
    EpochTooHigh { current: u64, max: u64 },
    /// A batch is missing before this one.
    BatchGap { expected: u64 },
    /// The number was used before, with other content.
    BatchChanged,
    /// The number was used before, and its receipt is no longer kept.
    BatchExpired { expected: u64 },
    /// The sandbox has used up its quota for this minute.
    RateLimited { retry_after_secs: u64 },
}

/// Decides whether to store `batch`, whose request has `body_bytes`, and computes the sandbox afterwards.
///
/// **Invariant:** however batches are split, retried or delayed on the way, the batches that are stored are exactly
/// 1, 2, 3, … of each epoch, and the epoch never decreases.
///
/// **Invariant:** whatever a worker has sent, its successor can send: there is always a higher epoch.
pub fn decide(
    sandbox: &Sandbox,
    batch: &Batch,
    body_bytes: u64,
    quota: Amount,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    if let Some(number) = batch.number
        && let Some(repeat) = check_number(sandbox, number, &batch.digest)?
    {
        return Ok(repeat);
    }
    let rate = admit(sandbox.activity.rate, Amount::new(batch.len(), body_bytes), quota, now)?;
    let first_seq = sandbox.seq + 1;
    let receipt = Receipt {
        first_seq: (!batch.events.is_empty()).then_some(first_seq),
        events: batch.events.len() as u64,
        heartbeats: batch.heartbeats().count() as u64,
        received_at: now,
        digest: batch.digest.clone(),
    };
    let mut next = sandbox.with_events(&batch.events);
    let lifecycle_events = apply_lifecycle(&mut next, batch, now);
    let activity = &mut next.activity;
    activity.rate = rate;
    activity.last_event_at = Some(now);
    let mut heartbeats: Vec<AgentHeartbeat> =
        batch.heartbeats().map(|event| catalogue::read(&event.data).unwrap_or_default()).collect();
    // A heartbeat by itself shows no work, but it may report a long-running tool that makes progress.
    let progressed = heartbeats.iter().any(|heartbeat| heartbeat.progressed == Some(true));
    if progressed || batch.events.iter().chain(&batch.ephemeral).any(|event| event.event_type.is_work()) {
        activity.last_work_at = Some(now);
    }
    if let Some(AgentHeartbeat { status, .. }) = heartbeats.pop() {
        let beats = &mut activity.heartbeats;
        beats.count += receipt.heartbeats;
        beats.first_at.get_or_insert(now);
        beats.last_at = Some(now);
        // A status is one word. Anything longer is not stored with the sandbox.
        beats.last_status = Some(status).filter(|status| (1..=32).contains(&status.len()));
    }
    if let Some(number) = batch.number {
        if number.epoch != activity.batch.epoch {
            activity.receipts.clear();
        }
        activity.batch = number;
        activity.receipts.push_front(receipt.clone());
        activity.receipts.truncate(REMEMBERED_BATCHES);
    }
    Ok(Decision::Store { next: Box::new(next), first_seq, receipt, lifecycle_events })
}

/// Applies what a batch means for the lifecycle: the first batch makes the sandbox run, and the worker's final report
/// about its task ends the attempt. The first final report counts.
fn apply_lifecycle(next: &mut Sandbox, batch: &Batch, now: Timestamp) -> Vec<LifecycleEvent> {
    let mut lifecycle_events = mark_running(next, now);
    if next.assignment.is_none() {
        return lifecycle_events;
    }
    if let Some(provisioning) = &mut next.activity.provisioning
        && batch.events.iter().any(|event| event.event_type.has::<AgentShutdown>())
    {
        provisioning.worker_exited_at.get_or_insert(now);
    }
    let outcome = final_outcome(next, batch, now);
    lifecycle_events.extend(outcome.and_then(|outcome| finish(next, outcome)));
    count(next, &lifecycle_events);
    lifecycle_events
}

/// The outcome that the batch reports. Only OmoiOS's worker sends single events, and only it reports every query of a
/// continuous run as completed.
fn final_outcome(next: &mut Sandbox, batch: &Batch, now: Timestamp) -> Option<Outcome> {
    if next.activity.outcome.is_some() {
        return None;
    }
    let mut events = batch.events.iter();
    match batch.number {
        Some(_) => events.find_map(|event| reported_outcome(&event.event_type, &event.data, now)),
        None => events
            .find_map(|event| continuous::reported_outcome(&mut next.activity.continuous_run, event, now)),
    }
}

/// The sandbox after a worker's final report that arrives on its own and not in a batch, and the lifecycle events to
/// append after the report; the sandbox counts both already. `None` if the sandbox accepts no final report: it has no
/// task, is not running, or its worker has reported before.
pub fn final_report(
    sandbox: &Sandbox,
    report: &NewEvent,
    now: Timestamp,
) -> Option<(Sandbox, Vec<LifecycleEvent>)> {
    sandbox.assignment.as_ref()?;
    let outcome = reported_outcome(&report.event_type, &report.data, now)?;
    let mut next = sandbox.with_events(std::slice::from_ref(report));
    next.activity.last_event_at = Some(now);
    let mut lifecycle_events = mark_running(&mut next, now);
    lifecycle_events.push(finish(&mut next, outcome)?);
    count(&mut next, &lifecycle_events);
    Some((next, lifecycle_events))
}

/// Marks the sandbox as running if this is the first sign of its worker.
fn mark_running(next: &mut Sandbox, now: Timestamp) -> Vec<LifecycleEvent> {
    let mut lifecycle_events = Vec::new();
    if !next.may_have_worker() || !next.transition(Trigger::WorkerReported) {
        return lifecycle_events;
    }
    if let (Some(provisioning), Some(assignment)) = (&mut next.activity.provisioning, &next.assignment) {
        let attempt = assignment.of(&next.id);
        // The process that started the worker may not have recorded that yet.
        if provisioning.stage < Stage::Started {
            *provisioning = provisioning.at(Stage::Started, now);
            lifecycle_events.push(Stage::Started.event(SandboxStage::new(attempt.clone())));
        }
        provisioning.running_since.get_or_insert(now);
        lifecycle_events.push(LifecycleEvent::new(&SandboxRunning(attempt)));
    }
    lifecycle_events
}

/// Records the outcome that the worker reported.
fn finish(next: &mut Sandbox, outcome: Outcome) -> Option<LifecycleEvent> {
    if next.activity.outcome.is_some() {
        return None;
    }
    let (trigger, event) = match &outcome {
        Outcome::Completed { .. } => (Trigger::WorkCompleted, LifecycleEvent::new(&SandboxCompleting {})),
        Outcome::Failed { error, .. } => {
            let (reason, error) = (error.clone(), Some(error.clone()));
            let failed = SandboxFailed { reason, error, ..SandboxFailed::default() };
            (Trigger::WorkFailed, LifecycleEvent::new(&failed))
        }
        // Workers do not report this.
        Outcome::Cancelled { .. } => return None,
    };
    if !next.transition(trigger) {
        return None;
    }
    next.activity.outcome = Some(outcome);
    next.activity.continuous_run = None;
    Some(event)
}

fn count(next: &mut Sandbox, lifecycle_events: &[LifecycleEvent]) {
    next.seq += lifecycle_events.len() as u64;
    for event in lifecycle_events {
        next.activity.counts.add(Source::System, event.event_type.as_str());
    }
}

fn check_number(sandbox: &Sandbox, number: BatchNumber, digest: &str) -> Result<Option<Decision>, Refusal> {
    let last = sandbox.activity.batch;
    if number.epoch < last.epoch {
        return Err(Refusal::StaleEpoch { current: last.epoch });
    }
    let max = last.epoch.saturating_add(MAX_EPOCH_STEP);
    if number.epoch > max {
        return Err(Refusal::EpochTooHigh { current: last.epoch, max });
    }
    let last_batch = if number.epoch == last.epoch { last.batch } else { 0 };
    if number.batch > last_batch + 1 {
        return Err(Refusal::BatchGap { expected: last_batch + 1 });
    }
    if number.batch == last_batch + 1 {
        return Ok(None);
    }
    // A worker waits for the receipt of one batch before it sends the next, so an older number is a late copy, or comes
    // from a worker that numbers its batches from 1 again. The receipt tells them apart. Without a receipt the batch is
    // refused: to answer "stored" could lose events.
    let age = usize::try_from(last_batch - number.batch).unwrap_or(usize::MAX);
    match sandbox.activity.receipts.get(age) {
        Some(receipt) if receipt.digest == digest => Ok(Some(Decision::Repeat(receipt.clone()))),
        Some(_) => Err(Refusal::BatchChanged),
        None => Err(Refusal::BatchExpired { expected: last_batch + 1 }),
    }
}

/// How far an epoch may be ahead of the last one. Workers take the next one; other clients may count runs that have sent
/// nothing. Without a limit, one batch with the highest epoch would exclude every later run.
pub const MAX_EPOCH_STEP: u64 = 1_000;

/// Number of receipts that are kept, so that a retry of one of the latest batches gets its original receipt.
pub const REMEMBERED_BATCHES: usize = 8;

fn admit(rate: RateWindow, cost: Amount, quota: Amount, now: Timestamp) -> Result<RateWindow, Refusal> {
    let minute = quota::minute(now);
    let already = if rate.minute == minute { Amount::new(rate.count, rate.bytes) } else { Amount::default() };
    let used = already.plus(cost);
    // A batch that is larger than the quota is accepted at the start of a window; otherwise it could never be stored.
    if already != Amount::default() && !used.fits(quota) {
        return Err(Refusal::RateLimited { retry_after_secs: quota::retry_after_secs(now) });
    }
    Ok(RateWindow { minute, count: used.events, bytes: used.bytes })
}

#[cfg(test)]
mod lifecycle_tests;
#[cfg(test)]
mod tests;
