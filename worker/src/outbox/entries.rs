//! Carrying transcripts to the plane: entries of one session at a time, numbered, so that a repeat is known as one.

use super::courier::BATCH_BYTES;
use super::judge::{Verdict, judge};
use super::shared::{Lane, Shared};
use super::spool::Record;
use super::store::EntryLine;
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
    records: Vec<Record>,
    body: String,
}

/// Sends transcripts until somebody else is the worker.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tries = 0;
    let mut most = MOST_ENTRIES;
    // An entry that the plane does not take. Something goes in its place, or the numbers would have a hole.
    let mut refused = None;
    while !shared.is_fenced() {
        shared.waits(Lane::Entries).await;
        if tries == 0 && !shared.is_hurried() {
            gather(&shared, shared.pace.gather * GATHER).await;
        }
        let piece = match compose(&shared, most, refused) {
            Ok(Some(composed)) => composed,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!("Cannot read the spool of entries: {}", error.kind());
                shared.failed(Lane::Entries, "unreadable_spool");
                tokio::time::sleep(shared.pace.slow).await;
                continue;
            }
        };
        let last = piece.records.last().map_or(0, |record| record.number);
        match judge(shared.once.entries(&piece.session, &piece.body).await) {
            Verdict::Stored(_) => {
                shared.store().entries_done(last);
                shared.succeeded(Lane::Entries);
                (tries, most, refused) = (0, MOST_ENTRIES, None);
            }
            Verdict::Wrong(problem) => match piece.records.as_slice() {
                [record] if refused == Some(record.number) => {
                    tracing::warn!("The plane takes nothing in place of an entry ({})", problem.code);
                    shared.store().entries_done(last);
                    shared.succeeded(Lane::Entries);
                    (most, refused) = (MOST_ENTRIES, None);
                }
                [record] => {
                    shared.store().refused("entries", record, &problem);
                    shared.ring(Lane::Events);
                    refused = Some(record.number);
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
            Verdict::Renumber | Verdict::Fenced { .. } => tokio::time::sleep(shared.pace.slow).await,
        }
    }
}

async fn gather(shared: &Shared, time: Duration) {
    let until = tokio::time::Instant::now() + time;
    while !shared.is_hurried() && shared.store().entries.waiting() < MOST_ENTRIES {
        if tokio::time::timeout_at(until, shared.rung(Lane::Entries)).await.is_err() {
            return;
        }
    }
}

fn compose(shared: &Shared, most: u64, refused: Option<u64>) -> io::Result<Option<Piece>> {
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
    let mut taken = Vec::new();
    for record in records {
        let Ok(line) = serde_json::from_slice::<EntryLine<'_>>(&record.bytes) else {
            if piece.is_none() {
                store.damaged("entries", &record);
                store.entries_done(record.number);
                continue;
            }
            break;
        };
        let placeholder = r#"{"type":"sunaba.refused"}"#;
        let entry = if refused == Some(record.number) { placeholder } else { line.entry.get() };
        match &mut piece {
            None => piece = Some((line.session.into_owned(), line.number, vec![entry.to_owned()])),
            Some((session, first, entries))
                if *session == line.session && *first + entries.len() as u64 == line.number =>
            {
                entries.push(entry.to_owned());
            }
            Some(_) => break,
        }
        taken.push(record);
    }
    let Some((session, first, entries)) = piece else { return Ok(None) };
    let body = format!("{{\"first\":{first},\"entries\":[{}]}}", entries.join(","));
    Ok(Some(Piece { session, records: taken, body }))
}
