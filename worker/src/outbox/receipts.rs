//! Carrying receipts to the plane: at once, and as often as it takes. A repeat changes nothing there.

use super::judge::{Verdict, judge};
use super::shared::{Lane, Shared};
use super::spool::Record;
use contract::messages::MAX_RECEIPTS;
use serde_json::value::RawValue;
use std::io;
use std::sync::Arc;

/// Sends receipts until somebody else is the worker.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tries = 0;
    let mut most = MAX_RECEIPTS as u64;
    while !shared.is_fenced() {
        shared.waits(Lane::Receipts).await;
        let (records, body) = match compose(&shared, most) {
            Ok(Some(composed)) => composed,
            Ok(None) => {
                shared.succeeded(Lane::Receipts);
                continue;
            }
            Err(error) => {
                tracing::warn!("Cannot read the spool of receipts: {}", error.kind());
                shared.failed(Lane::Receipts, "unreadable_spool");
                tokio::time::sleep(shared.pace.slow).await;
                continue;
            }
        };
        let last = records.last().map_or(0, |record| record.number);
        match judge(shared.once.receipts(&body).await) {
            Verdict::Stored(answer) => {
                shared.store().receipts_done(last);
                shared.succeeded(Lane::Receipts);
                (tries, most) = (0, MAX_RECEIPTS as u64);
                if answer.queue_size > 0 {
                    shared.more_messages.notify_one();
                }
            }
            Verdict::Wrong(problem) => match records.as_slice() {
                [record] => {
                    let mut store = shared.store();
                    store.refused("receipts", record, &problem);
                    store.receipts_done(last);
                    drop(store);
                    shared.ring(Lane::Events);
                    shared.succeeded(Lane::Receipts);
                    most = MAX_RECEIPTS as u64;
                }
                several => most = several.len() as u64 / 2,
            },
            Verdict::Again(kind, after) => {
                shared.failed(Lane::Receipts, kind);
                tokio::time::sleep(after.unwrap_or_else(|| shared.pace.retry.wait(tries))).await;
                tries += 1;
            }
            Verdict::Later(trouble) => {
                shared.failed(Lane::Receipts, trouble.as_str());
                tokio::time::sleep(shared.pace.slow).await;
            }
            Verdict::Renumber | Verdict::Fenced { .. } => tokio::time::sleep(shared.pace.slow).await,
        }
    }
}

fn compose(shared: &Shared, most: u64) -> io::Result<Option<(Vec<Record>, String)>> {
    let mut store = shared.store();
    let head = store.receipts.head();
    let records = store.receipts.read(head, most, u64::MAX)?;
    let Some(end) = records.last().map(|record| record.number) else {
        let (last, missing) = (store.receipts.next() - 1, store.receipts.waiting());
        store.receipts_done(last);
        store.missing("receipts", missing);
        shared.ring(Lane::Events);
        return Ok(None);
    };
    let (whole, damaged): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_json);
    for record in &damaged {
        store.damaged("receipts", record);
    }
    if whole.is_empty() {
        store.receipts_done(end);
        return Ok(None);
    }
    let texts: Vec<&str> =
        whole.iter().filter_map(|record| std::str::from_utf8(&record.bytes).ok()).collect();
    let body = format!("{{\"receipts\":[{}]}}", texts.join(","));
    Ok(Some((whole, body)))
}

/// Whether a line is JSON, as all were when they were written.
pub(super) fn is_json(record: &Record) -> bool {
    let text = std::str::from_utf8(&record.bytes);
    text.is_ok_and(|text| text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok())
}
