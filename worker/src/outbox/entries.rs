//! Uploads transcript entries, one session per request. They are numbered, so retries are idempotent.

use super::events::BATCH_BYTES;
use super::response::{BlockReason, Outcome, classify};
use super::shared::{Queue, Shared};
use super::spool::Record;
use super::spool_store::{EntryLine, placeholder};
use client::{Attempt, Wait};
use contract::problem::Problem;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of entries per request.
const MAX_ENTRIES: u64 = 100;
/// Transcripts are not displayed live, so they may be batched for longer than events.
const BATCH_DELAY_FACTOR: u32 = 5;

/// Consecutive entries of one session, in flight.
struct EntryBatch {
    session: String,
    first: u64,
    records: Vec<Record>,
    body: String,
}

/// Uploads transcript entries until another worker takes over.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut attempts = 0;
    let mut max_entries = MAX_ENTRIES;
    while !shared.is_fenced() {
        shared.non_empty(Queue::Entries).await;
        if attempts == 0 && !shared.is_flushing() {
            fill_batch(&shared, shared.timing.batch_delay * BATCH_DELAY_FACTOR).await;
        }
        let batch = match compose(&shared, max_entries) {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                shared.succeeded(Queue::Entries);
                continue;
            }
            Err(error) => {
                tracing::warn!("Cannot read the transcript spool: {}", error.kind());
                shared.failed(Queue::Entries, "unreadable_spool");
                tokio::time::sleep(shared.timing.blocked_delay).await;
                continue;
            }
        };
        let attempt = shared.api.entries(&batch.session, &batch.body).await;
        if let Attempt::Refused(problem) = &attempt
            && session_refused(&shared, &batch, problem).await
        {
            shared.notify(Queue::Events);
            (attempts, max_entries) = (0, MAX_ENTRIES);
            continue;
        }
        match classify(attempt) {
            Outcome::Stored(_) => {
                let last = batch.records.last().map_or(0, |record| record.number);
                shared.store().acknowledge_entries(last);
                shared.succeeded(Queue::Entries);
                (attempts, max_entries) = (0, MAX_ENTRIES);
            }
            Outcome::Rejected(problem) => match batch.records.as_slice() {
                [record] => {
                    let mut store = shared.store();
                    if store.is_replaced(record) {
                        store.abandon_session(&batch.session, &problem.code, &problem.detail);
                    } else {
                        store.rejected("entries", record, &problem);
                        store.replace_entry(record);
                    }
                    drop(store);
                    shared.notify(Queue::Events);
                }
                several => max_entries = several.len() as u64 / 2,
            },
            Outcome::Retry(code, retry_after) => {
                shared.failed(Queue::Entries, code);
                tokio::time::sleep(retry_after.unwrap_or_else(|| shared.timing.retry.wait(attempts))).await;
                attempts += 1;
            }
            Outcome::Blocked(reason) => {
                shared.failed(Queue::Entries, reason.as_str());
                tokio::time::sleep(shared.timing.blocked_delay).await;
            }
            Outcome::Renumber | Outcome::Fenced { .. } => {
                shared.failed(Queue::Entries, BlockReason::Refused.as_str());
                tokio::time::sleep(shared.timing.blocked_delay).await;
            }
        }
    }
}

/// Handles refusals that concern the session rather than single entries, which a retry would not change. Returns
/// whether this was one.
async fn session_refused(shared: &Shared, batch: &EntryBatch, problem: &Problem) -> bool {
    let expected = problem.facts.get("expected_first").and_then(Value::as_u64);
    match (problem.status, problem.code.as_str(), expected) {
        (409, "entries_gap", Some(expected)) if (1..batch.first).contains(&expected) => {
            shared.store().rewind_session(&batch.session, batch.first, expected);
        }
        (409, ..) => shared.store().abandon_session(&batch.session, &problem.code, &problem.detail),
        // If the sandbox exists, the session belongs to another sandbox.
        (404, "not_found", _) if matches!(shared.api.sandbox().await, Attempt::Answered(_)) => {
            shared.store().abandon_session(&batch.session, &problem.code, &problem.detail);
        }
        _ => return false,
    }
    true
}

async fn fill_batch(shared: &Shared, delay: Duration) {
    let until = tokio::time::Instant::now() + delay;
    while !shared.is_flushing() && shared.store().entries.waiting() < MAX_ENTRIES {
        if tokio::time::timeout_at(until, shared.notified(Queue::Entries)).await.is_err() {
            return;
        }
    }
}

/// The next consecutive entries of one session. Obsolete and damaged lines are skipped.
fn compose(shared: &Shared, max_entries: u64) -> io::Result<Option<EntryBatch>> {
    let mut store = shared.store();
    let front = store.entries.front();
    let records = store.entries.read(front, max_entries, BATCH_BYTES)?;
    if records.is_empty() {
        let (last, missing) = (store.entries.next() - 1, store.entries.waiting());
        store.acknowledge_entries(last);
        store.missing("entries", missing);
        shared.notify(Queue::Events);
        return Ok(None);
    }
    let mut batch: Option<(String, u64, Vec<String>)> = None;
    let (mut taken, mut skipped) = (Vec::new(), None);
    for record in records {
        let line = match serde_json::from_slice::<EntryLine<'_>>(&record.bytes) {
            Ok(line) if !store.is_obsolete(&line) => line,
            _ if batch.is_some() => break,
            Ok(_) => {
                skipped = Some(record.number);
                continue;
            }
            Err(_) => {
                store.damaged("entries", &record);
                shared.notify(Queue::Events);
                skipped = Some(record.number);
                continue;
            }
        };
        let entry = match store.is_replaced(&record) {
            true => placeholder(line.entry).get().to_owned(),
            false => line.entry.get().to_owned(),
        };
        match &mut batch {
            None => batch = Some((line.session.into_owned(), line.number, vec![entry])),
            Some((session, first, entries))
                if *session == line.session && *first + entries.len() as u64 == line.number =>
            {
                entries.push(entry);
            }
            Some(_) => break,
        }
        taken.push(record);
    }
    if let Some(skipped) = skipped {
        store.acknowledge_entries(skipped);
    }
    let Some((session, first, entries)) = batch else { return Ok(None) };
    let body = format!("{{\"first\":{first},\"entries\":[{}]}}", entries.join(","));
    Ok(Some(EntryBatch { session, first, records: taken, body }))
}
