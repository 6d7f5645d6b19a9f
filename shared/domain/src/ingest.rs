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
mod tests {
    use super::*;
    use crate::sandbox::Status;
    use crate::{OrgId, SandboxId};
    use proptest::prelude::*;
    use serde_json::json;

    const MANY: Amount = Amount::new(1_000_000, 1 << 40);

    fn sandbox() -> Sandbox {
        Sandbox::new(SandboxId::parse("s-1").unwrap(), OrgId::parse("acme").unwrap(), None, at(0))
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn event(name: &str) -> NewEvent {
        NewEvent {
            id: EventId::parse("e").unwrap(),
            event_type: EventType::parse(name).unwrap(),
            source: Source::Agent,
            data: JsonObject::of(&serde_json::json!({"status": "working"})),
            emitted_at: None,
        }
    }

    fn batch(epoch: u64, batch: u64, names: &[&str]) -> Batch {
        let events = names.iter().map(|name| event(name)).collect();
        Batch::new(Some(BatchNumber { epoch, batch }), events, format!("{epoch}/{batch}/{names:?}"))
    }

    fn stored(sandbox: &Sandbox, batch: &Batch) -> Sandbox {
        match decide(sandbox, batch, 100, MANY, at(1)).unwrap() {
            Decision::Store { next, .. } => *next,
            Decision::Repeat(_) => panic!("{:?} was treated as a retry", batch.number),
        }
    }

    #[test]
    fn a_retried_batch_gets_its_original_receipt() {
        let first = batch(1, 1, &["agent.message", "agent.tool_use"]);
        let Decision::Store { next, receipt, first_seq, .. } =
            decide(&sandbox(), &first, 100, MANY, at(1)).unwrap()
        else {
            panic!("not stored")
        };
        assert_eq!((first_seq, receipt.first_seq, next.seq), (1, Some(1), 2));
        assert_eq!(decide(&next, &first, 100, MANY, at(9)).unwrap(), Decision::Repeat(receipt));
    }

    #[test]
    fn a_late_copy_gets_its_own_receipt_and_a_changed_batch_is_rejected() {
        let mut sandbox = sandbox();
        for number in 1..=REMEMBERED_BATCHES as u64 {
            sandbox = stored(&sandbox, &batch(1, number, &["a", "b"]));
        }
        let copy = |sandbox: &Sandbox, names: &[&str]| decide(sandbox, &batch(1, 1, names), 100, MANY, at(2));
        let Decision::Repeat(receipt) = copy(&sandbox, &["a", "b"]).unwrap() else { panic!("stored twice") };
        assert_eq!((receipt.first_seq, receipt.events), (Some(1), 2));
        assert_eq!(
            copy(&sandbox, &["c"]).unwrap_err(),
            Refusal::BatchChanged,
            "a worker that numbers from 1 again"
        );
        let expected = REMEMBERED_BATCHES as u64 + 2;
        let sandbox = stored(&sandbox, &batch(1, expected - 1, &["a"]));
        assert_eq!(copy(&sandbox, &["a", "b"]).unwrap_err(), Refusal::BatchExpired { expected });
    }

    #[test]
    fn stale_epoch_gap_and_changed_batch_are_rejected() {
        let sandbox = stored(&sandbox(), &batch(3, 1, &["a"]));
        let refusal = |batch: Batch| decide(&sandbox, &batch, 100, MANY, at(2)).unwrap_err();
        assert_eq!(refusal(batch(2, 9, &["a"])), Refusal::StaleEpoch { current: 3 });
        assert_eq!(refusal(batch(3, 3, &["a"])), Refusal::BatchGap { expected: 2 });
        assert_eq!(refusal(batch(4, 2, &["a"])), Refusal::BatchGap { expected: 1 });
        assert_eq!(refusal(batch(3, 1, &["b"])), Refusal::BatchChanged);
    }

    #[test]
    fn epoch_far_ahead_is_rejected() {
        let sandbox = stored(&sandbox(), &batch(3, 1, &["a"]));
        let max = 3 + MAX_EPOCH_STEP;
        for epoch in [max + 1, MAX_EPOCH, u64::MAX] {
            let refusal = decide(&sandbox, &batch(epoch, 1, &["a"]), 100, MANY, at(2)).unwrap_err();
            assert_eq!(refusal, Refusal::EpochTooHigh { current: 3, max });
        }
        assert_eq!(stored(&sandbox, &batch(max, 1, &["a"])).activity.batch.epoch, max);
    }

    #[test]
    fn heartbeats_are_counted_without_a_sequence_number() {
        let sandbox =
            stored(&sandbox(), &batch(1, 1, &["agent.heartbeat", "agent.message", "spec.heartbeat"]));
        assert_eq!((sandbox.seq, sandbox.activity.heartbeats.count), (1, 2));
        assert_eq!(sandbox.activity.heartbeats.last_status.as_deref(), Some("working"));
        let only = decide(&sandbox, &batch(1, 2, &["agent.heartbeat"]), 100, MANY, at(1)).unwrap();
        assert!(matches!(only, Decision::Store { receipt: Receipt { first_seq: None, .. }, .. }));
    }

    #[test]
    fn heartbeat_with_tool_progress_counts_as_work() {
        for (data, work) in [
            (json!({"status": "working"}), false),
            (json!({"status": "working", "progressed": false}), false),
            (json!({"status": "working", "progressed": true}), true),
            // OmoiOS sends fractions of seconds.
            (json!({"status": "working", "progressed": true, "uptime_seconds": 1.5}), true),
        ] {
            let mut beat = event("agent.heartbeat");
            beat.data = JsonObject::of(&data);
            let sandbox = stored(&sandbox(), &Batch::new(None, vec![beat], String::new()));
            assert_eq!(sandbox.activity.last_work_at.is_some(), work, "{data}");
        }
    }

    #[test]
    fn partial_text_counts_as_work_and_is_not_logged() {
        let before = stored(&sandbox(), &batch(1, 1, &["agent.heartbeat"]));
        let after = stored(&before, &batch(1, 2, &["agent.partial", "agent.partial"]));
        assert_eq!((after.seq, &after.activity.counts), (0, &before.activity.counts));
        assert_eq!(after.activity.heartbeats, before.activity.heartbeats);
        assert_eq!((after.activity.last_event_at, after.activity.last_work_at), (Some(at(1)), Some(at(1))));
        assert_eq!(after.activity.rate.count, 3, "it counts towards the rate");
        assert_eq!(after.activity.receipts[0].heartbeats, 0);
    }

    #[test]
    fn waiting_does_not_count_as_work() {
        let idle = stored(&sandbox(), &batch(1, 1, &["agent.waiting"]));
        assert_eq!((idle.activity.last_event_at, idle.activity.last_work_at), (Some(at(1)), None));
        assert_eq!(stored(&idle, &batch(1, 2, &["agent.tool_use"])).activity.last_work_at, Some(at(1)));
    }

    #[test]
    fn a_late_event_does_not_revive_a_final_sandbox() {
        let late = batch(1, 1, &["agent.shutdown"]);
        assert_eq!(stored(&sandbox(), &late).status(), Status::Running);
        let ended = sandbox().with_status(Status::Terminated);
        assert_eq!(stored(&ended, &late).status(), Status::Terminated);
    }

    #[test]
    fn rate_limit_lasts_until_the_next_minute() {
        let mut sandbox = sandbox();
        sandbox.activity.rate = RateWindow { minute: 0, count: 9, bytes: 900 };
        let two = batch(1, 1, &["a", "b"]);
        let limited = Err(Refusal::RateLimited { retry_after_secs: 12 });
        let decided = |events, bytes, secs| decide(&sandbox, &two, 100, Amount::new(events, bytes), at(secs));
        assert_eq!(decided(10, 1_000, 48), limited, "events");
        assert_eq!(decided(11, 999, 48), limited, "bytes");
        assert!(decided(11, 1_000, 48).is_ok());
        assert!(decided(10, 999, 60).is_ok());
        assert!(decided(1, 1, 60).is_ok(), "a batch larger than the quota must not starve");
    }

    #[test]
    fn window_stored_before_bytes_were_counted_can_be_read() {
        let window: RateWindow = serde_json::from_value(json!({"minute": 3, "count": 7})).unwrap();
        assert_eq!(window, RateWindow { minute: 3, count: 7, bytes: 0 });
    }

    /// The highest epoch on the wire.
    const MAX_EPOCH: u64 = (1 << 53) - 1;

    proptest! {
        #[test]
        fn whatever_a_worker_sends_its_successor_can_send(
            sent in proptest::collection::vec((prop_oneof![1..=MAX_EPOCH, 1..=5_000_u64, Just(MAX_EPOCH)], 1..=3_u64), 0..50),
        ) {
            let mut sandbox = sandbox();
            for (epoch, number) in sent {
                if let Ok(Decision::Store { next, .. }) = decide(&sandbox, &batch(epoch, number, &["a"]), 100, MANY, at(1)) {
                    sandbox = *next;
                }
            }
            let epoch = sandbox.activity.batch.epoch + 1;
            prop_assert!(epoch <= MAX_EPOCH);
            let decision = decide(&sandbox, &batch(epoch, 1, &["b"]), 100, MANY, at(1));
            prop_assert!(matches!(decision, Ok(Decision::Store { .. })), "{decision:?}");
        }

        /// However a log is split into batches, and however those are retried and delayed, the stored log is the same.
        #[test]
        fn split_retried_and_delayed_batches_give_the_same_log(
            cuts in proptest::collection::vec(1usize..5, 1..20),
            deliveries in proptest::collection::vec((0usize..20, 0usize..20), 0..200),
        ) {
            let batches: Vec<Batch> = cuts.iter().enumerate().map(|(i, &n)| {
                let names: Vec<String> = (0..n).map(|k| format!("e.{i}.{k}")).collect();
                batch(1, i as u64 + 1, &names.iter().map(String::as_str).collect::<Vec<_>>())
            }).collect();
            let mut sandbox = sandbox();
            let mut log: Vec<String> = Vec::new();
            let mut deliver = |sandbox: &mut Sandbox, batch: &Batch| {
                if let Ok(Decision::Store { next, first_seq, .. }) = decide(sandbox, batch, 100, MANY, at(1)) {
                    assert_eq!(first_seq, log.len() as u64 + 1);
                    log.extend(batch.events.iter().map(|event| event.event_type.to_string()));
                    *sandbox = *next;
                }
            };
            // The network delivers anything that was sent so far, in any order; the worker sends the next batch only
            // when the last one is stored.
            let mut sent = 1;
            for (pick, _) in deliveries {
                deliver(&mut sandbox, &batches[pick % sent]);
                if sandbox.activity.batch.batch as usize == sent && sent < batches.len() { sent += 1; }
            }
            for batch in &batches { deliver(&mut sandbox, batch); }
            let expected: Vec<String> = batches.iter()
                .flat_map(|batch| batch.events.iter().map(|event| event.event_type.to_string())).collect();
            prop_assert_eq!(log, expected);
        }
    }
}

#[cfg(test)]
mod lifecycle_tests;
