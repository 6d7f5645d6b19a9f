//! The queue of transcript entries.
//!
//! **Invariant:** the number of an entry is its line number in the agent's own transcript. So no entry is omitted: an
//! entry that exceeds the quota is read from the transcript later, and one that the plane will never accept is replaced
//! by a [`placeholder`].

use super::{SpoolStore, save};
use crate::event::Event;
use crate::outbox::spool::Record;
use contract::limits::MAX_BODY_BYTES;
use contract::payloads::{Refusal, WorkerTranscriptBehind, WorkerTranscriptLost, WorkerTranscriptRefused};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Larger entries are not sent at all. Leaves room for the rest of the request body.
const MAX_ENTRY_BYTES: u64 = MAX_BODY_BYTES as u64 - 1024;

/// Upload position of each session's transcript. Persisted, except for what the plane reports again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sessions {
    /// First spool line that is not acknowledged.
    pub front: u64,
    /// Next entry number of each session.
    #[serde(default, rename = "sessions")]
    next: BTreeMap<String, u64>,
    /// Spool line for which a placeholder is sent.
    #[serde(default)]
    replaced: Option<u64>,
    /// Sessions for which the plane accepts no more entries.
    #[serde(skip)]
    abandoned: BTreeSet<String>,
    /// Sessions that the plane needs again from this entry on. Later entries in the spool are obsolete.
    #[serde(skip)]
    rewound_to: BTreeMap<String, u64>,
}

/// A spool line with a transcript entry.
#[derive(Serialize, Deserialize)]
pub(in crate::outbox) struct EntryLine<'a> {
    #[serde(borrow)]
    pub session: Cow<'a, str>,
    /// Line number in the transcript.
    pub number: u64,
    #[serde(borrow)]
    pub entry: &'a RawValue,
}

impl SpoolStore {
    /// The worker may have crashed after it wrote a line and before it saved the position.
    pub(super) fn recover_entries(&mut self) -> io::Result<()> {
        let mut first = self.entries.front();
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

    pub fn next_entry(&self, session: &str) -> u64 {
        self.sessions.next.get(session).copied().unwrap_or(1)
    }

    /// Whether the quota has room for entries of this session and the plane still accepts them.
    pub fn accepts_entries(&self, session: &str) -> bool {
        !self.sessions.abandoned.contains(session) && self.bytes() <= self.quota.transcripts
    }

    /// Declares that the plane has all entries of this session before `next`.
    pub fn resume_session_at(&mut self, session: &str, next: u64) {
        let known = self.sessions.next.entry(session.to_owned()).or_insert(1);
        *known = (*known).max(next);
        self.save_entries();
    }

    /// Stores entries until the quota is reached; see [`SpoolStore::next_entry`].
    pub fn transcript(&mut self, session: &str, entries: &[Box<RawValue>]) {
        for entry in entries {
            if !self.accepts_entries(session) || !self.append_entry(session, entry) {
                return;
            }
        }
    }

    fn append_entry(&mut self, session: &str, entry: &RawValue) -> bool {
        let number = self.next_entry(session);
        // A spool line must not contain line breaks. In JSON they occur only between tokens, so a space is equivalent.
        let flat = (entry.get().contains(['\n', '\r'])).then(|| entry.get().replace(['\n', '\r'], " "));
        let flat = flat.and_then(|text| RawValue::from_string(text).ok());
        let mut entry: &RawValue = flat.as_deref().unwrap_or(entry);
        let (size, max) = (entry.get().len() as u64, self.max_entry_bytes());
        let replacement = (size > max).then(|| placeholder(entry));
        if let Some(replacement) = &replacement {
            entry = replacement;
        }
        let line = EntryLine { session: Cow::Borrowed(session), number, entry };
        let line = serde_json::to_string(&line).expect("an entry serializes");
        if let Err(error) = self.entries.append(&line) {
            tracing::warn!("Cannot write a transcript entry to the spool: {}", error.kind());
            return false;
        }
        self.sessions.next.insert(session.to_owned(), number + 1);
        if replacement.is_some() {
            let code = "too_large".to_owned();
            let event = Event::worker(WorkerTranscriptRefused {
                refusal: Refusal { code, size_bytes: size, ..Default::default() },
                session_id: Some(session.to_owned()),
                number: Some(number),
            });
            self.emit_diagnostic(event.with_id(format!("entry-too-large-{session}-{number}")));
        }
        true
    }

    /// An entry of this size always fits when entries are accepted at all.
    fn max_entry_bytes(&self) -> u64 {
        MAX_ENTRY_BYTES.min((self.quota.full_events - self.quota.transcripts).saturating_sub(512))
    }

    /// Whether this line must not be sent any more.
    pub fn is_obsolete(&mut self, line: &EntryLine<'_>) -> bool {
        if self.sessions.abandoned.contains(line.session.as_ref()) {
            return true;
        }
        match self.sessions.rewound_to.get(line.session.as_ref()) {
            Some(expected) if line.number > *expected => true,
            Some(_) => {
                self.sessions.rewound_to.remove(line.session.as_ref());
                false
            }
            None => false,
        }
    }

    /// The plane has lost entries from `expected` on. They are read from the transcript again.
    pub fn rewind_session(&mut self, session: &str, first: u64, expected: u64) {
        tracing::warn!(
            "The plane expects entry {expected} of session {session}; sending it again from there"
        );
        self.sessions.next.insert(session.to_owned(), expected);
        self.sessions.rewound_to.insert(session.to_owned(), expected);
        self.save_entries();
        let (session_id, expected_first) = (session.to_owned(), expected);
        let event = Event::worker(WorkerTranscriptBehind { session_id, expected_first, first });
        self.emit_diagnostic(event.with_id(format!("transcript-behind-{session}-{expected}-{first}")));
    }

    /// Stops copying a session for which the plane accepts no more entries. Reported once.
    pub fn abandon_session(&mut self, session: &str, code: &str, detail: &str) {
        tracing::warn!("Stopped copying the transcript of session {session} ({code})");
        self.sessions.abandoned.insert(session.to_owned());
        let event = Event::worker(WorkerTranscriptLost {
            session_id: Some(session.to_owned()),
            code: Some(code.to_owned()),
            error: detail.to_owned(),
        });
        self.emit_diagnostic(event.with_id(format!("transcript-lost-{session}-{code}")));
    }

    /// Sends a placeholder instead of an entry that the plane rejected. Persisted, so that the same is sent after a
    /// crash.
    pub fn replace_entry(&mut self, record: &Record) {
        self.sessions.replaced = Some(record.number);
        self.save_entries();
    }

    /// Whether a placeholder is sent for this line.
    pub fn is_replaced(&self, record: &Record) -> bool {
        self.sessions.replaced == Some(record.number)
    }

    /// The plane has the entries up to this line.
    pub fn acknowledge_entries(&mut self, through: u64) {
        self.sessions.front = through + 1;
        self.sessions.replaced = self.sessions.replaced.filter(|line| *line > through);
        // Save the position before deleting files. Otherwise a crash would lose the entry numbers.
        self.save_entries();
        self.entries.acknowledge(through);
        self.report_overflow(false);
    }

    fn save_entries(&mut self) {
        self.sessions.front = self.sessions.front.max(self.entries.front());
        save(&self.dir.join("entries.json"), &self.sessions);
    }
}

/// Replaces an entry that the plane does not accept. It keeps the ids that link the entries: an agent that resumes the
/// session follows `parentUuid` from the last entry to the first.
pub(in crate::outbox) fn placeholder(entry: &RawValue) -> Box<RawValue> {
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Links<'a> {
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
    let text = match serde_json::from_str::<Links<'_>>(entry.get()) {
        Ok(links) => {
            let links = serde_json::to_string(&links).expect("raw JSON values serialize");
            let fields = r#""type":"system","subtype":"sunaba.refused","level":"info","content":"Omitted: the entry is too large to be stored.""#;
            format!("{{{fields},{}", &links[1..])
        }
        Err(_) => json!({"type": "sunaba.refused"}).to_string(),
    };
    RawValue::from_string(text).expect("built from valid JSON")
}
