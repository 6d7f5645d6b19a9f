//! Carrying events to the plane, in numbered batches.

use super::fit::Label;
use super::judge::{Trouble, Verdict, judge};
use super::shared::{Fate, Lane, Shared};
use super::spool::Record;
use super::store::Store;
use contract::limits::MAX_BATCH_EVENTS;
use std::io;
use std::sync::Arc;
use tokio::time::Instant;

/// A batch is sent once it has this size; the plane takes twice as much.
pub(super) const BATCH_BYTES: u64 = 512 * 1024;

/// A batch on its way: the same numbers, the same events, the same text, however often it is sent.
struct Batch {
    records: Vec<Record>,
    /// The last line that it stands for, which may be a damaged one.
    last: u64,
    body: String,
}

/// Sends events until somebody else is the worker.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tries = 0;
    loop {
        shared.waits(Lane::Events).await;
        if tries == 0 {
            gather(&shared).await;
        }
        let verdict = match take_epoch(&shared).await {
            Verdict::Stored(()) => send(&shared).await,
            other => other,
        };
        match verdict {
            Verdict::Stored(()) | Verdict::Wrong(_) | Verdict::Renumber => {
                shared.succeeded(Lane::Events);
                tries = 0;
            }
            Verdict::Again(kind, after) => {
                shared.failed(Lane::Events, kind);
                tokio::time::sleep(after.unwrap_or_else(|| shared.pace.retry.wait(tries))).await;
                tries += 1;
            }
            Verdict::Later(trouble) => {
                shared.failed(Lane::Events, trouble.as_str());
                shared.meets(Fate::Held(trouble));
                tokio::time::sleep(shared.pace.slow).await;
                tries += 1;
            }
            Verdict::Fenced { current } => {
                tracing::error!("A newer worker has written (epoch {current}): this one sends no more");
                shared.failed(Lane::Events, "stale_epoch");
                shared.meets(Fate::Fenced { current_epoch: current });
                return;
            }
        }
    }
}

/// Waits until a batch is full or has waited long enough.
async fn gather(shared: &Shared) {
    let until = Instant::now() + shared.pace.gather;
    loop {
        let full = {
            let store = shared.store();
            store.events.waiting() >= MAX_BATCH_EVENTS as u64
                || store.waiting_bytes >= BATCH_BYTES
                || store.numbering.sending.is_some()
        };
        if full
            || shared.is_hurried()
            || tokio::time::timeout_at(until, shared.rung(Lane::Events)).await.is_err()
        {
            return;
        }
    }
}

/// A worker without an epoch takes the next one.
async fn take_epoch(shared: &Shared) -> Verdict<()> {
    if shared.store().numbering.epoch > 0 {
        return Verdict::Stored(());
    }
    match judge(shared.once.sandbox().await) {
        Verdict::Stored(sandbox) => {
            let mut store = shared.store();
            store.numbering.epoch = sandbox.epoch + 1;
            store.numbering.batch = 0;
            store.note_numbering();
            tracing::info!("Events go under epoch {}", store.numbering.epoch);
            Verdict::Stored(())
        }
        Verdict::Again(kind, after) => Verdict::Again(kind, after),
        Verdict::Later(trouble) => Verdict::Later(trouble),
        Verdict::Fenced { .. } | Verdict::Wrong(_) | Verdict::Renumber => Verdict::Later(Trouble::Refused),
    }
}

async fn send(shared: &Shared) -> Verdict<()> {
    let batch = match compose(&mut shared.store()) {
        Ok(Some(batch)) => batch,
        Ok(None) => return Verdict::Stored(()),
        Err(error) => {
            tracing::warn!("Cannot read the spool: {}", error.kind());
            return Verdict::Again("unreadable_spool", None);
        }
    };
    let answer = judge(shared.once.batch(&batch.body).await);
    let mut store = shared.store();
    match answer {
        Verdict::Stored(_) => {
            store.numbering.batch += 1;
            done(&mut store, batch.last, &batch.records);
            drop(store);
            shared.meets(Fate::Sending);
            Verdict::Stored(())
        }
        Verdict::Wrong(problem) => {
            match batch.records.as_slice() {
                [record] => {
                    store.refused("events", record, &problem);
                    done(&mut store, batch.last, &batch.records);
                }
                // A refusal uses up no number: the half goes under the same.
                records => {
                    store.numbering.sending = Some(records[records.len() / 2 - 1].number);
                    store.note_numbering();
                }
            }
            Verdict::Wrong(problem)
        }
        Verdict::Renumber => {
            tracing::warn!("The plane counts otherwise than this spool: taking a new epoch");
            store.numbering.epoch = 0;
            store.numbering.batch = 0;
            store.note_numbering();
            Verdict::Renumber
        }
        Verdict::Again(kind, after) => Verdict::Again(kind, after),
        Verdict::Later(trouble) => Verdict::Later(trouble),
        Verdict::Fenced { current } => Verdict::Fenced { current },
    }
}

/// The batch that is on its way, or the next one. What it holds is written down before anybody sees it.
fn compose(store: &mut Store) -> io::Result<Option<Batch>> {
    loop {
        let head = store.events.head();
        let records = match store.numbering.sending {
            Some(last) => store.events.read(head, (last + 1).saturating_sub(head), u64::MAX)?,
            None => store.events.read(head, MAX_BATCH_EVENTS as u64, BATCH_BYTES)?,
        };
        let Some(last) = records.last().map(|record| record.number) else {
            if store.numbering.sending.take().is_none() {
                let (last, missing) = (store.events.next() - 1, store.events.waiting());
                if missing > 0 {
                    // They are passed over before that is told, or the telling would be passed over too.
                    done(store, last, &[]);
                    store.missing("events", missing);
                }
                return Ok(None);
            }
            continue;
        };
        let (whole, damaged): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_event);
        for record in &damaged {
            store.damaged("events", record);
        }
        if whole.is_empty() {
            done(store, last, &damaged);
            continue;
        }
        if store.numbering.sending != Some(last) {
            store.numbering.sending = Some(last);
            store.note_numbering();
        }
        let (epoch, number) = (store.numbering.epoch, store.numbering.batch + 1);
        let texts: Vec<&str> =
            whole.iter().filter_map(|record| std::str::from_utf8(&record.bytes).ok()).collect();
        let body = format!("{{\"epoch\":{epoch},\"batch\":{number},\"events\":[{}]}}", texts.join(","));
        return Ok(Some(Batch { records: whole, last, body }));
    }
}

/// These are with the plane, or never will be.
fn done(store: &mut Store, last: u64, records: &[Record]) {
    let bytes = records.iter().map(|record| record.bytes.len() as u64).sum();
    store.waiting_bytes = store.waiting_bytes.saturating_sub(bytes);
    store.numbering.sending = None;
    store.numbering.head = last + 1;
    // First the note, then the files: after a crash in between nothing is sent twice.
    store.note_numbering();
    store.events.done(last);
    if store.events.waiting() == 0 {
        // It was only about right.
        store.waiting_bytes = 0;
    }
    store.account(false);
}

fn is_event(record: &Record) -> bool {
    let text = std::str::from_utf8(&record.bytes);
    text.is_ok_and(|text| text.starts_with('{') && serde_json::from_str::<Label<'_>>(text).is_ok())
}
