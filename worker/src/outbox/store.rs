//! Everything that the outbox has on disk.

mod aside;
mod notes;
mod transcripts;

pub(super) use transcripts::{EntryLine, stand_in};

use super::fit::{self, Label};
use super::known::{self, Known};
use super::room::{LeftOut, Room, Voice, notice};
use super::spool::Spool;
use crate::event::Event;
use client::ReceiptIn;
use notes::{note, recall};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};
use tokio::time::Instant;
use transcripts::Sessions;

/// Counts that change often are written down at most so often.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// The lanes, what was told before, and what was left out.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    room: Room,
    voice: Arc<Voice>,
    /// Events on their way.
    pub events: Spool,
    /// And how far they have come.
    pub numbering: Numbering,
    /// Receipts on their way.
    pub receipts: Spool,
    /// Entries of transcripts on their way.
    pub entries: Spool,
    /// Where each session's transcript stands.
    sessions: Sessions,
    known: Known,
    left_out: Option<LeftOut>,
    noted_at: Option<Instant>,
    /// About how much of `events` waits.
    pub waiting_bytes: u64,
}

/// How far the events have come. What stands here is sent again after a crash, unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Numbering {
    /// 0 as long as none was taken.
    pub epoch: u64,
    /// The last batch that was answered.
    pub batch: u64,
    /// The first event that was not.
    pub head: u64,
    /// The last event of the batch that is on its way.
    pub sending: Option<u64>,
}

/// How far the receipts have come.
#[derive(Debug, Serialize, Deserialize)]
struct Position {
    head: u64,
}

impl Store {
    /// Opens what is there.
    pub fn open(dir: &Path, max_bytes: u64, voice: Arc<Voice>) -> io::Result<Self> {
        let room = Room::of(max_bytes);
        let numbering: Option<Numbering> = recall(&dir.join("events.json"));
        let receipts: Option<Position> = recall(&dir.join("receipts.json"));
        let mut sessions: Option<Sessions> = recall(&dir.join("entries.json"));
        let open = |name, head| Spool::open(dir, name, room.segment_bytes(), head);
        let events = open("events", numbering.as_ref().map(|numbering| numbering.head))?;
        let mut left_out: Option<LeftOut> = recall(&dir.join("left-out.json"));
        if let Some(left_out) = &mut left_out {
            left_out.at_least = true;
        }
        let mut store = Self {
            dir: dir.to_owned(),
            room,
            voice,
            waiting_bytes: events.bytes(),
            numbering: Numbering { head: events.head(), ..numbering.unwrap_or_default() },
            events,
            receipts: open("receipts", receipts.map(|position| position.head))?,
            entries: open("entries", sessions.as_ref().map(|sessions| sessions.head))?,
            sessions: sessions.take().unwrap_or_default(),
            known: Known::open(dir)?,
            left_out,
            noted_at: None,
        };
        store.catch_up()?;
        Ok(store)
    }

    /// A life may have ended between a line and the note of it.
    fn catch_up(&mut self) -> io::Result<()> {
        let mut first = self.events.head();
        loop {
            let records = self.events.read(first, 1_000, 1024 * 1024)?;
            let Some(last) = records.last() else { break };
            first = last.number + 1;
            for record in &records {
                if let Ok(label) = serde_json::from_slice::<Label<'_>>(&record.bytes) {
                    self.known.insert(known::key(&label.event_id));
                }
            }
        }
        self.catch_up_with_entries()
    }

    /// Whether an event of this name was told.
    pub fn knows(&self, id: &str) -> bool {
        self.known.contains(known::key(id))
    }

    /// Whether more events were told than are remembered.
    pub fn has_forgotten(&self) -> bool {
        self.known.has_forgotten()
    }

    /// Keeps an event, as far as there is room. `line` is what [`fit::line`] made of it.
    pub fn tell(&mut self, mut event: Event, line: &str) {
        if self.knows(&event.id) {
            return;
        }
        let bytes = self.bytes();
        if bytes + line.len() as u64 <= self.room.whole && self.keep(&event.id, line) {
            return;
        }
        self.fills_up();
        let lean = fit::lean(&mut event);
        let fits = bytes + lean.len() as u64 <= self.room.lean;
        if fits && self.keep(&event.id, &lean) {
            self.leave_out(|left_out| left_out.shortened += u64::from(lean != line));
        } else {
            self.leave_out(|left_out| *left_out.dropped.entry(event.event_type).or_default() += 1);
        }
    }

    /// Says something about the outbox itself. For this there is room when there is none for anything else.
    /// `false` if even that is used up.
    fn notice(&mut self, event: Event) -> bool {
        let (event, line) = notice(event, &self.voice);
        if self.knows(&event.id) {
            return true;
        }
        let fits = self.bytes() + line.len() as u64 <= self.room.most;
        let kept = fits && self.keep(&event.id, &line);
        if !kept {
            tracing::error!("There is no room to tell {}", event.event_type);
        }
        kept
    }

    fn keep(&mut self, id: &str, line: &str) -> bool {
        match self.events.append(line) {
            Ok(_) => {
                self.waiting_bytes += line.len() as u64;
                self.known.insert(known::key(id));
                true
            }
            Err(error) => {
                tracing::warn!("Cannot write an event to the spool: {}", error.kind());
                false
            }
        }
    }

    /// Keeps a receipt.
    pub fn receipt(&mut self, mut receipt: ReceiptIn) {
        if let Some(detail) = &mut receipt.detail
            && let Some(redacted) = self.voice.secrets.redact(detail)
        {
            *detail = redacted;
        }
        let line = serde_json::to_string(&receipt).expect("a receipt is plain JSON");
        let fits = self.bytes() + line.len() as u64 <= self.room.receipts;
        if !fits || self.receipts.append(&line).is_err() {
            self.fills_up();
            self.leave_out(|left_out| *left_out.dropped.entry("receipt".to_owned()).or_default() += 1);
        }
    }

    /// What all lanes take on disk.
    pub fn bytes(&self) -> u64 {
        self.events.bytes() + self.receipts.bytes() + self.entries.bytes()
    }

    /// How many events were lost since there was no room.
    pub fn dropped(&self) -> u64 {
        self.left_out.as_ref().map_or(0, |left_out| left_out.dropped.values().sum())
    }

    fn fills_up(&mut self) {
        if self.left_out.is_some() {
            return;
        }
        let left_out = LeftOut::new();
        let (bytes, most) = (self.bytes(), self.room.most);
        tracing::warn!("The spool is full ({bytes} of {most} bytes): something will be left out");
        let begins = left_out.begins(bytes, most);
        self.left_out = Some(left_out);
        self.noted_at = None;
        self.notice(begins);
    }

    fn leave_out(&mut self, count: impl FnOnce(&mut LeftOut)) {
        let Some(left_out) = &mut self.left_out else { return };
        count(left_out);
        let now = Instant::now();
        if self.noted_at.is_none_or(|at| now > at + NOTE_EVERY) {
            note(&self.dir.join("left-out.json"), left_out);
            self.noted_at = Some(now);
        }
    }

    /// Tells what was left out, if there is room again, or if nobody may be there later to tell it.
    pub fn account(&mut self, at_once: bool) {
        if !(at_once || self.bytes() <= self.room.transcripts) {
            return;
        }
        let Some(left_out) = self.left_out.take() else { return };
        if !self.notice(left_out.ends(self.bytes())) {
            // Later, when there is room.
            self.left_out = Some(left_out);
            return;
        }
        if let Err(error) = fs::remove_file(self.dir.join("left-out.json")) {
            tracing::debug!("There was no account of what was left out: {}", error.kind());
        }
    }

    /// Writes down how far the events have come.
    pub fn note_numbering(&self) {
        note(&self.dir.join("events.json"), &self.numbering);
    }

    /// Receipts up to this line are with the plane.
    pub fn receipts_done(&mut self, through: u64) {
        note(&self.dir.join("receipts.json"), &Position { head: through + 1 });
        self.receipts.done(through);
        self.account(false);
    }

    /// When the oldest event that waits happened.
    pub fn oldest(&mut self) -> Option<domain::Timestamp> {
        let records = self.events.read(self.events.head(), 1, 0).ok()?;
        let label: Label<'_> = serde_json::from_slice(&records.first()?.bytes).ok()?;
        Some(label.emitted_at)
    }
}
