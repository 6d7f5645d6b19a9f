//! The outbox's data on disk.

mod checkpoint;
mod rejected;
mod transcripts;

pub(super) use transcripts::{EntryLine, placeholder};

use super::disk_quota::{DiskQuota, Overflow};
use super::event_line::{self, EventContext, Header};
use super::seen_ids::{self, SeenIds};
use super::spool::Spool;
use crate::event::Event;
use checkpoint::{load, save};
use client::ReceiptIn;
use domain::message::State;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};
use tokio::time::Instant;
use transcripts::Sessions;

/// Minimum interval between writes of the overflow counts.
const OVERFLOW_SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// The queues, the ids of emitted events, and the current overflow.
#[derive(Debug)]
pub(super) struct SpoolStore {
    dir: PathBuf,
    quota: DiskQuota,
    context: Arc<EventContext>,
    pub events: Spool,
    pub numbering: Numbering,
    pub receipts: Spool,
    /// State of the receipt that was added last. `None` after a restart.
    pub newest_receipt: Option<State>,
    /// Transcript entries.
    pub entries: Spool,
    sessions: Sessions,
    seen_ids: SeenIds,
    overflow: Option<Overflow>,
    overflow_saved_at: Option<Instant>,
    /// Estimated size of the unsent part of `events`.
    pub waiting_bytes: u64,
}

/// Upload position of the events. After a crash, the batch in flight is sent again unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Numbering {
    /// 0 until one was taken.
    pub epoch: u64,
    /// Last acknowledged batch.
    pub batch: u64,
    /// First event that is not acknowledged.
    pub front: u64,
    /// Last event of the batch in flight.
    pub sending: Option<u64>,
}

/// Upload position of the receipts.
#[derive(Debug, Serialize, Deserialize)]
struct Position {
    front: u64,
}

impl SpoolStore {
    pub fn open(dir: &Path, max_bytes: u64, context: Arc<EventContext>) -> io::Result<Self> {
        let quota = DiskQuota::new(max_bytes);
        let numbering: Option<Numbering> = load(&dir.join("events.json"));
        let receipts: Option<Position> = load(&dir.join("receipts.json"));
        let mut sessions: Option<Sessions> = load(&dir.join("entries.json"));
        let open = |name, front| Spool::open(dir, name, quota.segment_bytes(), front);
        let events = open("events", numbering.as_ref().map(|numbering| numbering.front))?;
        let mut overflow: Option<Overflow> = load(&dir.join("overflow.json"));
        if let Some(overflow) = &mut overflow {
            overflow.at_least = true;
        }
        let mut store = Self {
            dir: dir.to_owned(),
            quota,
            context,
            waiting_bytes: events.bytes(),
            numbering: Numbering { front: events.front(), ..numbering.unwrap_or_default() },
            events,
            receipts: open("receipts", receipts.map(|position| position.front))?,
            newest_receipt: None,
            entries: open("entries", sessions.as_ref().map(|sessions| sessions.front))?,
            sessions: sessions.take().unwrap_or_default(),
            seen_ids: SeenIds::open(dir)?,
            overflow,
            overflow_saved_at: None,
        };
        store.recover()?;
        Ok(store)
    }

    /// The worker may have crashed after it wrote a line and before it saved the line's id.
    fn recover(&mut self) -> io::Result<()> {
        let mut first = self.events.front();
        loop {
            let records = self.events.read(first, 1_000, 1024 * 1024)?;
            let Some(last) = records.last() else { break };
            first = last.number + 1;
            for record in &records {
                if let Ok(header) = serde_json::from_slice::<Header<'_>>(&record.bytes) {
                    self.seen_ids.insert(seen_ids::key(&header.event_id));
                }
            }
        }
        self.recover_entries()
    }

    pub fn has_emitted(&self, id: &str) -> bool {
        self.seen_ids.contains(seen_ids::key(id))
    }

    pub fn has_evicted_ids(&self) -> bool {
        self.seen_ids.has_evicted()
    }

    /// Stores an event as far as the quota allows. `line` is the result of [`event_line::serialize`].
    pub fn emit(&mut self, mut event: Event, line: &str) {
        if self.has_emitted(&event.id) {
            return;
        }
        let bytes = self.bytes();
        if bytes + line.len() as u64 <= self.quota.full_events && self.append_event(&event.id, line) {
            return;
        }
        self.begin_overflow();
        let short = event_line::serialize_short(&mut event);
        let fits = bytes + short.len() as u64 <= self.quota.short_events;
        if fits && self.append_event(&event.id, &short) {
            self.count_overflow(|overflow| overflow.shortened += u64::from(short != line));
        } else {
            self.count_overflow(|overflow| *overflow.dropped.entry(event.event_type).or_default() += 1);
        }
    }

    /// Emits a diagnostic event about the outbox itself, for which part of the quota is reserved. Returns `false` if
    /// even that is used up.
    fn emit_diagnostic(&mut self, mut event: Event) -> bool {
        event_line::prepare(&mut event, &self.context);
        let line = event_line::serialize(&mut event);
        if self.has_emitted(&event.id) {
            return true;
        }
        let fits = self.bytes() + line.len() as u64 <= self.quota.max;
        let stored = fits && self.append_event(&event.id, &line);
        if !stored {
            tracing::error!("The outbox is full; dropped {}", event.event_type);
        }
        stored
    }

    fn append_event(&mut self, id: &str, line: &str) -> bool {
        match self.events.append(line) {
            Ok(_) => {
                self.waiting_bytes += line.len() as u64;
                self.seen_ids.insert(seen_ids::key(id));
                true
            }
            Err(error) => {
                tracing::warn!("Cannot write an event to the spool: {}", error.kind());
                false
            }
        }
    }

    pub fn receipt(&mut self, mut receipt: ReceiptIn) {
        if let Some(detail) = &mut receipt.detail
            && let Some(redacted) = self.context.secrets.redact(detail)
        {
            *detail = redacted;
        }
        self.newest_receipt = Some(receipt.state);
        let line = serde_json::to_string(&receipt).expect("a receipt serializes");
        let fits = self.bytes() + line.len() as u64 <= self.quota.receipts;
        if !fits || self.receipts.append(&line).is_err() {
            self.begin_overflow();
            self.count_overflow(|overflow| *overflow.dropped.entry("receipt".to_owned()).or_default() += 1);
        }
    }

    /// Size of all queues on disk.
    pub fn bytes(&self) -> u64 {
        self.events.bytes() + self.receipts.bytes() + self.entries.bytes()
    }

    /// Number of events and receipts dropped in the current overflow.
    pub fn dropped(&self) -> u64 {
        self.overflow.as_ref().map_or(0, |overflow| overflow.dropped.values().sum())
    }

    fn begin_overflow(&mut self) {
        if self.overflow.is_some() {
            return;
        }
        let overflow = Overflow::new();
        let (bytes, max) = (self.bytes(), self.quota.max);
        tracing::warn!("The outbox is full ({bytes} of {max} bytes); events will be shortened or dropped");
        let started = overflow.started(bytes, max);
        self.overflow = Some(overflow);
        self.overflow_saved_at = None;
        self.emit_diagnostic(started);
    }

    fn count_overflow(&mut self, count: impl FnOnce(&mut Overflow)) {
        let Some(overflow) = &mut self.overflow else { return };
        count(overflow);
        let now = Instant::now();
        if self.overflow_saved_at.is_none_or(|at| now > at + OVERFLOW_SAVE_INTERVAL) {
            save(&self.dir.join("overflow.json"), overflow);
            self.overflow_saved_at = Some(now);
        }
    }

    /// Reports the overflow when there is room again, or now if the worker is about to exit.
    pub fn report_overflow(&mut self, now: bool) {
        if !(now || self.bytes() <= self.quota.transcripts) {
            return;
        }
        let Some(overflow) = self.overflow.take() else { return };
        if !self.emit_diagnostic(overflow.ended(self.bytes())) {
            // Report it later, when there is room.
            self.overflow = Some(overflow);
            return;
        }
        if let Err(error) = fs::remove_file(self.dir.join("overflow.json")) {
            tracing::debug!("Cannot delete overflow.json: {}", error.kind());
        }
    }

    pub fn save_numbering(&self) {
        save(&self.dir.join("events.json"), &self.numbering);
    }

    /// The plane has the receipts up to this line.
    pub fn acknowledge_receipts(&mut self, through: u64) {
        save(&self.dir.join("receipts.json"), &Position { front: through + 1 });
        self.receipts.acknowledge(through);
        self.report_overflow(false);
    }

    /// Time of the oldest unsent event.
    pub fn oldest(&mut self) -> Option<domain::Timestamp> {
        let records = self.events.read(self.events.front(), 1, 0).ok()?;
        let header: Header<'_> = serde_json::from_slice(&records.first()?.bytes).ok()?;
        Some(header.emitted_at)
    }
}
