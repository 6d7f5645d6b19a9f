//! Carrying transcripts to the plane: entries of one session at a time, numbered, so that a repeat is known as one.

use super::courier::BATCH_BYTES;
use super::judge::{Trouble, Verdict, judge};
use super::shared::{Lane, Shared};
use super::spool::Record;
use super::store::{EntryLine, stand_in};
use client::Attempt;
use contract::problem::Problem;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Most entries of a request.
const MOST_ENTRIES: u64 = 100;
/// Nobody watches a transcript: it may gather for longer than events do.
const GATHER: u32 = 5;

/// Entries on their way.
struct Piece {
    session: String,
    first: u64,
    records: Vec<Record>,
    body: String,
}

/// Sends transcripts until somebody else is the worker.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tries = 0;
    let mut most = MOST_ENTRIES;
    while !shared.is_fenced() {
        shared.waits(Lane::Entries).await;
        if tries == 0 && !shared.is_hurried() {
            gather(&shared, shared.pace.gather * GATHER).await;
        }
        let piece = match compose(&shared, most) {
            Ok(Some(composed)) => composed,
            Ok(None) => {
                shared.succeeded(Lane::Entries);
                continue;
            }
            Err(error) => {
                tracing::warn!("Cannot read the spool of entries: {}", error.kind());
                shared.failed(Lane::Entries, "unreadable_spool");
                tokio::time::sleep(shared.pace.slow).await;
                continue;
            }
        };
        let answer = shared.once.entries(&piece.session, &piece.body).await;
        if let Attempt::Refused(problem) = &answer
            && is_settled(&shared, &piece, problem).await
        {
            shared.ring(Lane::Events);
            (tries, most) = (0, MOST_ENTRIES);
            continue;
        }
        match judge(answer) {
            Verdict::Stored(_) => {
                let last = piece.records.last().map_or(0, |record| record.number);
                shared.store().entries_done(last);
                shared.succeeded(Lane::Entries);
                (tries, most) = (0, MOST_ENTRIES);
            }
            Verdict::Wrong(problem) => match piece.records.as_slice() {
                [record] => {
                    let mut store = shared.store();
                    if store.is_refused(record) {
                        store.session_lost(&piece.session, &problem.code, &problem.detail);
                    } else {
                        store.refused("entries", record, &problem);
                        store.entry_refused(record);
                    }
                    drop(store);
                    shared.ring(Lane::Events);
                }
                several => most = several.len() as u64 / 2,
            },
            Verdict::Again(kind, after) => {
                shared.failed(Lane::Entries, kind);
                tokio::time::sleep(after.unwrap_or_else(|| shared.pace.retry.wait(tries))).await;
                tries += 1;
            }
            Verdict::Later(trouble) => {
                shared.failed(Lane::Entries, trouble.as_str());
                tokio::time::sleep(shared.pace.slow).await;
            }
            Verdict::Renumber | Verdict::Fenced { .. } => {
                shared.failed(Lane::Entries, Trouble::Refused.as_str());
                tokio::time::sleep(shared.pace.slow).await;
            }
        }
    }
}

/// Whether a refusal is about the session and not about these entries; then what follows from it is done. None of them
/// would be another one tomorrow.
async fn is_settled(shared: &Shared, piece: &Piece, problem: &Problem) -> bool {
    let expected = problem.facts.get("expected_first").and_then(Value::as_u64);
    match (problem.status, problem.code.as_str(), expected) {
        (409, "entries_gap", Some(expected)) if (1..piece.first).contains(&expected) => {
            shared.store().session_goes_back(&piece.session, piece.first, expected);
        }
        (409, ..) => shared.store().session_lost(&piece.session, &problem.code, &problem.detail),
        // If the sandbox is there, the session is somebody else's.
        (404, "not_found", _) if matches!(shared.once.sandbox().await, Attempt::Answered(_)) => {
            shared.store().session_lost(&piece.session, &problem.code, &problem.detail);
        }
        _ => return false,
    }
    true
}

async fn gather(shared: &Shared, time: Duration) {
    let until = tokio::time::Instant::now() + time;
    while !shared.is_hurried() && shared.store().entries.waiting() < MOST_ENTRIES {
        if tokio::time::timeout_at(until, shared.rung(Lane::Entries)).await.is_err() {
            return;
        }
    }
}

/// The next entries of one session. What is not wanted any more, or cannot be read, is passed over.
fn compose(shared: &Shared, most: u64) -> io::Result<Option<Piece>> {
    let mut store = shared.store();
    let head = store.entries.head();
    let records = store.entries.read(head, most, BATCH_BYTES)?;
    if records.is_empty() {
        let (last, missing) = (store.entries.next() - 1, store.entries.waiting());
        store.entries_done(last);
        store.missing("entries", missing);
        shared.ring(Lane::Events);
        return Ok(None);
    }
    let mut piece: Option<(String, u64, Vec<String>)> = None;
    let (mut taken, mut passed) = (Vec::new(), None);
    for record in records {
        let line = match serde_json::from_slice::<EntryLine<'_>>(&record.bytes) {
            Ok(line) if !store.is_unwanted(&line) => line,
            _ if piece.is_some() => break,
            Ok(_) => {
                passed = Some(record.number);
                continue;
            }
            Err(_) => {
                store.damaged("entries", &record);
                shared.ring(Lane::Events);
                passed = Some(record.number);
                continue;
            }
        };
        let entry = match store.is_refused(&record) {
            true => stand_in(line.entry).get().to_owned(),
            false => line.entry.get().to_owned(),
        };
        match &mut piece {
            None => piece = Some((line.session.into_owned(), line.number, vec![entry])),
            Some((session, first, entries))
                if *session == line.session && *first + entries.len() as u64 == line.number =>
            {
                entries.push(entry);
            }
            Some(_) => break,
        }
        taken.push(record);
    }
    if let Some(passed) = passed {
        store.entries_done(passed);
    }
    let Some((session, first, entries)) = piece else { return Ok(None) };
    let body = format!("{{\"first\":{first},\"entries\":[{}]}}", entries.join(","));
    Ok(Some(Piece { session, first, records: taken, body }))
}
