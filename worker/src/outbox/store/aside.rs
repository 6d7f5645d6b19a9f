//! What cannot be sent: set aside in a file, and told.

use super::Store;
use crate::clock;
use crate::event::Event;
use crate::outbox::fit::Label;
use crate::outbox::spool::Record;
use contract::problem::Problem;
use serde_json::json;
use serde_json::value::RawValue;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use uuid::Uuid;

/// What was set aside is kept in full up to this size.
const MAX_REFUSED_BYTES: u64 = 8 * 1024 * 1024;

impl Store {
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
}

/// The same line gets the same name: what is told of it is told once.
fn name(what: &str, lane: &str, record: &Record) -> String {
    let content = Uuid::new_v5(&Uuid::NAMESPACE_OID, &record.bytes);
    format!("{what}-{lane}-{}-{content}", record.number)
}
