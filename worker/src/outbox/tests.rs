//! The outbox against a plane with the real rules and a network that misbehaves.

use super::transcript_tests::Record;
use super::*;
use crate::fake_plane::FakePlane;
use client::Backoff;
use domain::MessageId;
use domain::message::State;
use kit::seed::{self, Seed};
use serde_json::json;
use std::io::Write;
use std::path::Path;

pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn settings(plane: &FakePlane, dir: &Path) -> Settings {
    let retry = Backoff { first: Duration::from_micros(200), most: Duration::from_millis(5) };
    let pace = Pace {
        gather: Duration::from_millis(1),
        retry,
        slow: Duration::from_millis(5),
        live: Duration::from_millis(5),
        ..Pace::default()
    };
    let (dir, once) = (dir.to_owned(), plane.once());
    Settings { dir, max_bytes: MAX_BYTES, once, secrets: Secrets::default(), context: Map::new(), pace }
}

pub(crate) fn open(plane: &FakePlane, dir: &Path) -> Outbox {
    Outbox::open(settings(plane, dir)).unwrap()
}

pub(super) fn event(id: &str) -> Event {
    Event::agent("agent.message").named(id).with("text", format!("this is {id}"))
}

fn receipt(id: &str, state: State) -> ReceiptIn {
    ReceiptIn { message_id: MessageId::parse(id).unwrap(), state, detail: None }
}

pub(super) fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// The files of the spool whose names begin so.
pub(super) fn files(dir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_breaks_every_event_is_stored_once_in_order() {
    // Mostly they wait: many can do so side by side.
    let mut runs = JoinSet::new();
    for seed in seed::chosen(0..200) {
        if runs.len() >= 12 {
            runs.join_next().await.unwrap().unwrap();
        }
        runs.spawn(one_run(Seed::of(seed)));
    }
    runs.join_all().await;
}

async fn one_run(seed: Seed) {
    let plane = FakePlane::start(seed.value).await;
    plane.inner().chaos = 40;
    let dir = tempfile::tempdir().unwrap();
    let mut outbox = open(&plane, dir.path());
    let mut told = 0;
    for _ in 0..12 {
        let count = plane.inner().random(40);
        for _ in 0..count {
            told += 1;
            outbox.tell(event(&format!("e-{told}")));
            outbox.transcript("t", vec![raw(&json!({"n": told}))]);
        }
        let pause = plane.inner().random(8_000);
        let crash = plane.inner().random(3) == 0;
        let torn = plane.inner().random(2) == 0;
        // Not a wait for something: a crash comes when it comes.
        tokio::time::sleep(Duration::from_micros(pause)).await;
        if crash {
            outbox.close().await;
            if torn && let Some(file) = files(dir.path(), "events-0").iter().max() {
                let mut file = OpenOptions::new().append(true).open(file).unwrap();
                file.write_all(b"{\"event_id\":\"to").unwrap();
            }
            outbox = open(&plane, dir.path());
            // What is read again from the agent's record was told before.
            (1..=told).for_each(|n| outbox.tell(event(&format!("e-{n}"))));
        }
    }
    assert!(outbox.flushed(LONG).await, "{:?}", outbox.status());
    let inner = plane.inner();
    let expected: Vec<String> = (1..=told).map(|n| format!("e-{n}")).collect();
    assert_eq!(inner.ids(), expected);
    assert_eq!(inner.head.activity.batch.epoch, u64::from(told > 0), "one spool, one epoch");
    let entries: Vec<u64> =
        inner.entries.get("t").into_iter().flatten().map(|entry| entry["n"].as_u64().unwrap()).collect();
    assert_eq!(entries, (1..=told).collect::<Vec<u64>>());
}

#[tokio::test]
async fn telling_never_waits_for_the_plane() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 0));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    // An answer would take for ever.
    for n in 0..10_000 {
        outbox.tell(event(&format!("e-{n}")));
    }
    assert_eq!(plane.inner().log.len(), 0);
    let status = outbox.status();
    assert_eq!((status.waiting_events, status.dropped), (10_000, 0));
    assert!(status.oldest_age.is_some());
    plane.inner().broken.clear();
    assert!(outbox.flushed(LONG).await);
    assert_eq!(plane.inner().log.len(), 10_000);
    assert!(outbox.status().bytes < 100_000, "what is with the plane is deleted: {:?}", outbox.status());
}

#[tokio::test]
async fn a_newer_run_fences_an_older_one() {
    let plane = FakePlane::start(1).await;
    let (old_dir, new_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = open(&plane, old_dir.path());
    old.tell(event("old-1"));
    assert!(old.flushed(LONG).await);
    let new = open(&plane, new_dir.path());
    new.tell(event("new-1"));
    assert!(new.flushed(LONG).await);
    old.tell(event("old-2"));
    assert!(!old.flushed(LONG).await);
    assert_eq!(*old.fate().borrow(), Fate::Fenced { current_epoch: 2 });
    assert_eq!(plane.inner().ids(), ["old-1", "new-1"]);
    assert_eq!(old.status().waiting_events, 1, "it is kept");
}

#[tokio::test]
async fn a_plane_that_counts_otherwise_gets_a_new_epoch() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    for n in 0..3 {
        outbox.tell(event(&format!("e-{n}")));
        assert!(outbox.flushed(LONG).await);
    }
    // As if it had been put back to an older state.
    plane.inner().head.activity.batch.batch = 1;
    outbox.tell(event("e-3"));
    assert!(outbox.flushed(LONG).await);
    assert_eq!(plane.inner().ids(), ["e-0", "e-1", "e-2", "e-3"]);
    assert_eq!(plane.inner().head.activity.batch.epoch, 2);
}

#[tokio::test]
async fn what_is_refused_is_set_aside_and_told_and_the_rest_arrives() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    for n in 0..50 {
        let event = event(&format!("e-{n}"));
        outbox.tell(if n == 17 { Event { event_type: "bad".into(), ..event } } else { event });
    }
    outbox.receipt(receipt("m-1", State::Delivered));
    outbox.receipt(receipt("unknown", State::Delivered));
    outbox.receipt(receipt("m-1", State::Started));
    outbox.transcript("t", vec![raw(&json!({"n": 1})), raw(&json!({"type": "bad"})), raw(&json!({"n": 3}))]);
    assert!(outbox.flushed(LONG).await);
    // What is told of a refusal was told after that call.
    assert!(outbox.flushed(LONG).await);
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
    let aside = std::fs::read_to_string(dir.path().join("refused.jsonl")).unwrap();
    assert!(aside.lines().count() == 3 && aside.contains("this is e-17"), "{aside}");
}

#[tokio::test]
async fn a_full_disk_leaves_out_what_matters_least_and_says_so() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let most = 256 * 1024;
    let outbox = Outbox::open(Settings { max_bytes: most, ..settings(&plane, dir.path()) }).unwrap();
    let record = Record::of(dir.path(), 2_000);
    for n in 0..2_000 {
        outbox.tell(event(&format!("e-{n}")).with("output", "y".repeat(900)));
        record.copy(&outbox);
        outbox.receipt(receipt(&format!("m-{}", n % 10), State::Delivered));
    }
    let size: u64 = ["events-", "receipts-", "entries-"]
        .iter()
        .flat_map(|name| files(dir.path(), name))
        .map(|file| std::fs::metadata(file).unwrap().len())
        .sum();
    assert!(size <= most, "{size}");
    let dropped = outbox.status().dropped;
    assert!(dropped > 500, "{dropped}");
    plane.inner().broken.clear();
    assert!(outbox.flushed(LONG).await);
    outbox.tell(event("afterwards"));
    record.copy(&outbox);
    assert!(outbox.flushed(LONG).await);
    let inner = plane.inner();
    let full = inner.of_type("worker.outbox_full");
    assert_eq!(full[0]["ongoing"], true);
    let told_dropped: u64 =
        full.iter().filter_map(|data| data["dropped_by_type"]["agent.message"].as_u64()).sum();
    assert_eq!(told_dropped + inner.of_type("agent.message").len() as u64, 2_001, "nothing is lost silently");
    assert!(inner.of_type("agent.message").iter().any(|data| data["output_truncated"] == true));
    assert_eq!(inner.entries["t"], record.lines(), "of the record nothing is left out, and no number shifts");
}

#[tokio::test]
async fn a_damaged_line_is_set_aside_and_told() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    for id in ["one", "two", "three"] {
        outbox.tell(event(id));
    }
    outbox.close().await;
    let file = &files(dir.path(), "events-0")[0];
    let text = std::fs::read_to_string(file).unwrap().replace("this is two", "this \"is two");
    std::fs::write(file, text + "{\"event_id\":\"torn").unwrap();
    plane.inner().broken.clear();
    let outbox = open(&plane, dir.path());
    assert!(outbox.flushed(LONG).await && outbox.flushed(LONG).await);
    let inner = plane.inner();
    assert_eq!(inner.ids()[..2], ["one", "three"]);
    assert_eq!(inner.of_type("worker.spool_damaged")[0]["record"], 2);
    assert_eq!(inner.log.len(), 3);
}

#[tokio::test]
async fn one_worker_has_the_folder_and_nobody_else_reads_it() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, &dir.path().join("spool"));
    outbox.tell(event("one"));
    let second = Outbox::open(settings(&plane, &dir.path().join("spool")));
    assert!(matches!(second, Err(CannotOpen::InUse(_))), "{second:?}");
    for file in files(&dir.path().join("spool"), "") {
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    assert_eq!(std::fs::metadata(dir.path().join("spool")).unwrap().permissions().mode() & 0o777, 0o700);
    outbox.close().await;
    open(&plane, &dir.path().join("spool"));
}

#[tokio::test]
async fn secrets_are_neither_told_nor_kept() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(vec![("KEY".into(), "planted-secret".into())]);
    let outbox = Outbox::open(Settings { secrets, ..settings(&plane, dir.path()) }).unwrap();
    outbox.tell(event("one").with("output", json!({"env": ["KEY=planted-secret"]})));
    outbox.transcript("t", vec![raw(&json!({"text": "the key is planted-secret"}))]);
    let detail = Some("it was planted-secret".to_owned());
    outbox.receipt(ReceiptIn { detail, ..receipt("m-1", State::Completed) });
    for file in files(dir.path(), "") {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("planted"), "{file:?}: {text}");
    }
    plane.inner().broken.clear();
    assert!(outbox.flushed(LONG).await);
    let inner = plane.inner();
    assert!(!inner.bodies.contains("planted"), "{}", inner.bodies);
    assert_eq!(inner.bodies.matches("[redacted KEY]").count(), 3);
}

#[tokio::test]
async fn lanes_do_not_wait_for_each_other_and_live_text_for_nobody() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/entries", 0));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.transcript("t", vec![raw(&json!({"n": 1}))]);
    outbox.tell(event("one"));
    outbox.receipt(receipt("m-1", State::Delivered));
    for (offset, text) in [(0, "Hel"), (3, "lo")] {
        outbox.partial(Partial { message_id: "m".into(), block: 0, kind: "text", offset, text: text.into() });
    }
    plane.until("one of each", |inner| inner.log.len() == 1 && inner.receipts.len() == 1).await;
    plane.until("live text", |inner| !inner.singles.is_empty()).await;
    assert_eq!(plane.inner().singles[0].1["text"], "Hello");
    assert_eq!(outbox.status().waiting_entries, 1);
}

#[tokio::test]
async fn a_wrong_token_is_reported_and_everything_is_kept() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 401));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.tell(event("one"));
    let mut fate = outbox.fate();
    let held = fate.wait_for(|fate| *fate == Fate::Held(Trouble::Unauthorized));
    tokio::time::timeout(LONG, held).await.unwrap().unwrap();
    assert_eq!(outbox.status().last_error, Some("unauthorized"));
    plane.inner().broken.clear();
    assert!(outbox.flushed(LONG).await);
    assert_eq!(*fate.borrow(), Fate::Sending);
}

#[tokio::test]
async fn a_resumed_session_goes_on_where_the_plane_is() {
    let plane = FakePlane::start(1).await;
    plane.inner().entries.insert("t".into(), vec![json!(1), json!(2)]);
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.transcript_begins("t", 3);
    outbox.transcript("t", vec![raw(&json!({ "n": 3 }))]);
    assert!(outbox.flushed(LONG).await);
    outbox.close().await;
    let outbox = open(&plane, dir.path());
    assert_eq!(outbox.transcript_next("t"), 4);
    outbox.transcript("t", vec![RawValue::from_string("{\n\"n\": 4}".into()).unwrap()]);
    assert!(outbox.flushed(LONG).await);
    assert_eq!(plane.inner().entries["t"], [json!(1), json!(2), json!({"n": 3}), json!({"n": 4})]);
}

#[tokio::test]
async fn a_spool_that_cannot_be_read_is_kept_and_tried_again() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.tell(event("one"));
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
    assert!(outbox.flushed(LONG).await);
    let inner = plane.inner();
    assert_eq!((inner.ids(), inner.receipts.len(), inner.entries["t"].len()), (vec!["one"], 1, 1));
}
