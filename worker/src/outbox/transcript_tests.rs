//! Transcript uploads: the number of an entry is its line number, whatever happens to the entries before it.

use super::tests::{FLUSH_TIMEOUT, event, files, open, raw, settings};
use super::*;
use crate::fake_plane::FakePlane;
use crate::transcript::Tail;
use serde_json::json;
use std::path::Path;

/// The agent's transcript of session `t`.
pub(super) struct Transcript {
    path: PathBuf,
}

impl Transcript {
    pub fn new(dir: &Path, entries: u64) -> Self {
        let transcript = Self { path: dir.join("transcript.jsonl") };
        let lines: String = (1..=entries).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        std::fs::write(&transcript.path, lines).unwrap();
        transcript
    }

    pub fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Copies new lines as the supervisor does.
    pub fn copy(&self, outbox: &Outbox) {
        let mut tail = Tail::new(self.path.clone(), 0);
        while outbox.accepts_transcript("t") {
            let next = outbox.next_transcript_entry("t");
            tail.seek_after(next - 1);
            outbox.transcript("t", tail.read().unwrap());
            if outbox.next_transcript_entry("t") == next {
                return;
            }
        }
    }
}

#[tokio::test]
async fn refused_session_is_abandoned_and_reported_once() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let sessions = [("a", 409, "session_superseded"), ("b", 409, "entries_changed"), ("c", 404, "not_found")];
    for (session, status, code) in sessions {
        plane.inner().closed.insert(session.into(), (status, code));
    }
    for run in 0..3 {
        let outbox = open(&plane, dir.path());
        for n in 0..300 {
            for (session, ..) in sessions {
                outbox.transcript(session, vec![raw(&json!({ "n": n }))]);
            }
            outbox.transcript("t", vec![raw(&json!({ "n": n }))]);
        }
        assert!(
            outbox.flushed(FLUSH_TIMEOUT).await && outbox.flushed(FLUSH_TIMEOUT).await,
            "{:?}",
            outbox.status()
        );
        assert!(!outbox.accepts_transcript("a") && outbox.accepts_transcript("t"));
        outbox.transcript("a", vec![raw(&json!({"n": "more"}))]);
        assert_eq!(outbox.status().waiting_entries, 0, "entries of an abandoned session are not stored");
        outbox.close().await;
        assert_eq!(plane.inner().entries["t"].len(), 300 * (run + 1));
    }
    let inner = plane.inner();
    let mut lost: Vec<_> = inner.of_type("worker.transcript_lost");
    lost.sort_by_key(|data| data["session_id"].to_string());
    let lost: Vec<_> = lost.iter().map(|data| (&data["session_id"], &data["code"])).collect();
    let expected = sessions.map(|(session, _, code)| (json!(session), json!(code)));
    assert_eq!(lost, expected.iter().map(|(session, code)| (session, code)).collect::<Vec<_>>());
}

#[tokio::test]
async fn lost_entries_are_sent_again_from_the_transcript() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let transcript = Transcript::new(dir.path(), 500);
    let outbox = open(&plane, dir.path());
    transcript.copy(&outbox);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    // As if the plane had been restored from a backup twice, with more entries queued.
    for kept in [123, 7] {
        plane.inner().entries.get_mut("t").unwrap().truncate(kept);
        outbox.resume_transcript_at("t", 601);
        outbox.transcript("t", vec![raw(&json!({"n": "stale"})), raw(&json!({"n": "stale too"}))]);
        assert!(outbox.flushed(FLUSH_TIMEOUT).await);
        assert_eq!(outbox.next_transcript_entry("t"), kept as u64 + 1);
        transcript.copy(&outbox);
        assert!(outbox.flushed(FLUSH_TIMEOUT).await);
        assert_eq!(plane.inner().entries["t"], transcript.lines());
    }
    assert_eq!(plane.inner().of_type("worker.transcript_behind").len(), 2);
}

#[tokio::test]
async fn damaged_spool_line_is_read_from_the_transcript_again() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let transcript = Transcript::new(dir.path(), 9);
    let outbox = open(&plane, dir.path());
    transcript.copy(&outbox);
    outbox.close().await;
    let file = &files(dir.path(), "entries-0")[0];
    let text = std::fs::read_to_string(file).unwrap().replace(r#""number":4"#, r#""number":-4"#);
    std::fs::write(file, text).unwrap();
    plane.inner().broken.clear();
    let outbox = open(&plane, dir.path());
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    transcript.copy(&outbox);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await && outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(plane.inner().entries["t"], transcript.lines());
    assert_eq!(plane.inner().of_type("worker.spool_damaged").len(), 1);
}

#[tokio::test]
async fn rejected_entry_is_replaced_by_a_linked_placeholder() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    let bad = json!({"type": "bad", "uuid": "u-2", "parentUuid": "u-1", "sessionId": "t", "message": "x"});
    let large = json!({"type": "user", "uuid": "u-3", "parentUuid": null, "message": "y".repeat(5_000_000)});
    outbox.transcript("t", vec![raw(&json!({"n": 1})), raw(&bad), raw(&large), raw(&json!({"n": 4}))]);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await && outbox.flushed(FLUSH_TIMEOUT).await);
    let inner = plane.inner();
    let stored = &inner.entries["t"];
    assert_eq!((stored.len(), &stored[0], &stored[3]), (4, &json!({"n": 1}), &json!({"n": 4})));
    for (entry, uuid, parent) in [(&stored[1], "u-2", json!("u-1")), (&stored[2], "u-3", Value::Null)] {
        let links = (&entry["subtype"], &entry["uuid"], &entry["parentUuid"]);
        assert_eq!(links, (&json!("sunaba.refused"), &json!(uuid), &parent));
    }
    assert_eq!(inner.of_type("worker.transcript_refused").len(), 2);
}

/// The plane has stored the placeholder, and the worker crashes before it receives the response. It must send the
/// placeholder again, not the entry.
#[tokio::test]
async fn placeholder_is_sent_again_after_a_crash() {
    let plane = FakePlane::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.transcript("t", vec![raw(&json!({"type": "bad", "uuid": "u-1"}))]);
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    outbox.close().await;
    let store = || {
        let context = Arc::new(EventContext::default());
        SpoolStore::open(dir.path(), MAX_BYTES, context).unwrap()
    };
    let mut crashed = store();
    crashed.transcript("t", &[raw(&json!({"type": "bad", "uuid": "u-2"}))]);
    let record = crashed.entries.read(crashed.entries.front(), 1, 0).unwrap().remove(0);
    crashed.replace_entry(&record);
    drop(crashed);
    assert!(store().is_replaced(&record));
    // The plane would accept the entry now, but the placeholder must be sent.
    plane.inner().entries.get_mut("t").unwrap().push(
        serde_json::from_str(spool_store::placeholder(&raw(&json!({"type": "bad", "uuid": "u-2"}))).get())
            .unwrap(),
    );
    let outbox = open(&plane, dir.path());
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(plane.inner().entries["t"].len(), 2);
    assert!(outbox.accepts_transcript("t"));
}

#[tokio::test]
async fn waiting_bytes_are_restored_after_a_restart() {
    let plane = FakePlane::start(1).await;
    plane.inner().broken.push(("/", 503));
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(&plane, dir.path());
    outbox.emit(event("one"));
    outbox.close().await;
    let store = SpoolStore::open(dir.path(), MAX_BYTES, Arc::new(EventContext::default())).unwrap();
    assert!(store.waiting_bytes > 0);
    drop(store);
    plane.inner().broken.clear();
    let outbox = Outbox::open(settings(&plane, dir.path())).unwrap();
    assert!(outbox.flushed(FLUSH_TIMEOUT).await);
    assert_eq!(outbox.shared.store().waiting_bytes, 0);
}
