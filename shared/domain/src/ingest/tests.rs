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
    let sandbox = stored(&sandbox(), &batch(1, 1, &["agent.heartbeat", "agent.message", "spec.heartbeat"]));
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
    fn a_higher_epoch_always_exists(
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
