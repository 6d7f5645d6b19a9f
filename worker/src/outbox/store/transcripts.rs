//! Entries of transcripts on their way.
//!
//! **Invariant:** an entry keeps the number that it has in the agent's own record, whatever becomes of those before it.
//! So nothing is left out: one that there is no room for is read from the record later, and one that the plane will never
//! take has a [`stand_in`].

use super::{Store, note};
use crate::event::Event;
use crate::outbox::spool::Record;
use contract::limits::MAX_BODY_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Larger entries are not even tried: the rest is for what stands around them.
const MAX_ENTRY_BYTES: u64 = MAX_BODY_BYTES as u64 - 1024;

/// Where each session's transcript stands. Written down, but for what the plane will say again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sessions {
    /// The first line of the spool that is not with the plane.
    pub head: u64,
    /// The next number of each session.
    #[serde(default, rename = "sessions")]
    next: BTreeMap<String, u64>,
    /// The line in whose place something else is sent.
    #[serde(default)]
    refused: Option<u64>,
    /// Sessions to which nothing can be added any more.
    #[serde(skip)]
    lost: BTreeSet<String>,
    /// Sessions that the plane wants from an earlier entry on: what waits behind it is not wanted.
    #[serde(skip)]
    back_to: BTreeMap<String, u64>,
}

/// An entry of a transcript, as a line of the spool.
#[derive(Serialize, Deserialize)]
pub(in crate::outbox) struct EntryLine<'a> {
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
    /// A life may have ended between a line and the note of it.
    pub(super) fn catch_up_with_entries(&mut self) -> io::Result<()> {
        let mut first = self.entries.head();
        loop {
            let records = self.entries.read(first, 1_000, 1024 * 1024)?;
            let Some(last) = records.last() else { return Ok(()) };
            first = last.number + 1;
            for record in &records {
                if let Ok(line) = serde_json::from_slice::<EntryLine<'_>>(&record.bytes) {
                    let next = self.sessions.next.entry(line.session.into_owned()).or_insert(1);
                    *next = (*next).max(line.number + 1);
                }
            }
        }
    }

    /// The number of the next entry of a session.
    pub fn next_entry(&self, session: &str) -> u64 {
        self.sessions.next.get(session).copied().unwrap_or(1)
    }

    /// Whether entries of this session are wanted, and there is room for them.
    pub fn takes_entries(&self, session: &str) -> bool {
        !self.sessions.lost.contains(session) && self.bytes() <= self.room.transcripts
    }

    /// The plane has all entries of this session before `next`.
    pub fn session_begins(&mut self, session: &str, next: u64) {
        let known = self.sessions.next.entry(session.to_owned()).or_insert(1);
        *known = (*known).max(next);
        self.note_entries();
    }

    /// Keeps entries of a transcript, up to the first that there is no room for: see [`Store::next_entry`].
    pub fn transcript(&mut self, session: &str, entries: &[Box<RawValue>]) {
        for entry in entries {
            if !self.takes_entries(session) || !self.keep_entry(session, entry) {
                return;
            }
        }
    }

    fn keep_entry(&mut self, session: &str, entry: &RawValue) -> bool {
        let number = self.next_entry(session);
        // Lines end where entries end: JSON holds line ends only between its parts.
        let flat = (entry.get().contains(['\n', '\r'])).then(|| entry.get().replace(['\n', '\r'], " "));
        let flat = flat.and_then(|text| RawValue::from_string(text).ok());
        let mut entry: &RawValue = flat.as_deref().unwrap_or(entry);
        let (size, most) = (entry.get().len() as u64, self.largest_entry());
        let standing_in = (size > most).then(|| stand_in(entry));
        if let Some(standing_in) = &standing_in {
            entry = standing_in;
        }
        let line = EntryLine { session: Cow::Borrowed(session), number, entry };
        let line = serde_json::to_string(&line).expect("an entry is JSON");
        if let Err(error) = self.entries.append(&line) {
            tracing::warn!("Cannot write an entry to the spool: {}", error.kind());
            return false;
        }
        self.sessions.next.insert(session.to_owned(), number + 1);
        if standing_in.is_some() {
            let event = Event::worker("worker.transcript_refused")
                .named(format!("entry-too-large-{session}-{number}"))
                .with("session_id", session)
                .with("number", number)
                .with("code", "too_large")
                .with("size_bytes", size);
            self.notice(event);
        }
        true
    }

    /// There is always room for one of this size where entries are taken at all.
    fn largest_entry(&self) -> u64 {
        MAX_ENTRY_BYTES.min((self.room.whole - self.room.transcripts).saturating_sub(512))
    }

    /// Whether this line is not to be sent any more.
    pub fn is_unwanted(&mut self, line: &EntryLine<'_>) -> bool {
        if self.sessions.lost.contains(line.session.as_ref()) {
            return true;
        }
        match self.sessions.back_to.get(line.session.as_ref()) {
            Some(wanted) if line.number > *wanted => true,
            Some(_) => {
                self.sessions.back_to.remove(line.session.as_ref());
                false
            }
            None => false,
        }
    }

    /// The plane wants a session from this entry on, and this worker has sent all that it knew of it. It is read from
    /// the record again.
    pub fn session_goes_back(&mut self, session: &str, first: u64, wanted: u64) {
        tracing::warn!("The plane has session {session} only up to entry {wanted}, without it");
        self.sessions.next.insert(session.to_owned(), wanted);
        self.sessions.back_to.insert(session.to_owned(), wanted);
        self.note_entries();
        let event = Event::worker("worker.transcript_behind")
            .named(format!("transcript-behind-{session}-{wanted}-{first}"))
            .with("session_id", session)
            .with("expected_first", wanted)
            .with("first", first);
        self.notice(event);
    }

    /// Nothing can be added to a session any more. Told once, whatever is still read of it.
    pub fn session_lost(&mut self, session: &str, code: &str, detail: &str) {
        tracing::warn!("Session {session} is not copied any more ({code})");
        self.sessions.lost.insert(session.to_owned());
        let event = Event::worker("worker.transcript_lost")
            .named(format!("transcript-lost-{session}-{code}"))
            .with("session_id", session)
            .with("code", code)
            .with("error", detail);
        self.notice(event);
    }

    /// The plane takes no entry like this: something else goes in its place. Written down, so that the same goes there
    /// after a crash.
    pub fn entry_refused(&mut self, record: &Record) {
        self.sessions.refused = Some(record.number);
        self.note_entries();
    }

    /// Whether something else goes in place of this line.
    pub fn is_refused(&self, record: &Record) -> bool {
        self.sessions.refused == Some(record.number)
    }

    /// Entries up to this line are with the plane.
    pub fn entries_done(&mut self, through: u64) {
        self.sessions.head = through + 1;
        self.sessions.refused = self.sessions.refused.filter(|line| *line > through);
        // Before files are deleted all that is known of them is written down, or a crash would lose the numbers.
        self.note_entries();
        self.entries.done(through);
        self.account(false);
    }

    fn note_entries(&mut self) {
        self.sessions.head = self.sessions.head.max(self.entries.head());
        note(&self.dir.join("entries.json"), &self.sessions);
    }
}

/// What goes in place of an entry that nobody takes. It keeps the entry's place in the conversation: an agent that goes on
/// from the record follows its entries from the last to the first, each by the name of the one before.
pub(in crate::outbox) fn stand_in(entry: &RawValue) -> Box<RawValue> {
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Place<'a> {
        #[serde(borrow)]
        uuid: &'a RawValue,
        #[serde(borrow, default)]
        parent_uuid: Option<&'a RawValue>,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a RawValue>,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<&'a RawValue>,
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        is_sidechain: Option<&'a RawValue>,
    }
    let text = match serde_json::from_str::<Place<'_>>(entry.get()) {
        Ok(place) => {
            let place = serde_json::to_string(&place).expect("it was JSON before");
            let what = r#""type":"system","subtype":"sunaba.refused","level":"info","content":"Left out here: too large to be kept.""#;
            format!("{{{what},{}", &place[1..])
        }
        Err(_) => json!({"type": "sunaba.refused"}).to_string(),
    };
    RawValue::from_string(text).expect("it was made of JSON")
}
