//! Uploads events in numbered batches.

use super::event_line::Header;
use super::response::{BlockReason, Outcome, classify};
use super::shared::{LinkState, Queue, Shared};
use super::spool::Record;
use super::spool_store::SpoolStore;
use client::Wait;
use contract::limits::MAX_BATCH_EVENTS;
use std::io;
use std::sync::Arc;
use tokio::time::Instant;

/// A batch is sent without further delay when it reaches this size. The plane accepts twice as much.
pub(super) const BATCH_BYTES: u64 = 512 * 1024;

/// A batch in flight. Every attempt sends the same number, events and text.
struct Batch {
    records: Vec<Record>,
    /// Last spool line that it covers, which may be a damaged one.
    last: u64,
    body: String,
}

/// Uploads events until another worker takes over.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut attempts = 0;
    loop {
        shared.non_empty(Queue::Events).await;
        if attempts == 0 {
            fill_batch(&shared).await;
        }
        let outcome = match take_epoch(&shared).await {
            Outcome::Stored(()) => send(&shared).await,
            other => other,
        };
        match outcome {
            Outcome::Stored(()) | Outcome::Rejected(_) | Outcome::Renumber => {
                shared.succeeded(Queue::Events);
                attempts = 0;
            }
            Outcome::Retry(code, retry_after) => {
                shared.failed(Queue::Events, code);
                tokio::time::sleep(retry_after.unwrap_or_else(|| shared.timing.retry.wait(attempts))).await;
                attempts += 1;
            }
            Outcome::Blocked(reason) => {
                shared.failed(Queue::Events, reason.as_str());
                shared.set_link_state(LinkState::Blocked(reason));
                tokio::time::sleep(shared.timing.blocked_delay).await;
                attempts += 1;
            }
            Outcome::Fenced { current } => {
                tracing::error!("A newer worker has taken over (epoch {current}); this one stops sending");
                shared.failed(Queue::Events, "stale_epoch");
                shared.set_link_state(LinkState::Fenced { current_epoch: current });
                return;
            }
        }
    }
}

/// Waits until a batch is full or the batch delay has passed.
async fn fill_batch(shared: &Shared) {
    let until = Instant::now() + shared.timing.batch_delay;
    loop {
        let full = {
            let store = shared.store();
            store.events.waiting() >= MAX_BATCH_EVENTS as u64
                || store.waiting_bytes >= BATCH_BYTES
                || store.numbering.sending.is_some()
        };
        if full
            || shared.is_flushing()
            || tokio::time::timeout_at(until, shared.notified(Queue::Events)).await.is_err()
        {
            return;
        }
    }
}

/// Takes the next epoch if this worker has none yet.
async fn take_epoch(shared: &Shared) -> Outcome<()> {
    if shared.store().numbering.epoch > 0 {
        return Outcome::Stored(());
    }
    match classify(shared.api.sandbox().await) {
        Outcome::Stored(sandbox) => {
            let mut store = shared.store();
            store.numbering.epoch = sandbox.epoch + 1;
            store.numbering.batch = 0;
            store.save_numbering();
            tracing::info!("Sending events with epoch {}", store.numbering.epoch);
            Outcome::Stored(())
        }
        Outcome::Retry(code, retry_after) => Outcome::Retry(code, retry_after),
        Outcome::Blocked(reason) => Outcome::Blocked(reason),
        Outcome::Fenced { .. } | Outcome::Rejected(_) | Outcome::Renumber => {
            Outcome::Blocked(BlockReason::Refused)
        }
    }
}

async fn send(shared: &Shared) -> Outcome<()> {
    let batch = match compose(&mut shared.store()) {
        Ok(Some(batch)) => batch,
        Ok(None) => return Outcome::Stored(()),
        Err(error) => {
            tracing::warn!("Cannot read the spool: {}", error.kind());
            return Outcome::Retry("unreadable_spool", None);
        }
    };
    let outcome = classify(shared.api.batch(&batch.body).await);
    let mut store = shared.store();
    match outcome {
        Outcome::Stored(_) => {
            store.numbering.batch += 1;
            acknowledge(&mut store, batch.last, &batch.records);
            drop(store);
            shared.set_link_state(LinkState::Sending);
            Outcome::Stored(())
        }
        Outcome::Rejected(problem) => {
            match batch.records.as_slice() {
                [record] => {
                    store.rejected("events", record, &problem);
                    acknowledge(&mut store, batch.last, &batch.records);
                }
                // A rejected batch does not use up its number: the first half is sent under the same number.
                records => {
                    store.numbering.sending = Some(records[records.len() / 2 - 1].number);
                    store.save_numbering();
                }
            }
            Outcome::Rejected(problem)
        }
        Outcome::Renumber => {
            tracing::warn!("The plane expects another batch number; taking a new epoch");
            store.numbering.epoch = 0;
            store.numbering.batch = 0;
            store.save_numbering();
            Outcome::Renumber
        }
        Outcome::Retry(code, retry_after) => Outcome::Retry(code, retry_after),
        Outcome::Blocked(reason) => Outcome::Blocked(reason),
        Outcome::Fenced { current } => Outcome::Fenced { current },
    }
}

/// The batch in flight, or the next one. Its extent is saved before it is sent, so that a retry after a crash is
/// identical.
fn compose(store: &mut SpoolStore) -> io::Result<Option<Batch>> {
    loop {
        let front = store.events.front();
        let records = match store.numbering.sending {
            Some(last) => store.events.read(front, (last + 1).saturating_sub(front), u64::MAX)?,
            None => store.events.read(front, MAX_BATCH_EVENTS as u64, BATCH_BYTES)?,
        };
        let Some(last) = records.last().map(|record| record.number) else {
            if store.numbering.sending.take().is_none() {
                let (last, missing) = (store.events.next() - 1, store.events.waiting());
                if missing > 0 {
                    // Skip them before reporting them, or the report would be skipped too.
                    acknowledge(store, last, &[]);
                    store.missing("events", missing);
                }
                return Ok(None);
            }
            continue;
        };
        let (valid, damaged): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_event);
        for record in &damaged {
            store.damaged("events", record);
        }
        if valid.is_empty() {
            acknowledge(store, last, &damaged);
            continue;
        }
        if store.numbering.sending != Some(last) {
            store.numbering.sending = Some(last);
            store.save_numbering();
        }
        let (epoch, number) = (store.numbering.epoch, store.numbering.batch + 1);
        let texts: Vec<&str> =
            valid.iter().filter_map(|record| std::str::from_utf8(&record.bytes).ok()).collect();
        let body = format!("{{\"epoch\":{epoch},\"batch\":{number},\"events\":[{}]}}", texts.join(","));
        return Ok(Some(Batch { records: valid, last, body }));
    }
}

/// Removes records that the plane has stored or rejected.
fn acknowledge(store: &mut SpoolStore, last: u64, records: &[Record]) {
    let bytes = records.iter().map(|record| record.bytes.len() as u64).sum();
    store.waiting_bytes = store.waiting_bytes.saturating_sub(bytes);
    store.numbering.sending = None;
    store.numbering.front = last + 1;
    // Save the position before deleting files, so that a crash in between sends nothing twice.
    store.save_numbering();
    store.events.acknowledge(last);
    if store.events.waiting() == 0 {
        // The count is an estimate; correct it when the queue is empty.
        store.waiting_bytes = 0;
    }
    store.report_overflow(false);
}

fn is_event(record: &Record) -> bool {
    let text = std::str::from_utf8(&record.bytes);
    text.is_ok_and(|text| text.starts_with('{') && serde_json::from_str::<Header<'_>>(text).is_ok())
}
