//! What happens to a sandbox's head when a batch comes in.

use crate::attempt::{Outcome, Stage, reported};
use crate::sandbox::{BatchNumber, RateWindow, Receipt, Sandbox, Status};
use crate::task::transitions::LifecycleEvent;
use crate::{EventId, EventType, JsonObject, Source, Timestamp};
use serde_json::json;

/// What came in, checked and taken apart.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The worker's number for it; `None` for the single form.
    pub number: Option<BatchNumber>,
    /// What goes into the log.
    pub events: Vec<NewEvent>,
    /// What is shown and not kept.
    pub ephemeral: Vec<NewEvent>,
    /// Fingerprint of the content.
    pub digest: String,
}

impl Batch {
    /// Takes what is ephemeral and what goes into the log apart; the order within each is kept.
    pub fn new(number: Option<BatchNumber>, events: Vec<NewEvent>, digest: String) -> Self {
        let (ephemeral, events) = events.into_iter().partition(|event| event.event_type.is_ephemeral());
        Self { number, events, ephemeral, digest }
    }

    /// What only shows that the sandbox lives.
    pub fn heartbeats(&self) -> impl DoubleEndedIterator<Item = &NewEvent> {
        self.ephemeral.iter().filter(|event| event.event_type.is_heartbeat())
    }

    /// How many events it held.
    pub fn len(&self) -> u64 {
        (self.events.len() + self.ephemeral.len()) as u64
    }

    /// Whether it held none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An event on its way in.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The sender's id, or ours.
    pub id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// Who speaks.
    pub source: Source,
    /// What it says, in full.
    pub data: JsonObject,
    /// When the sender says that it happened.
    pub emitted_at: Option<Timestamp>,
}

/// What to do with a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Write this head, and the log events with sequence numbers from `first_seq` on, in one transaction.
    Store {
        /// The head after the batch.
        next: Box<Sandbox>,
        /// Sequence number of the first log event.
        first_seq: u64,
        /// What to tell the sender.
        receipt: Receipt,
        /// Turns that the sandbox takes with it: they are logged behind the batch, and the head counts them already.
        turns: Vec<LifecycleEvent>,
    },
    /// It was stored before: tell the sender again.
    Repeat(Receipt),
}

/// Why a batch is not stored, though nothing is wrong with it as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A newer run of the worker has written.
    StaleEpoch {
        /// The epoch that holds now.
        current: u64,
    },
    /// A batch is missing before this one.
    BatchGap {
        /// The number that must come next.
        expected: u64,
    },
    /// The number was used before, for something else.
    BatchChanged,
    /// The number was used too long ago to know for what.
    BatchForgotten {
        /// The number that must come next.
        expected: u64,
    },
    /// Too much came in this minute.
    RateLimited {
        /// When the next minute begins.
        retry_after_secs: u64,
    },
}

/// Decides what to do with `batch`, at `now`, for a sandbox with this head.
///
/// **Invariant:** whatever is split, repeated or delayed on the way, the batches that are stored are exactly
/// 1, 2, 3, … of each epoch, and epochs never go back.
pub fn decide(
    head: &Sandbox,
    batch: &Batch,
    events_per_minute: u64,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    if let Some(number) = batch.number
        && let Some(repeat) = check_number(head, number, &batch.digest)?
    {
        return Ok(repeat);
    }
    let rate = admit(head.activity.rate, batch.len(), events_per_minute, now)?;
    let first_seq = head.seq + 1;
    let receipt = Receipt {
        first_seq: (!batch.events.is_empty()).then_some(first_seq),
        events: batch.events.len() as u64,
        heartbeats: batch.heartbeats().count() as u64,
        received_at: now,
        digest: batch.digest.clone(),
    };
    let mut next = head.telling(&batch.events);
    let turns = take_turns(&mut next, batch, now);
    let activity = &mut next.activity;
    activity.rate = rate;
    activity.last_event_at = Some(now);
    if batch.events.iter().chain(&batch.ephemeral).any(shows_work) {
        activity.last_work_at = Some(now);
    }
    if let Some(latest) = batch.heartbeats().next_back() {
        let beats = &mut activity.heartbeats;
        beats.count += receipt.heartbeats;
        beats.first_at.get_or_insert(now);
        beats.last_at = Some(now);
        // A status is a word; whatever else a worker puts there does not belong on the head.
        beats.last_status = latest.data.string("status").filter(|status| status.len() <= 32);
    }
    if let Some(number) = batch.number {
        if number.epoch != activity.batch.epoch {
            activity.receipts.clear();
        }
        activity.batch = number;
        activity.receipts.push_front(receipt.clone());
        activity.receipts.truncate(REMEMBERED_BATCHES);
    }
    Ok(Decision::Store { next: Box::new(next), first_seq, receipt, turns })
}

/// A heartbeat is no work by itself; but it may tell of a tool that takes long and says that it goes on.
fn shows_work(event: &NewEvent) -> bool {
    let progressed =
        || event.data.fields().into_iter().any(|(name, raw)| name == "progressed" && raw.get() == "true");
    event.event_type.is_work() || (event.event_type.is_heartbeat() && progressed())
}

/// What a batch does to the sandbox's status: the first sign of life makes it run, and the worker's last word about its
/// task ends the try. The first last word counts.
fn take_turns(next: &mut Sandbox, batch: &Batch, now: Timestamp) -> Vec<LifecycleEvent> {
    let mut turns: Vec<LifecycleEvent> = hear(next, now);
    if next.assignment.is_none() {
        return turns;
    }
    if let Some(spawn) = &mut next.activity.spawn
        && batch.events.iter().any(|event| event.event_type.is_called("agent.shutdown"))
    {
        spawn.left_at.get_or_insert(now);
    }
    let reported = batch.events.iter().find_map(|event| reported(&event.event_type, &event.data, now));
    turns.extend(reported.and_then(|outcome| end(next, outcome)));
    count(next, &turns);
    turns
}

/// The head after its worker's last word about its task, when that comes alone and not with a batch; and the turns that
/// the sandbox takes with it. They are logged behind the word, and the head counts both already. `None` if it cannot have
/// one: it was made for no task, does not run, or its worker has said its last word.
pub fn last_word(head: &Sandbox, word: &NewEvent, now: Timestamp) -> Option<(Sandbox, Vec<LifecycleEvent>)> {
    head.assignment.as_ref()?;
    let outcome = reported(&word.event_type, &word.data, now)?;
    let mut next = head.telling(std::slice::from_ref(word));
    next.activity.last_event_at = Some(now);
    let mut turns: Vec<LifecycleEvent> = hear(&mut next, now);
    turns.push(end(&mut next, outcome)?);
    count(&mut next, &turns);
    Some((next, turns))
}

/// Something came from it.
fn hear(next: &mut Sandbox, now: Timestamp) -> Vec<LifecycleEvent> {
    let mut turns = Vec::new();
    let heard = next.status_when_heard();
    if heard == next.status {
        return turns;
    }
    next.status = heard;
    if let (Some(spawn), Some(assignment)) = (&mut next.activity.spawn, &next.assignment) {
        let data = json!({
            "sandbox_id": next.id, "task_id": assignment.task, "ticket_id": assignment.ticket,
            "attempt": assignment.attempt, "provider": assignment.provider,
        });
        // Whoever started it may not have come to say so.
        if spawn.stage < Stage::Started {
            *spawn = spawn.at(Stage::Started, now);
            turns.push(LifecycleEvent::of_sandbox("spawned", &data));
        }
        spawn.running_since.get_or_insert(now);
        turns.push(LifecycleEvent::of_sandbox("running", &data));
    }
    turns
}

/// Its worker said what came of it.
fn end(next: &mut Sandbox, outcome: Outcome) -> Option<LifecycleEvent> {
    if next.status != Status::Running || next.activity.outcome.is_some() {
        return None;
    }
    let (status, turn, data) = match &outcome {
        Outcome::Done { .. } => (Status::Completing, "completing", json!({})),
        Outcome::Failed { error, .. } => (Status::Failed, "failed", json!({"reason": error, "error": error})),
        Outcome::CalledOff { reason, .. } => (Status::Terminated, "terminated", json!({"reason": reason})),
    };
    next.status = status;
    next.activity.outcome = Some(outcome);
    Some(LifecycleEvent::of_sandbox(turn, &data))
}

fn count(next: &mut Sandbox, turns: &[LifecycleEvent]) {
    next.seq += turns.len() as u64;
    for turn in turns {
        next.activity.counts.add(Source::System, turn.event_type.as_str());
    }
}

fn check_number(head: &Sandbox, number: BatchNumber, digest: &str) -> Result<Option<Decision>, Refusal> {
    let last = head.activity.batch;
    if number.epoch < last.epoch {
        return Err(Refusal::StaleEpoch { current: last.epoch });
    }
    let last_batch = if number.epoch == last.epoch { last.batch } else { 0 };
    if number.batch > last_batch + 1 {
        return Err(Refusal::BatchGap { expected: last_batch + 1 });
    }
    if number.batch == last_batch + 1 {
        return Ok(None);
    }
    // A sender waits for the answer to one batch before it sends the next, so only late copies come from further
    // back than the last. Whether one is a copy, the receipt tells; beyond them nobody knows, and to say "stored"
    // to a worker that has started to count afresh would lose what it sends.
    let age = usize::try_from(last_batch - number.batch).unwrap_or(usize::MAX);
    match head.activity.receipts.get(age) {
        Some(receipt) if receipt.digest == digest => Ok(Some(Decision::Repeat(receipt.clone()))),
        Some(_) => Err(Refusal::BatchChanged),
        None => Err(Refusal::BatchForgotten { expected: last_batch + 1 }),
    }
}

/// How many batches a repeat of which gets its first answer.
pub const REMEMBERED_BATCHES: usize = 8;

fn admit(rate: RateWindow, events: u64, limit: u64, now: Timestamp) -> Result<RateWindow, Refusal> {
    let minute = now.as_secs().div_euclid(60);
    let already = if rate.minute == minute { rate.count } else { 0 };
    let count = already + events;
    // A batch larger than the whole allowance is let in when it comes first, or it could never come in.
    if already > 0 && count > limit {
        let retry_after_secs = (60 - now.as_secs().rem_euclid(60)).unsigned_abs();
        return Err(Refusal::RateLimited { retry_after_secs });
    }
    Ok(RateWindow { minute, count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Status;
    use crate::{OrgId, SandboxId};
    use proptest::prelude::*;

    const MANY: u64 = 1_000_000;

    fn head() -> Sandbox {
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

    fn stored(head: &Sandbox, batch: &Batch) -> Sandbox {
        match decide(head, batch, MANY, at(1)).unwrap() {
            Decision::Store { next, .. } => *next,
            Decision::Repeat(_) => panic!("{:?} was taken for a repeat", batch.number),
        }
    }

    #[test]
    fn a_repeat_of_the_last_batch_gets_the_first_answer() {
        let first = batch(1, 1, &["agent.message", "agent.tool_use"]);
        let Decision::Store { next, receipt, first_seq, .. } = decide(&head(), &first, MANY, at(1)).unwrap()
        else {
            panic!("not stored")
        };
        assert_eq!((first_seq, receipt.first_seq, next.seq), (1, Some(1), 2));
        assert_eq!(decide(&next, &first, MANY, at(9)).unwrap(), Decision::Repeat(receipt));
    }

    #[test]
    fn a_late_copy_gets_its_own_answer_and_an_impostor_does_not() {
        let mut head = head();
        for number in 1..=REMEMBERED_BATCHES as u64 {
            head = stored(&head, &batch(1, number, &["a", "b"]));
        }
        let copy = |head: &Sandbox, names: &[&str]| decide(head, &batch(1, 1, names), MANY, at(2));
        let Decision::Repeat(receipt) = copy(&head, &["a", "b"]).unwrap() else { panic!("stored twice") };
        assert_eq!((receipt.first_seq, receipt.events), (Some(1), 2));
        assert_eq!(copy(&head, &["c"]).unwrap_err(), Refusal::BatchChanged, "a worker that counts afresh");
        let expected = REMEMBERED_BATCHES as u64 + 2;
        let head = stored(&head, &batch(1, expected - 1, &["a"]));
        assert_eq!(copy(&head, &["a", "b"]).unwrap_err(), Refusal::BatchForgotten { expected });
    }

    #[test]
    fn an_old_epoch_a_gap_and_a_changed_batch_are_refused() {
        let head = stored(&head(), &batch(3, 1, &["a"]));
        let refusal = |batch: Batch| decide(&head, &batch, MANY, at(2)).unwrap_err();
        assert_eq!(refusal(batch(2, 9, &["a"])), Refusal::StaleEpoch { current: 3 });
        assert_eq!(refusal(batch(3, 3, &["a"])), Refusal::BatchGap { expected: 2 });
        assert_eq!(refusal(batch(4, 2, &["a"])), Refusal::BatchGap { expected: 1 });
        assert_eq!(refusal(batch(3, 1, &["b"])), Refusal::BatchChanged);
    }

    #[test]
    fn heartbeats_count_and_take_no_sequence_number() {
        let head = stored(&head(), &batch(1, 1, &["agent.heartbeat", "agent.message", "spec.heartbeat"]));
        assert_eq!((head.seq, head.activity.heartbeats.count), (1, 2));
        assert_eq!(head.activity.heartbeats.last_status.as_deref(), Some("working"));
        let only = decide(&head, &batch(1, 2, &["agent.heartbeat"]), MANY, at(1)).unwrap();
        assert!(matches!(only, Decision::Store { receipt: Receipt { first_seq: None, .. }, .. }));
    }

    #[test]
    fn a_tool_that_goes_on_is_work_though_only_a_heartbeat_tells_of_it() {
        for (data, work) in [
            (json!({"status": "working"}), false),
            (json!({"status": "working", "progressed": false}), false),
            (json!({"status": "working", "progressed": true}), true),
        ] {
            let mut beat = event("agent.heartbeat");
            beat.data = JsonObject::of(&data);
            let head = stored(&head(), &Batch::new(None, vec![beat], String::new()));
            assert_eq!(head.activity.last_work_at.is_some(), work, "{data}");
        }
    }

    #[test]
    fn unfinished_text_is_work_and_neither_a_heartbeat_nor_in_the_log() {
        let before = stored(&head(), &batch(1, 1, &["agent.heartbeat"]));
        let after = stored(&before, &batch(1, 2, &["agent.partial", "agent.partial"]));
        assert_eq!((after.seq, &after.activity.counts), (0, &before.activity.counts));
        assert_eq!(after.activity.heartbeats, before.activity.heartbeats);
        assert_eq!((after.activity.last_event_at, after.activity.last_work_at), (Some(at(1)), Some(at(1))));
        assert_eq!(after.activity.rate.count, 3, "it counts towards the rate");
        assert_eq!(after.activity.receipts[0].heartbeats, 0);
    }

    #[test]
    fn only_work_counts_as_work() {
        let idle = stored(&head(), &batch(1, 1, &["agent.waiting"]));
        assert_eq!((idle.activity.last_event_at, idle.activity.last_work_at), (Some(at(1)), None));
        assert_eq!(stored(&idle, &batch(1, 2, &["agent.tool_use"])).activity.last_work_at, Some(at(1)));
    }

    #[test]
    fn last_words_do_not_bring_a_sandbox_back() {
        let mut ended = head();
        assert_eq!(stored(&ended, &batch(1, 1, &["agent.shutdown"])).status, Status::Running);
        ended.status = Status::Terminated;
        assert_eq!(stored(&ended, &batch(1, 1, &["agent.shutdown"])).status, Status::Terminated);
    }

    #[test]
    fn the_rate_window_refuses_until_the_next_minute() {
        let mut head = head();
        head.activity.rate = RateWindow { minute: 0, count: 9 };
        let two = batch(1, 1, &["a", "b"]);
        assert_eq!(
            decide(&head, &two, 10, at(48)).unwrap_err(),
            Refusal::RateLimited { retry_after_secs: 12 }
        );
        assert!(decide(&head, &two, 11, at(48)).is_ok());
        assert!(decide(&head, &two, 10, at(60)).is_ok());
        assert!(decide(&head, &two, 1, at(60)).is_ok(), "a batch larger than the allowance must not starve");
    }

    proptest! {
        /// Any cutting of a log into batches, and any repetition and delay of those batches on the way, gives
        /// the same log.
        #[test]
        fn any_split_and_repetition_gives_the_same_log(
            cuts in proptest::collection::vec(1usize..5, 1..20),
            deliveries in proptest::collection::vec((0usize..20, 0usize..20), 0..200),
        ) {
            let batches: Vec<Batch> = cuts.iter().enumerate().map(|(i, &n)| {
                let names: Vec<String> = (0..n).map(|k| format!("e.{i}.{k}")).collect();
                batch(1, i as u64 + 1, &names.iter().map(String::as_str).collect::<Vec<_>>())
            }).collect();
            let mut head = head();
            let mut log: Vec<String> = Vec::new();
            let mut deliver = |head: &mut Sandbox, batch: &Batch| {
                if let Ok(Decision::Store { next, first_seq, .. }) = decide(head, batch, MANY, at(1)) {
                    assert_eq!(first_seq, log.len() as u64 + 1);
                    log.extend(batch.events.iter().map(|event| event.event_type.to_string()));
                    *head = *next;
                }
            };
            // The network delivers anything that was sent so far, in any order; the sender sends the next one
            // only when the last is stored.
            let mut sent = 1;
            for (pick, _) in deliveries {
                deliver(&mut head, &batches[pick % sent]);
                if head.activity.batch.batch as usize == sent && sent < batches.len() { sent += 1; }
            }
            for batch in &batches { deliver(&mut head, batch); }
            let whole: Vec<String> = batches.iter()
                .flat_map(|batch| batch.events.iter().map(|event| event.event_type.to_string())).collect();
            prop_assert_eq!(log, whole);
        }
    }
}

#[cfg(test)]
mod turns;
