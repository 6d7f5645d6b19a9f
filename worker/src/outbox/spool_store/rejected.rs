//! Records that cannot be sent: written to `refused.jsonl` and reported as events.

use super::SpoolStore;
use crate::clock;
use crate::event::Event;
use crate::outbox::event_line::Header;
use crate::outbox::spool::Record;
use contract::payloads::{
    Refusal, WorkerEventRefused, WorkerReceiptRefused, WorkerSpoolDamaged, WorkerTranscriptRefused,
};
use contract::problem::Problem;
use serde_json::json;
use serde_json::value::RawValue;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use uuid::Uuid;

/// Maximum size of `refused.jsonl`.
const MAX_REFUSED_BYTES: u64 = 8 * 1024 * 1024;

impl SpoolStore {
    /// Saves and reports a line that was damaged on disk.
    pub fn damaged(&mut self, queue: &str, record: &Record) {
        let id = event_id("damaged", queue, record);
        if self.has_emitted(&id) {
            return;
        }
        let text = String::from_utf8_lossy(&record.bytes);
        let text = self.context.secrets.redact(&text).unwrap_or_else(|| text.into_owned());
        self.save_rejected(
            &json!({"queue": queue, "code": "damaged", "record": record.number, "text": text}),
        );
        let event = Event::worker(WorkerSpoolDamaged {
            queue: queue.to_owned(),
            record: Some(record.number),
            size_bytes: Some(record.bytes.len() as u64),
            missing_records: None,
        });
        self.emit_diagnostic(event.with_id(id));
    }

    /// Reports lines that have disappeared from the disk.
    pub fn missing(&mut self, queue: &str, records: u64) {
        tracing::error!("{records} records of the {queue} queue are missing on disk");
        self.emit_diagnostic(Event::worker(WorkerSpoolDamaged {
            queue: queue.to_owned(),
            missing_records: Some(records),
            ..Default::default()
        }));
    }

    /// Saves and reports a record that the plane will never accept.
    pub fn rejected(&mut self, queue: &str, record: &Record, problem: &Problem) {
        let text = String::from_utf8_lossy(&record.bytes);
        let header: Option<Header<'_>> = serde_json::from_str(&text).ok();
        let (code, detail, field) = (&problem.code, &problem.detail, &problem.field);
        let raw: Option<&RawValue> = serde_json::from_str(&text).ok();
        self.save_rejected(
            &json!({"queue": queue, "code": code, "detail": detail, "field": field, "line": raw}),
        );
        tracing::warn!("The plane rejected a record of the {queue} queue ({code})");
        let event_type = header.as_ref().map(|header| header.event_type.clone().into_owned());
        // Do not report a rejected report: that could loop forever.
        if event_type.as_deref().is_some_and(|event_type| event_type.starts_with("worker.")) {
            return;
        }
        let refusal = Refusal {
            code: code.clone(),
            event_id: header.map(|header| header.event_id.into_owned()),
            event_type,
            detail: Some(detail.clone()),
            field: field.clone(),
            size_bytes: record.bytes.len() as u64,
        };
        let event = match queue {
            "events" => Event::worker(WorkerEventRefused(refusal)),
            "receipts" => Event::worker(WorkerReceiptRefused(refusal)),
            _ => Event::worker(WorkerTranscriptRefused { refusal, ..Default::default() }),
        };
        self.emit_diagnostic(event.with_id(event_id("refused", queue, record)));
    }

    fn save_rejected(&self, record: &serde_json::Value) {
        let path = self.dir.join("refused.jsonl");
        let full = fs::metadata(&path).is_ok_and(|file| file.len() > MAX_REFUSED_BYTES);
        if full {
            tracing::warn!("refused.jsonl is full; the record is reported but not saved");
            return;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let line = format!("{}\n", json!({"at": clock::now(), "record": record}));
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            tracing::warn!("Cannot write refused.jsonl: {}", error.kind());
        }
    }
}

/// Deterministic, so that each record is reported once.
fn event_id(prefix: &str, queue: &str, record: &Record) -> String {
    let content = Uuid::new_v5(&Uuid::NAMESPACE_OID, &record.bytes);
    format!("{prefix}-{queue}-{}-{content}", record.number)
}
