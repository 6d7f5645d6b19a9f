//! The outbox against a plane with the real ingest rules and an unreliable network.

use super::transcript_tests::Transcript;
use super::*;
use crate::fake_plane::FakePlane;
use client::Backoff;
use domain::MessageId;
use domain::message::State;
use kit::seed::{self, Seed};
use serde_json::json;
use std::io::Write;
use std::path::Path;

pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn settings(plane: &FakePlane, dir: &Path) -> Settings {
    let retry = Backoff { initial: Duration::from_micros(200), max: Duration::from_millis(5) };
    let timing = Timing {
        batch_delay: Duration::from_millis(1),
        receipt_delay: Duration::from_millis(1),
        retry,
        blocked_delay: Duration::from_millis(5),
        partial_interval: Duration::from_millis(5),
    };
    let (dir, api) = (dir.to_owned(), plane.api());
    Settings { dir, max_bytes: MAX_BYTES, api, secrets: Secrets::default(), event_fields: Map::new(), timing }
}

pub(crate) fn open(plane: &FakePlane, dir: &Path) -> Outbox {
    Outbox::open(settings(plane, dir)).unwrap()
}

pub(super) fn event(id: &str) -> Event {
    Event::untyped("agent.message", json!({"text": format!("this is {id}")})).with_id(id)
}

fn with(mut event: Event, field: &str, value: Value) -> Event {
    event.data.insert(field.to_owned(), value);
    event
}

fn receipt(id: &str, state: State) -> ReceiptIn {
    ReceiptIn { message_id: MessageId::parse(id).unwrap(), state, detail: None }
}

pub(super) fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// Files of the spool with this prefix.
pub(super) fn files(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_stored_exactly_once_and_in_order() {
    // The runs mostly wait, so many can run concurrently.
    let mut runs = JoinSet::new();
    for seed in seed::chosen(0..200) {
        if runs.len() >= 12 {
            runs.join_next().await.unwrap().unwrap();
        }
        runs.spawn(chaos_run(Seed::of(seed)));
    }
    runs.join_all().await;
}

async fn chaos_run(seed: Seed) {
    let plane = FakePlane::start(seed.value).await;
    plane.inner().fault_percent = 40;
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = open(&plane, dir.path());
    let mut emitted = 0;
    for _ in 0..12 {
        let count = plane.inner().random(40);
        for _ in 0..count {
            emitted += 1;
            outbox.emit(event(&format!("e-{emitted}")));
            outbox.transcript("t", vec![raw(&json!({"n": emitted}))]);
        }
        let pause = plane.inner().random(8_000);
        let crash = plane.inner().random(3) == 0;
        let torn = plane.inner().random(2) == 0;
        // A random delay, not a wait for a condition: crashes happen at any time.
        tokio::time::sleep(Duration::from_micros(pause)).await;
        if crash {
            outbox.close().await;
            if torn && let Some(file) = files(dir.path(), "events-0").iter().max() {
                let mut file = OpenOptions::new().append(true).open(file).unwrap();
                file.write_all(b"{\"event_id\":\"to").unwrap();
            }
            outbox = open(&plane, dir.path());
            // Events that are read again from the agent's transcript were emitted before.
            (1..=emitted).for_each(|n| outbox.emit(event(&format!("e-{n}"))));
        }
    }
    assert!(outbox.flushed(FLUSH_TIMEOUT).await, "{:?}", outbox.status());
    let inner = plane.inner();
    let expected: Vec<String> = (1..=emitted).map(|n| format!("e-{n}")).collect();
    assert_eq!(inner.ids(), expected);
    assert_eq!(inner.sandbox.activity.batch.epoch, u64::from(emitted > 0), "one spool, one epoch");
    let entries: Vec<u64> =
        inner.entries.get("t").into_iter().flatten().map(|entry| entry["n"].as_u64().unwrap()).collect();
    assert_eq!(entries, (1..=emitted).collect::<Vec<u64>>());
}

#[tokio::test]
async fn emit_never_waits_for_the_plane() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 0));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    // The plane never responds.
    for n in 0..10_000 {
        outbox.emit(event(&format!("e-{n}")));
    }
    assert_eq!(plane.inner().log.len(), 0);
    let status = outbox.status();
    assert_eq!((status.waiting_events, status.dropped), (10_000, 0));
    assert!(status.oldest_age.is_some());
    plane.inner().broken.clear();
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(plane.inner().log.len(), 10_000);
    assert!(outbox.status().bytes < 100_000, "acknowledged events are deleted: {:?}", outbox.status());
}

#[tokio::test]
async fn newer_worker_fences_an_older_one() {
    let plane = FakePlane::start(1).await;
    let (old_dir, new_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = open(&plane, old_dir.path());
    old.emit(event("old-1"));
    assert!(old.flushed(FLUSH_TIMEOUT).await);
    let new = open(&plane, new_dir.path());
    new.emit(event("new-1"));
    assert!(new.flushed(FLUSH_TIMEOUT).await);
    old.emit(event("old-2"));
    assert!(!old.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(*old.link_state().borrow(), LinkState::Fenced { current_epoch: 2 });
    assert_eq!(plane.inner().ids(), ["old-1", "new-1"]);
    assert_eq!(old.status().waiting_events, 1, "unsent events are kept");
}

#[tokio::test]
async fn batch_number_mismatch_starts_a_new_epoch() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    for n in 0..3 {
        outbox.emit(event(&format!("e-{n}")));
        assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    }
    // As if the plane had been restored from a backup.
    plane.inner().sandbox.activity.batch.batch = 1;
    outbox.emit(event("e-3"));
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(plane.inner().ids(), ["e-0", "e-1", "e-2", "e-3"]);
    assert_eq!(plane.inner().sandbox.activity.batch.epoch, 2);
}

#[tokio::test]
async fn rejected_records_are_saved_and_reported_and_the_rest_is_stored() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    for n in 0..50 {
        let event = event(&format!("e-{n}"));
        outbox.emit(if n == 17 { Event { event_type: "bad".into(), ..event } } else { event });
    }
    outbox.receipt(receipt("m-1", State::Delivered));
    outbox.receipt(receipt("unknown", State::Delivered));
    outbox.receipt(receipt("m-1", State::Started));
    outbox.transcript("t", vec![raw(&json!({"n": 1})), raw(&json!({"type": "bad"})), raw(&json!({"n": 3}))]);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    // The report of a rejected record was emitted during that flush.
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    let messages = inner.ids().iter().filter(|id| id.starts_with("e-")).count();
    assert_eq!(messages, 49);
    let refused = inner.of_type("worker.event_refused");
    assert_eq!(refused.len(), 1);
    assert_eq!((&refused[0]["event_id"], &refused[0]["code"]), (&json!("e-17"), &json!("invalid")));
    assert_eq!(inner.of_type("worker.receipt_refused").len(), 1);
    assert_eq!(inner.of_type("worker.transcript_refused").len(), 1);
    assert_eq!(inner.receipts.len(), 2);
    assert_eq!(inner.entries["t"], [json!({"n": 1}), json!({"type": "sunaba.refused"}), json!({"n": 3})]);
    let rejected = std::fs::read_to_string(dir.path().join("refused.jsonl")).unwrap();
    assert!(rejected.lines().count() == 3 && rejected.contains("this is e-17"), "{rejected}");
}

#[tokio::test]
async fn exceeded_quota_drops_events_and_reports_them() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let max_bytes = 256 * 1024;
    let outbox = Outbox::open(Settings { max_bytes, ..settings(&plane, dir.path()) }).unwrap();
    let transcript = Transcript::new(dir.path(), 2_000);
    for n in 0..2_000 {
        outbox.emit(with(event(&format!("e-{n}")), "output", "y".repeat(900).into()));
        transcript.copy(&outbox);
        outbox.receipt(receipt(&format!("m-{}", n % 10), State::Delivered));
    }
    let size: u64 = ["events-", "receipts-", "entries-"]
        .iter()
        .flat_map(|name| files(dir.path(), name))
        .map(|file| std::fs::metadata(file).unwrap().len())
        .sum();
    assert!(size <= max_bytes, "{size}");
    let dropped = outbox.status().dropped;
    assert!(dropped > 500, "{dropped}");
    plane.inner().broken.clear();
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    outbox.emit(event("afterwards"));
    transcript.copy(&outbox);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    let full = inner.of_type("worker.outbox_full");
    assert_eq!(full[0]["ongoing"], true);
    let reported: u64 =
        full.iter().filter_map(|data| data["dropped_by_type"]["agent.message"].as_u64()).sum();
    assert_eq!(
        reported + inner.of_type("agent.message").len() as u64,
        2_001,
        "every dropped event is reported"
    );
    assert!(inner.of_type("agent.message").iter().any(|data| data["output_truncated"] == true));
    assert_eq!(
        inner.entries["t"],
        transcript.lines(),
        "transcript entries are complete and keep their numbers"
    );
}

#[tokio::test]
async fn worker_at_its_quota_sends_everything_once_later() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 429));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    let transcript = Transcript::new(dir.path(), 50);
    for n in 0..50 {
        outbox.emit(event(&format!("e-{n}")));
        transcript.copy(&outbox);
    }
    outbox.receipt(receipt("m-1", State::Delivered));
    plane.until("several attempts", |inner| inner.refused >= 10).await;
    plane.inner().broken.clear();
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    let expected: Vec<String> = (0..50).map(|n| format!("e-{n}")).collect();
    assert_eq!(inner.ids(), expected, "each once, in order, and none is reported as refused");
    assert_eq!((&inner.entries["t"], inner.receipts.len()), (&transcript.lines(), 1));
}

#[tokio::test]
async fn damaged_line_is_saved_and_reported() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    for id in ["one", "two", "three"] {
        outbox.emit(event(id));
    }
    outbox.close().await;
    let file = &files(dir.path(), "events-0")[0];
    let text = std::fs::read_to_string(file).unwrap().replace("this is two", "this \"is two");
    std::fs::write(file, text + "{\"event_id\":\"torn").unwrap();
    plane.inner().broken.clear();
    let outbox = open(&plane, dir.path());
    assert!(outbox.flushed(FLUSH_TIMEOUT).await && outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    assert_eq!(inner.ids()[..2], ["one", "three"]);
    assert_eq!(inner.of_type("worker.spool_damaged")[0]["record"], 2);
    assert_eq!(inner.log.len(), 3);
}

#[tokio::test]
async fn directory_is_locked_and_private() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, &dir.path().join("spool"));
    outbox.emit(event("one"));
    let second = Outbox::open(settings(&plane, &dir.path().join("spool")));
    assert!(matches!(second, Err(OpenError::InUse(_))), "{second:?}");
    for file in files(&dir.path().join("spool"), "") {
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    assert_eq!(std::fs::metadata(dir.path().join("spool")).unwrap().permissions().mode() & 0o777, 0o700);
    outbox.close().await;
    open(&plane, &dir.path().join("spool"));
}

#[tokio::test]
async fn secrets_are_neither_sent_nor_stored() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(vec![("KEY".into(), "planted-secret".into())]);
    let outbox = Outbox::open(Settings { secrets, ..settings(&plane, dir.path()) }).unwrap();
    outbox.emit(with(event("one"), "output", json!({"env": ["KEY=planted-secret"]})));
    outbox.transcript("t", vec![raw(&json!({"text": "the key is planted-secret"}))]);
    let detail = Some("it was planted-secret".to_owned());
    outbox.receipt(ReceiptIn { detail, ..receipt("m-1", State::Completed) });
    for file in files(dir.path(), "") {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("planted"), "{file:?}: {text}");
    }
    plane.inner().broken.clear();
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    assert!(!inner.bodies.contains("planted"), "{}", inner.bodies);
    assert_eq!(inner.bodies.matches("[redacted KEY]").count(), 3);
}

#[tokio::test]
async fn queues_are_independent() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/entries", 0));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.transcript("t", vec![raw(&json!({"n": 1}))]);
    outbox.emit(event("one"));
    outbox.receipt(receipt("m-1", State::Delivered));
    for (offset, text) in [(0, "Hel"), (3, "lo")] {
        outbox.partial(Partial { message_id: "m".into(), block: 0, kind: "text", offset, text: text.into() });
    }
    plane.until("one of each", |inner| inner.log.len() == 1 && inner.receipts.len() == 1).await;
    plane.until("partial text", |inner| !inner.singles.is_empty()).await;
    assert_eq!(plane.inner().singles[0].1["text"], "Hello");
    assert_eq!(outbox.status().waiting_entries, 1);
}

#[tokio::test]
async fn delivered_and_started_share_a_request() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(&plane, dir.path());
    settings.timing.receipt_delay = FLUSH_TIMEOUT;
    let outbox = Outbox::open(settings).unwrap();
    outbox.receipt(receipt("m-1", State::Delivered));
    // Not a wait for a condition: it must not be sent yet.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(plane.inner().receipt_requests.is_empty());
    outbox.receipt(receipt("m-1", State::Started));
    plane.until("both", |inner| inner.receipts.len() == 2).await;
    outbox.receipt(receipt("m-1", State::Completed));
    plane.until("the last one", |inner| inner.receipts.len() == 3).await;
    // A flush does not wait.
    outbox.receipt(receipt("m-2", State::Delivered));
    assert!(outbox.flushed(FLUSH_TIMEOUT / 2).await);
    assert_eq!(plane.inner().receipt_requests, [2, 1, 1]);
}

#[tokio::test]
async fn invalid_token_blocks_the_link_and_keeps_events() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 401));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.emit(event("one"));
    let mut link_state = outbox.link_state();
    let blocked = link_state.wait_for(|state| *state == LinkState::Blocked(BlockReason::Unauthorized));
    tokio::time::timeout(FLUSH_TIMEOUT, blocked).await.unwrap().unwrap();
    assert_eq!(outbox.status().last_error, Some("unauthorized"));
    plane.inner().broken.clear();
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(*link_state.borrow(), LinkState::Sending);
}

#[tokio::test]
async fn resumed_transcript_continues_after_stored_entries() {
    let plane = FakePlane::start(1).await;
    plane.inner().entries.insert("t".into(), vec![json!(1), json!(2)]);
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.resume_transcript_at("t", 3);
    outbox.transcript("t", vec![raw(&json!({ "n": 3 }))]);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    outbox.close().await;
    let outbox = open(&plane, dir.path());
    assert_eq!(outbox.next_transcript_entry("t"), 4);
    outbox.transcript("t", vec![RawValue::from_string("{\n\"n\": 4}".into()).unwrap()]);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(plane.inner().entries["t"], [json!(1), json!(2), json!({"n": 3}), json!({"n": 4})]);
}

#[tokio::test]
async fn unreadable_spool_is_kept_and_retried() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.emit(event("one"));
    outbox.receipt(receipt("m-1", State::Delivered));
    outbox.transcript("t", vec![raw(&json!({"n": 1}))]);
    let names = ["events-0", "receipts-0", "entries-0"];
    let all: Vec<PathBuf> = names.iter().flat_map(|name| files(dir.path(), name)).collect();
    for file in &all {
        std::fs::rename(file, file.with_extension("away")).unwrap();
    }
    plane.inner().broken.clear();
    assert!(!outbox.flushed(Duration::from_millis(200)).await);
    let status = outbox.status();
    assert_eq!((status.waiting_receipts, status.waiting_entries), (1, 1));
    assert_eq!(status.last_error, Some("unreadable_spool"));
    for file in &all {
        std::fs::rename(file.with_extension("away"), file).unwrap();
    }
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    assert_eq!((inner.ids(), inner.receipts.len(), inner.entries["t"].len()), (vec!["one"], 1, 1));
}
