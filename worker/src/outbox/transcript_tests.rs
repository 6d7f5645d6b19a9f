//! Transcripts: each entry under the number of its line, whatever happens to those before it.

use super::tests::{LONG, event, files, open, raw, settings};
use super::*;
use crate::fake_plane::FakePlane;
use crate::transcript::Tail;
use serde_json::json;
use std::path::Path;

/// An agent's own record of session `t`.
pub(super) struct Record {
    path: PathBuf,
}

impl Record {
    /// With so many entries.
    pub fn of(dir: &Path, entries: u64) -> Self {
        let record = Self { path: dir.join("record.jsonl") };
        let lines: String = (1..=entries).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        std::fs::write(&record.path, lines).unwrap();
        record
    }

    pub fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Copies what is wanted, as a session does.
    pub fn copy(&self, outbox: &Outbox) {
        let mut tail = Tail::new(self.path.clone(), 0);
        while outbox.transcript_wanted("t") {
            let next = outbox.transcript_next("t");
            tail.go_on_after(next - 1);
            outbox.transcript("t", tail.read().unwrap());
            if outbox.transcript_next("t") == next {
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_session_that_is_somebody_elses_is_given_up_once_and_others_go_on() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let sessions = [("a", 409, "session_moved"), ("b", 409, "entries_changed"), ("c", 404, "not_found")];
    for (session, status, code) in sessions {
        plane.inner().closed.insert(session.into(), (status, code));
    }
    for life in 0..3 {
        let outbox = open(&plane, dir.path());
        for n in 0..300 {
            for (session, ..) in sessions {
                outbox.transcript(session, vec![raw(&json!({ "n": n }))]);
            }
            outbox.transcript("t", vec![raw(&json!({ "n": n }))]);
        }
        assert!(outbox.flushed(LONG).await && outbox.flushed(LONG).await, "{:?}", outbox.status());
        assert!(!outbox.transcript_wanted("a") && outbox.transcript_wanted("t"));
        outbox.transcript("a", vec![raw(&json!({"n": "more"}))]);
        assert_eq!(outbox.status().waiting_entries, 0, "what nobody takes is not kept");
        outbox.close().await;
        assert_eq!(plane.inner().entries["t"].len(), 300 * (life + 1));
    }
    let inner = plane.inner();
    let mut lost: Vec<_> = inner.of_type("worker.transcript_lost");
    lost.sort_by_key(|data| data["session_id"].to_string());
    let lost: Vec<_> = lost.iter().map(|data| (&data["session_id"], &data["code"])).collect();
    let expected = sessions.map(|(session, _, code)| (json!(session), json!(code)));
    assert_eq!(lost, expected.iter().map(|(session, code)| (session, code)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_plane_that_forgot_entries_gets_them_from_the_record() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let record = Record::of(dir.path(), 500);
    let outbox = open(&plane, dir.path());
    record.copy(&outbox);
    assert!(outbox.flushed(LONG).await);
    // As if it had been put back to an older state, twice; once there are more entries on their way.
    for kept in [123, 7] {
        plane.inner().entries.get_mut("t").unwrap().truncate(kept);
        outbox.transcript_begins("t", 601);
        outbox.transcript("t", vec![raw(&json!({"n": "stale"})), raw(&json!({"n": "stale too"}))]);
        assert!(outbox.flushed(LONG).await);
        assert_eq!(outbox.transcript_next("t"), kept as u64 + 1);
        record.copy(&outbox);
        assert!(outbox.flushed(LONG).await);
        assert_eq!(plane.inner().entries["t"], record.lines());
    }
    assert_eq!(plane.inner().of_type("worker.transcript_behind").len(), 2);
}

#[tokio::test]
async fn a_damaged_line_of_the_spool_is_read_from_the_record_again() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let record = Record::of(dir.path(), 9);
    let outbox = open(&plane, dir.path());
    record.copy(&outbox);
    outbox.close().await;
    let file = &files(dir.path(), "entries-0")[0];
    let text = std::fs::read_to_string(file).unwrap().replace(r#""number":4"#, r#""number":-4"#);
    std::fs::write(file, text).unwrap();
    plane.inner().broken.clear();
    let outbox = open(&plane, dir.path());
    assert!(outbox.flushed(LONG).await);
    record.copy(&outbox);
    assert!(outbox.flushed(LONG).await && outbox.flushed(LONG).await);
    assert_eq!(plane.inner().entries["t"], record.lines());
    assert_eq!(plane.inner().of_type("worker.spool_damaged").len(), 1);
}

#[tokio::test]
async fn what_cannot_be_kept_has_a_stand_in_that_keeps_its_place() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    let bad = json!({"type": "bad", "uuid": "u-2", "parentUuid": "u-1", "sessionId": "t", "message": "x"});
    let large = json!({"type": "user", "uuid": "u-3", "parentUuid": null, "message": "y".repeat(5_000_000)});
    outbox.transcript("t", vec![raw(&json!({"n": 1})), raw(&bad), raw(&large), raw(&json!({"n": 4}))]);
    assert!(outbox.flushed(LONG).await && outbox.flushed(LONG).await);
    let inner = plane.inner();
    let stored = &inner.entries["t"];
    assert_eq!((stored.len(), &stored[0], &stored[3]), (4, &json!({"n": 1}), &json!({"n": 4})));
    for (entry, uuid, parent) in [(&stored[1], "u-2", json!("u-1")), (&stored[2], "u-3", Value::Null)] {
        let place = (&entry["subtype"], &entry["uuid"], &entry["parentUuid"]);
        assert_eq!(place, (&json!("sunaba.refused"), &json!(uuid), &parent));
    }
    assert_eq!(inner.of_type("worker.transcript_refused").len(), 2);
}

/// The plane has the stand-in, and the worker dies before it knows: the same goes there again, not the entry itself.
#[tokio::test]
async fn a_stand_in_is_sent_again_after_a_crash() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.transcript("t", vec![raw(&json!({"type": "bad", "uuid": "u-1"}))]);
    assert!(outbox.flushed(LONG).await);
    outbox.close().await;
    let store = || {
        let voice = Arc::new(Voice::default());
        Store::open(dir.path(), MAX_BYTES, voice).unwrap()
    };
    let mut life = store();
    life.transcript("t", &[raw(&json!({"type": "bad", "uuid": "u-2"}))]);
    let record = life.entries.read(life.entries.head(), 1, 0).unwrap().remove(0);
    life.entry_refused(&record);
    drop(life);
    assert!(store().is_refused(&record));
    // Nobody would refuse it now, and yet.
    plane.inner().entries.get_mut("t").unwrap().push(
        serde_json::from_str(store::stand_in(&raw(&json!({"type": "bad", "uuid": "u-2"}))).get()).unwrap(),
    );
    let outbox = open(&plane, dir.path());
    assert!(outbox.flushed(LONG).await);
    assert_eq!(plane.inner().entries["t"].len(), 2);
    assert!(outbox.transcript_wanted("t"));
}

#[tokio::test]
async fn a_new_life_goes_on_with_full_batches() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.tell(event("one"));
    outbox.close().await;
    let store = Store::open(dir.path(), MAX_BYTES, Arc::new(Voice::default())).unwrap();
    assert!(store.waiting_bytes > 0);
    drop(store);
    plane.inner().broken.clear();
    let outbox = Outbox::open(settings(&plane, dir.path())).unwrap();
    assert!(outbox.flushed(LONG).await);
    assert_eq!(outbox.shared.store().waiting_bytes, 0);
}
