//! Everything that the outbox has on disk.

use super::fit::{self, Label};
use super::known::{self, Known};
use super::room::{LeftOut, Room, Voice, notice};
use super::spool::{Record, Spool};
use crate::clock;
use crate::event::Event;
use client::ReceiptIn;
use contract::problem::Problem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Counts that change often are written down at most so often.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// What was set aside is kept in full up to this size.
const MAX_REFUSED_BYTES: u64 = 8 * 1024 * 1024;

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
    /// The next number of each session.
    sessions: BTreeMap<String, u64>,
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

#[derive(Debug, Default, Serialize, Deserialize)]
struct Position {
    head: u64,
    #[serde(default)]
    sessions: BTreeMap<String, u64>,
}

/// An entry of a transcript, as a line of the spool.
#[derive(Serialize, Deserialize)]
pub(super) struct EntryLine<'a> {
    /// Whose.
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// Its place there.
    pub number: u64,
    /// As the agent wrote it.
    #[serde(borrow)]
    pub entry: &'a RawValue,
}

impl Store {
    /// Opens what is there.
    pub fn open(dir: &Path, max_bytes: u64, voice: Arc<Voice>) -> io::Result<Self> {
        let room = Room::of(max_bytes);
        let numbering: Option<Numbering> = recall(&dir.join("events.json"));
        let receipts: Option<Position> = recall(&dir.join("receipts.json"));
        let entries: Option<Position> = recall(&dir.join("entries.json"));
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
            entries: open("entries", entries.as_ref().map(|position| position.head))?,
            sessions: entries.map(|position| position.sessions).unwrap_or_default(),
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
        let mut first = self.entries.head();
        loop {
            let records = self.entries.read(first, 1_000, 1024 * 1024)?;
            let Some(last) = records.last() else { return Ok(()) };
            first = last.number + 1;
            for record in &records {
                if let Ok(line) = serde_json::from_slice::<EntryLine<'_>>(&record.bytes) {
                    let next = self.sessions.entry(line.session.into_owned()).or_insert(1);
                    *next = (*next).max(line.number + 1);
                }
            }
        }
    }

    /// Whether an event of this name was told.
    pub fn knows(&self, id: &str) -> bool {
        self.known.contains(known::key(id))
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

    /// The number of the next entry of a session.
    pub fn next_entry(&self, session: &str) -> u64 {
        self.sessions.get(session).copied().unwrap_or(1)
    }

    /// The plane has all entries of this session before `next`.
    pub fn session_begins(&mut self, session: &str, next: u64) {
        let known = self.sessions.entry(session.to_owned()).or_insert(1);
        *known = (*known).max(next);
        self.note_entries(self.entries.head());
    }

    /// Keeps entries of a transcript, as far as there is room.
    pub fn transcript(&mut self, session: &str, entries: &[Box<RawValue>]) {
        for entry in entries {
            // Lines end where entries end: JSON holds line ends only between its parts.
            let flat = (entry.get().contains('\n')).then(|| entry.get().replace(['\n', '\r'], " "));
            let flat = flat.and_then(|text| RawValue::from_string(text).ok());
            let entry: &RawValue = flat.as_deref().unwrap_or(entry);
            let missing = self.left_out.as_ref().and_then(|left_out| left_out.entries.get(session));
            let fits = self.bytes() + entry.get().len() as u64 <= self.room.transcripts;
            // What follows a hole waits until the hole is noted.
            if missing.is_some() || !fits || !self.keep_entry(session, entry) {
                self.fills_up();
                self.leave_out(|left_out| *left_out.entries.entry(session.to_owned()).or_default() += 1);
            }
        }
    }

    fn keep_entry(&mut self, session: &str, entry: &RawValue) -> bool {
        let number = self.next_entry(session);
        let line = EntryLine { session: Cow::Borrowed(session), number, entry };
        let line = serde_json::to_string(&line).expect("an entry is JSON");
        let kept = self.entries.append(&line).is_ok();
        if kept {
            self.sessions.insert(session.to_owned(), number + 1);
        }
        kept
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
        for (session, entries) in left_out.entries {
            let hole = json!({"type": "sunaba.left_out", "entries": entries});
            let hole = RawValue::from_string(hole.to_string()).expect("it was made of JSON");
            self.keep_entry(&session, &hole);
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
        note(&self.dir.join("receipts.json"), &Position { head: through + 1, ..Position::default() });
        self.receipts.done(through);
        self.account(false);
    }

    /// Entries up to this line are with the plane.
    pub fn entries_done(&mut self, through: u64) {
        // Before files are deleted all that is known of them is written down, or a crash would lose the numbers.
        self.note_entries(through + 1);
        self.entries.done(through);
        self.account(false);
    }

    fn note_entries(&self, head: u64) {
        let position = Position { head, sessions: self.sessions.clone() };
        note(&self.dir.join("entries.json"), &position);
    }

    /// A line that is not what was written: set aside and told.
    pub fn damaged(&mut self, lane: &str, record: &Record) {
        let id = name("damaged", lane, record);
        if self.knows(&id) {
            return;
        }
        let text = String::from_utf8_lossy(&record.bytes);
        let text = self.voice.secrets.redact(&text).unwrap_or_else(|| text.into_owned());
        self.set_aside(&json!({"lane": lane, "code": "damaged", "record": record.number, "text": text}));
        let event = Event::worker("worker.spool_damaged")
            .named(id)
            .with("lane", lane)
            .with("record", record.number)
            .with("size_bytes", record.bytes.len());
        self.notice(event);
    }

    /// Lines that were written and are not there any more: told, since nothing else is left of them.
    pub fn missing(&mut self, lane: &str, records: u64) {
        tracing::error!("{records} lines of the {lane} lane are gone from the disk");
        self.notice(
            Event::worker("worker.spool_damaged").with("lane", lane).with("missing_records", records),
        );
    }

    /// A line that the plane will never take: set aside and told.
    pub fn refused(&mut self, lane: &str, record: &Record, problem: &Problem) {
        let text = String::from_utf8_lossy(&record.bytes);
        let label: Option<Label<'_>> = serde_json::from_str(&text).ok();
        let (code, detail, field) = (&problem.code, &problem.detail, &problem.field);
        let raw: Option<&RawValue> = serde_json::from_str(&text).ok();
        self.set_aside(&json!({"lane": lane, "code": code, "detail": detail, "field": field, "line": raw}));
        tracing::warn!("The plane refuses something of the {lane} lane ({code}); it is set aside");
        let event_type = label.as_ref().map(|label| label.event_type.clone().into_owned());
        // A refusal of a refusal would go on for ever.
        if event_type.as_deref().is_some_and(|event_type| event_type.starts_with("worker.")) {
            return;
        }
        let event = match lane {
            "events" => Event::worker("worker.event_refused"),
            "receipts" => Event::worker("worker.receipt_refused"),
            _ => Event::worker("worker.transcript_refused"),
        };
        let event = event
            .named(name("refused", lane, record))
            .with_some("event_id", label.map(|label| label.event_id.into_owned()))
            .with_some("event_type", event_type)
            .with("code", code.clone())
            .with("detail", detail.clone())
            .with_some("field", field.clone())
            .with("size_bytes", record.bytes.len());
        self.notice(event);
    }

    fn set_aside(&self, what: &serde_json::Value) {
        let path = self.dir.join("refused.jsonl");
        let full = fs::metadata(&path).is_ok_and(|file| file.len() > MAX_REFUSED_BYTES);
        if full {
            tracing::warn!("refused.jsonl is full: what was refused is only told");
            return;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let line = format!("{}\n", json!({"at": clock::now(), "what": what}));
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::warn!("Cannot set something aside: {}", error.kind());
        }
    }

    /// When the oldest event that waits happened.
    pub fn oldest(&mut self) -> Option<domain::Timestamp> {
        let records = self.events.read(self.events.head(), 1, 0).ok()?;
        let label: Label<'_> = serde_json::from_slice(&records.first()?.bytes).ok()?;
        Some(label.emitted_at)
    }
}

/// The same line gets the same name: what is told of it is told once.
fn name(what: &str, lane: &str, record: &Record) -> String {
    let content = Uuid::new_v5(&Uuid::NAMESPACE_OID, &record.bytes);
    format!("{what}-{lane}-{}-{content}", record.number)
}

/// Writes a small file as a whole: whoever reads it finds the old one or the new one.
fn note<T: Serialize>(path: &Path, what: &T) {
    let written = || -> io::Result<()> {
        let aside = path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&aside)?;
        file.write_all(&serde_json::to_vec(what)?)?;
        fs::rename(aside, path)
    };
    // Sending goes on: it is what makes room. Only a crash before the next note would make it send something twice.
    if let Err(error) = written() {
        tracing::warn!("Cannot write down how far the outbox is: {}", error.kind());
    }
}

fn recall<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
