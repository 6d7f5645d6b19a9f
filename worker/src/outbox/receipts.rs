//! Uploads receipts and retries until they are stored. Retries are idempotent.
//!
//! An idle agent starts a message as soon as it has it. So a `delivered` waits a moment for its `started`: in one request
//! they cost the plane one transaction, not two. All other receipts are sent at once.

use super::response::{Outcome, classify};
use super::shared::{Queue, Shared};
use super::spool::Record;
use client::Wait;
use contract::messages::MAX_RECEIPTS;
use domain::message::State;
use serde_json::value::RawValue;
use std::io;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Uploads receipts until another worker takes over.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut attempts = 0;
    let mut max_receipts = MAX_RECEIPTS as u64;
    while !shared.is_fenced() {
        shared.non_empty(Queue::Receipts).await;
        wait_for_started(&shared).await;
        let (records, body) = match compose(&shared, max_receipts) {
            Ok(Some(composed)) => composed,
            Ok(None) => {
                shared.succeeded(Queue::Receipts);
                continue;
            }
            Err(error) => {
                tracing::warn!("Cannot read the receipt spool: {}", error.kind());
                shared.failed(Queue::Receipts, "unreadable_spool");
                tokio::time::sleep(shared.timing.blocked_delay).await;
                continue;
            }
        };
        let last = records.last().map_or(0, |record| record.number);
        match classify(shared.api.receipts(&body).await) {
            Outcome::Stored(response) => {
                shared.store().acknowledge_receipts(last);
                shared.succeeded(Queue::Receipts);
                (attempts, max_receipts) = (0, MAX_RECEIPTS as u64);
                if response.queue_size > 0 {
                    shared.more_messages.notify_one();
                }
            }
            Outcome::Rejected(problem) => match records.as_slice() {
                [record] => {
                    let mut store = shared.store();
                    store.rejected("receipts", record, &problem);
                    store.acknowledge_receipts(last);
                    drop(store);
                    shared.notify(Queue::Events);
                    shared.succeeded(Queue::Receipts);
                    max_receipts = MAX_RECEIPTS as u64;
                }
                several => max_receipts = several.len() as u64 / 2,
            },
            Outcome::Retry(code, retry_after) => {
                shared.failed(Queue::Receipts, code);
                tokio::time::sleep(retry_after.unwrap_or_else(|| shared.timing.retry.wait(attempts))).await;
                attempts += 1;
            }
            Outcome::Blocked(reason) => {
                shared.failed(Queue::Receipts, reason.as_str());
                tokio::time::sleep(shared.timing.blocked_delay).await;
            }
            Outcome::Renumber | Outcome::Fenced { .. } => {
                tokio::time::sleep(shared.timing.blocked_delay).await;
            }
        }
    }
}

async fn wait_for_started(shared: &Shared) {
    let until = Instant::now() + shared.timing.receipt_delay;
    while !shared.is_flushing() && shared.store().newest_receipt == Some(State::Delivered) {
        if timeout_at(until, shared.notified(Queue::Receipts)).await.is_err() {
            return;
        }
    }
}

fn compose(shared: &Shared, max_receipts: u64) -> io::Result<Option<(Vec<Record>, String)>> {
    let mut store = shared.store();
    let front = store.receipts.front();
    let records = store.receipts.read(front, max_receipts, u64::MAX)?;
    let Some(end) = records.last().map(|record| record.number) else {
        let (last, missing) = (store.receipts.next() - 1, store.receipts.waiting());
        store.acknowledge_receipts(last);
        store.missing("receipts", missing);
        shared.notify(Queue::Events);
        return Ok(None);
    };
    let (valid, damaged): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_json);
    for record in &damaged {
        store.damaged("receipts", record);
    }
    if valid.is_empty() {
        store.acknowledge_receipts(end);
        return Ok(None);
    }
    let texts: Vec<&str> =
        valid.iter().filter_map(|record| std::str::from_utf8(&record.bytes).ok()).collect();
    let body = format!("{{\"receipts\":[{}]}}", texts.join(","));
    Ok(Some((valid, body)))
}

/// `false` if the line was damaged on disk.
pub(super) fn is_json(record: &Record) -> bool {
    let text = std::str::from_utf8(&record.bytes);
    text.is_ok_and(|text| text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok())
}
