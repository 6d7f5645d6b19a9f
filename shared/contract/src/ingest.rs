//! `POST /api/v1/sandboxes/{id}/events`: the two forms of a request, and the responses.

use crate::bad_input::BadInput;
use crate::limits::{
    MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_EVENT_BYTES, MAX_HEARTBEAT_BYTES, MAX_PARTIAL_BYTES,
    MAX_REPORT_BYTES,
};
use domain::attempt::TRUNCATED;
use domain::ingest::{Batch, NewEvent};
use domain::large_fields::{MAX_NAMES_BYTES, omit_large_fields};
use domain::sandbox::BatchNumber;
use domain::{EventId, EventType, Invalid, JsonObject, SandboxId, Source, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::HashSet;

#[derive(Debug, Clone)]
pub enum Ingest {
    /// One event, as OmoiOS workers send it.
    Single(Box<NewEvent>),
    /// A numbered batch.
    Batch(Batch),
}

/// Decodes either form; the batch form is the one with `events`. `sources` are those that the sender may claim, and
/// `new_id` generates ids for events without one.
pub fn decode(
    body: &[u8],
    sources: &[Source],
    mut new_id: impl FnMut() -> EventId,
) -> Result<Ingest, BadInput> {
    if body.len() > MAX_REPORT_BYTES {
        return Err(BadInput::too_large("body", MAX_REPORT_BYTES));
    }
    let text = std::str::from_utf8(body).map_err(|e| {
        BadInput::Malformed(format!("The body is not UTF-8: invalid byte at position {}.", e.valid_up_to()))
    })?;
    if text.trim_start().bytes().next().is_some_and(|first| first != b'{') {
        return Err(BadInput::invalid("body", "must be a JSON object"));
    }
    let wire: WireBatch<'_> = read(text)?;
    match wire.events {
        None => {
            let event = read::<WireEvent<'_>>(text)?.check("", sources, new_id)?;
            Ok(Ingest::Single(Box::new(if body.len() > MAX_EVENT_BYTES { shortened(event)? } else { event })))
        }
        Some(events) => {
            if body.len() > MAX_BATCH_BYTES {
                return Err(BadInput::too_large("body", MAX_BATCH_BYTES));
            }
            let number = BatchNumber {
                epoch: counting_number("epoch", wire.epoch)?,
                batch: counting_number("batch", wire.batch)?,
            };
            Ok(Ingest::Batch(batch(number, events, sources, &mut new_id)?))
        }
    }
}

/// The event without its largest fields, which it names in `truncated`. A sender that shortens an event itself knows
/// better what to keep, so this is done only if the outcome of a task may depend on it.
fn shortened(event: NewEvent) -> Result<NewEvent, BadInput> {
    if !event.event_type.may_be_final_report() {
        return Err(BadInput::too_large("body", MAX_EVENT_BYTES));
    }
    // Room for the list of names, and for the rest of an event of the maximum size.
    let abridged = omit_large_fields(&event.data, MAX_EVENT_BYTES - 2 * MAX_NAMES_BYTES);
    if abridged.omitted.is_empty() {
        return Ok(event);
    }
    let names = serde_json::value::to_raw_value(&abridged.omitted).expect("a list of names serializes");
    Ok(NewEvent { data: abridged.data.with_fields(&[(TRUNCATED, Some(names))]), ..event })
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, BadInput> {
    serde_json::from_str(text).map_err(|e| BadInput::Malformed(format!("The body is not valid JSON: {e}.")))
}

fn batch(
    number: BatchNumber,
    events: &RawValue,
    sources: &[Source],
    new_id: &mut impl FnMut() -> EventId,
) -> Result<Batch, BadInput> {
    let raw: Vec<&RawValue> = serde_json::from_str(events.get())
        .map_err(|_| BadInput::invalid("events", "must be a list of events"))?;
    if raw.is_empty() || raw.len() > MAX_BATCH_EVENTS {
        return Err(BadInput::invalid("events", format!("must contain 1 to {MAX_BATCH_EVENTS} events")));
    }
    let mut checked = Vec::with_capacity(raw.len());
    let mut parts = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("events[{index}]");
        if !raw.get().starts_with('{') {
            return Err(BadInput::invalid(path, "must be an object"));
        }
        let wire: WireEvent<'_> = serde_json::from_str(raw.get())
            .map_err(|e| BadInput::invalid(path.as_str(), format!("is invalid: {e}")))?;
        let has_id = wire.event_id.is_some();
        let event = wire.check(&path, sources, &mut *new_id)?;
        // The sender's id identifies an event, so that a retry may serialize the same JSON in another order. A generated
        // id differs with every delivery, so the data identifies the event instead.
        let identity = if has_id { event.id.to_string() } else { event.data.text().to_owned() };
        parts.push((identity, event.event_type.to_string()));
        checked.push(event);
    }
    let mut ids = HashSet::new();
    if let Some(index) = checked.iter().position(|event| !ids.insert(event.id.as_str())) {
        return Err(BadInput::invalid(format!("events[{index}].event_id"), "is not unique in this batch"));
    }
    let digest = digest(parts.iter().map(|(id, event_type)| (id.as_str(), event_type.as_str())));
    Ok(Batch::new(Some(number), checked, digest))
}

/// Hash of a single event with an `Idempotency-Key`.
pub fn digest_of_single(event: &NewEvent) -> String {
    digest([(event.event_type.as_str(), event.source.as_str()), ("data", event.data.text())])
}

fn digest<'a>(parts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut hash = Sha256::new();
    for (left, right) in parts {
        for part in [left, right] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize()[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Values stay raw so that each error can name its field.
#[derive(Deserialize)]
struct WireBatch<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    epoch: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    batch: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    events: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(borrow, default)]
    event_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    event_type: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    event_data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    emitted_at: Option<&'a RawValue>,
}

/// Distinguishes `null` from absent, which `Option` alone does not.
pub(crate) fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl WireEvent<'_> {
    fn check(
        self,
        path: &str,
        sources: &[Source],
        mut new_id: impl FnMut() -> EventId,
    ) -> Result<NewEvent, BadInput> {
        let within = |wrong: Invalid| if path.is_empty() { wrong } else { wrong.inside(path) };
        let text = |field: &str, raw: &RawValue| {
            serde_json::from_str::<String>(raw.get())
                .map_err(|_| within(Invalid::new(field, "must be a string")))
        };
        let event_type = match self.event_type {
            Some(raw) => EventType::parse(text("event_type", raw)?).map_err(within)?,
            None => return Err(within(Invalid::new("event_type", "is missing")).into()),
        };
        if event_type.is_reserved() {
            return Err(within(Invalid::new("event_type", "is reserved for the plane")).into());
        }
        let source = match self.source {
            Some(raw) => Source::parse(&text("source", raw)?).map_err(within)?,
            None => Source::Agent,
        };
        if !sources.contains(&source) {
            let allowed: Vec<&str> = sources.iter().map(|source| source.as_str()).collect();
            let reason = format!("must be one of {} for this token", allowed.join(", "));
            return Err(within(Invalid::new("source", reason)).into());
        }
        let data = match self.event_data {
            Some(raw) => {
                JsonObject::parse(raw).map_err(|reason| within(Invalid::new("event_data", reason)))?
            }
            None => JsonObject::empty(),
        };
        if let Some(max) = max_data_bytes(&event_type).filter(|max| data.text().len() > *max) {
            let reason = format!("must be at most {max} bytes in {event_type}");
            return Err(BadInput::TooLarge(within(Invalid::new("event_data", reason))));
        }
        let id = match self.event_id {
            Some(raw) => EventId::parse(text("event_id", raw)?).map_err(within)?,
            None => new_id(),
        };
        let emitted_at = match self.emitted_at {
            Some(raw) => Some(
                Timestamp::parse(&text("emitted_at", raw)?)
                    .ok_or_else(|| within(Invalid::new("emitted_at", "must be an RFC 3339 time")))?,
            ),
            None => None,
        };
        Ok(NewEvent { id, event_type, source, data, emitted_at })
    }
}

/// Limit for the data of an event of this type, if it has its own.
fn max_data_bytes(event_type: &EventType) -> Option<usize> {
    let heartbeat = event_type.is_heartbeat().then_some(MAX_HEARTBEAT_BYTES);
    heartbeat.or_else(|| event_type.is_partial().then_some(MAX_PARTIAL_BYTES))
}

/// An integer from 1 to the largest that a double represents exactly, since senders may be JavaScript.
pub(crate) fn counting_number(field: &str, raw: Option<&RawValue>) -> Result<u64, BadInput> {
    let raw = raw.ok_or_else(|| BadInput::invalid(field, "is missing"))?;
    match serde_json::from_str::<u64>(raw.get()) {
        Ok(number @ 1..=9_007_199_254_740_991) => Ok(number),
        _ => Err(BadInput::invalid(field, "must be an integer from 1 to 2^53 - 1")),
    }
}

/// Response to a single event: the format of OmoiOS, and the sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventReceived {
    /// Always `received`: the event is stored.
    pub status: String,
    pub sandbox_id: SandboxId,
    pub event_type: EventType,
    pub event_id: EventId,
    /// Sequence number in the log; `null` for an ephemeral event.
    pub seq: Option<u64>,
    /// When it was stored.
    pub timestamp: Timestamp,
}

/// Response to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchReceived {
    /// Always `received`: the batch is stored.
    pub status: String,
    pub sandbox_id: SandboxId,
    pub epoch: u64,
    pub batch: u64,
    /// Whether the batch was stored before. The rest is then the original response.
    pub repeated: bool,
    /// Sequence number of its first log event; `null` if it has none.
    pub first_seq: Option<u64>,
    /// Number of log events.
    pub events: u64,
    /// Number of heartbeats.
    pub heartbeats: u64,
    /// When it was stored.
    pub timestamp: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingest(body: &str) -> Result<Ingest, BadInput> {
        let mut next = 0;
        decode(body.as_bytes(), &Source::ALL, || {
            next += 1;
            EventId::parse(format!("new-{next}")).unwrap()
        })
    }

    fn rejection(body: &str) -> (&'static str, String) {
        match ingest(body).unwrap_err() {
            BadInput::Malformed(text) => ("malformed", text),
            BadInput::Invalid(wrong) => ("invalid", wrong.field),
            BadInput::TooLarge(wrong) => ("too large", wrong.field),
        }
    }

    #[test]
    fn the_single_form_is_that_of_omoios_workers() {
        let Ingest::Single(event) = ingest(
            r#"{"event_type":"agent.tool_use","event_data":{"turn":3,"input":{"command":"ls"}},"source":"agent","x":1}"#,
        )
        .unwrap() else {
            panic!("not the single form")
        };
        assert_eq!(event.data.text(), r#"{"turn":3,"input":{"command":"ls"}}"#);
        assert_eq!((event.source, event.id.as_str()), (Source::Agent, "new-1"));
        let Ingest::Single(bare) = ingest(r#"{"event_type":"agent.waiting"}"#).unwrap() else { panic!() };
        assert_eq!((bare.data.text(), bare.source), ("{}", Source::Agent));
    }

    #[test]
    fn a_sender_cannot_claim_the_source_of_another_principal() {
        let worker = [Source::Agent, Source::Worker];
        for (claimed, accepted) in
            [("agent", true), ("worker", true), ("user", false), ("guardian", false), ("system", false)]
        {
            let event = format!(r#"{{"event_type":"agent.message_injected","source":"{claimed}"}}"#);
            let batch =
                format!(r#"{{"epoch":1,"batch":1,"events":[{{"event_id":"x","event_type":"a"}},{event}]}}"#);
            for (body, field) in [(event, "source"), (batch, "events[1].source")] {
                let decoded = decode(body.as_bytes(), &worker, || EventId::parse("e").unwrap());
                match decoded {
                    Err(BadInput::Invalid(wrong)) => {
                        assert_eq!((wrong.field.as_str(), accepted), (field, false), "{body}");
                    }
                    decoded => assert!(decoded.is_ok() && accepted, "{body}"),
                }
            }
        }
    }

    #[test]
    fn the_batch_form_keeps_ids_and_order() {
        let Ingest::Batch(batch) = ingest(
            r#"{"epoch":2,"batch":7,"events":[
                {"event_id":"a","event_type":"agent.message","emitted_at":"2026-01-01T00:00:00Z"},
                {"event_type":"agent.heartbeat"},
                {"event_id":"b","event_type":"agent.thinking","source":"worker","event_data":{}}]}"#,
        )
        .unwrap() else {
            panic!("not the batch form")
        };
        assert_eq!(batch.number, Some(BatchNumber { epoch: 2, batch: 7 }));
        let ids: Vec<_> = batch.events.iter().map(|event| event.id.as_str()).collect();
        assert_eq!((ids, batch.ephemeral.len()), (vec!["a", "b"], 1));
    }

    #[test]
    fn the_invalid_field_is_named() {
        for (body, field) in [
            (r#"{}"#, "event_type"),
            (r#"{"event_type":null}"#, "event_type"),
            (r#"{"event_type":7}"#, "event_type"),
            (r#"{"event_type":""}"#, "event_type"),
            (r#"{"event_type":"message.completed"}"#, "event_type"),
            (r#"{"event_type":"a","source":"robot"}"#, "source"),
            (r#"{"event_type":"a","source":null}"#, "source"),
            (r#"{"event_type":"a","event_data":[]}"#, "event_data"),
            (r#"{"event_type":"a","event_data":null}"#, "event_data"),
            (r#"{"event_type":"a","event_id":"a b"}"#, "event_id"),
            (r#"{"event_type":"a","emitted_at":"now"}"#, "emitted_at"),
            (r#"[1]"#, "body"),
            (r#"{"events":[]}"#, "epoch"),
            (r#"{"epoch":1,"events":[]}"#, "batch"),
            (r#"{"epoch":0,"batch":1,"events":[]}"#, "epoch"),
            (r#"{"epoch":1,"batch":1.5,"events":[]}"#, "batch"),
            (r#"{"epoch":1,"batch":1,"events":[]}"#, "events"),
            (r#"{"epoch":1,"batch":1,"events":{}}"#, "events"),
            (r#"{"epoch":1,"batch":1,"events":[{"event_type":"a"},3]}"#, "events[1]"),
            (r#"{"epoch":1,"batch":1,"events":[{"event_type":"a"},{"source":"x"}]}"#, "events[1].event_type"),
            (
                r#"{"epoch":1,"batch":1,"events":[{"event_id":"x","event_type":"a"},{"event_id":"x","event_type":"a"}]}"#,
                "events[1].event_id",
            ),
        ] {
            assert_eq!(rejection(body), ("invalid", field.to_owned()), "{body}");
        }
        for body in ["", "{", "nonsense", r#"{"event_type":"a"} x"#] {
            let (kind, _) = rejection(body);
            assert!(kind == "malformed" || body == "nonsense", "{body}: {kind}");
        }
        assert!(matches!(
            decode(b"{\"event_type\":\"\xff\"}", &Source::ALL, || unreachable!()),
            Err(BadInput::Malformed(_))
        ));
    }

    #[test]
    fn the_field_that_is_too_large_is_named() {
        let long = |name: &str, n: usize| {
            format!(r#"{{"event_type":"{name}","event_data":{{"a":"{}"}}}}"#, "x".repeat(n))
        };
        for (name, max) in [("agent.heartbeat", MAX_HEARTBEAT_BYTES), ("agent.partial", MAX_PARTIAL_BYTES)] {
            let overhead = r#"{"a":""}"#.len();
            assert!(ingest(&long(name, max - overhead)).is_ok(), "{name}");
            assert_eq!(rejection(&long(name, max - overhead + 1)), ("too large", "event_data".to_owned()));
        }
        assert!(ingest(&long("agent.message", MAX_EVENT_BYTES - 100)).is_ok());
        for (name, size) in [("agent.message", MAX_EVENT_BYTES), ("agent.completed", MAX_REPORT_BYTES)] {
            assert_eq!(rejection(&long(name, size)), ("too large", "body".to_owned()), "{name}");
        }
        let batch = format!(
            r#"{{"epoch":1,"batch":1,"events":[{{"event_type":"a","event_data":{{"a":"{}"}}}}]}}"#,
            "x".repeat(MAX_BATCH_BYTES)
        );
        assert_eq!(rejection(&batch), ("too large", "body".to_owned()));
        let many = format!(r#"{{"epoch":1,"batch":1,"events":[{}1]}}"#, "1,".repeat(MAX_BATCH_EVENTS));
        assert_eq!(rejection(&many), ("invalid", "events".to_owned()));
    }

    #[test]
    fn a_final_report_that_is_too_large_keeps_its_small_fields() {
        let transcript = "x".repeat(2 * MAX_EVENT_BYTES);
        for name in ["agent.completed", "agent.failed", "SANDBOX_continuous.completed"] {
            let body = format!(
                r#"{{"event_type":"{name}","event_data":{{"turns":3,"transcript_b64":"{transcript}","pr_url":"u"}}}}"#
            );
            let Ok(Ingest::Single(event)) = ingest(&body) else { panic!("{name}") };
            let expected = r#"{"turns":3,"pr_url":"u","truncated":["transcript_b64"]}"#;
            assert_eq!(event.data.text(), expected, "{name}");
        }
        // There is no field to drop.
        let padded = format!(r#"{{"event_type":"agent.completed"{}}}"#, " ".repeat(MAX_EVENT_BYTES));
        assert!(matches!(ingest(&padded), Ok(Ingest::Single(event)) if event.data.text() == "{}"));
    }

    #[test]
    fn the_digest_depends_on_events_and_not_on_their_serialization() {
        let digest = |events: &str| match ingest(&format!(r#"{{"epoch":1,"batch":1,"events":[{events}]}}"#)) {
            Ok(Ingest::Batch(batch)) => batch.digest,
            other => panic!("{other:?}"),
        };
        let first = digest(r#"{"event_id":"a","event_type":"x","event_data":{"p":1,"q":2}}"#);
        assert_eq!(first, digest(r#"{"event_data":{"q":2, "p":1},"event_type":"x","event_id":"a"}"#));
        assert_ne!(first, digest(r#"{"event_id":"b","event_type":"x"}"#));
        let without_ids = r#"{"event_type":"x"},{"event_type":"y"}"#;
        assert_eq!(digest(without_ids), digest(without_ids), "a retry without ids");
        let other = r#"{"event_type":"x","event_data":{"n":2}},{"event_type":"y"}"#;
        assert_ne!(digest(without_ids), digest(other), "without ids the data counts");
    }
}
