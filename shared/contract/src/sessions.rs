//! `…/sessions/{session_id}/entries`: the transcript of an agent's session, which another sandbox can resume.

use crate::bad_input::BadInput;
use crate::ingest::{counting_number, present};
use crate::limits::MAX_ENTRIES;
use domain::{Invalid, JsonObject, SandboxId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `POST …/entries`: entries to append.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries {
    /// Number of the first entry.
    pub first: u64,
    pub entries: Vec<JsonObject>,
}

impl Entries {
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        let wire: &RawValue = serde_json::from_slice(body)
            .map_err(|e| BadInput::Malformed(format!("The body is not valid JSON: {e}.")))?;
        if !wire.get().starts_with('{') {
            return Err(BadInput::invalid("body", "must be a JSON object"));
        }
        let wire: Wire<'_> = serde_json::from_str(wire.get())
            .map_err(|e| BadInput::Malformed(format!("The body is invalid: {e}.")))?;
        let first = counting_number("first", wire.first)?;
        let entries = wire.entries.ok_or_else(|| BadInput::invalid("entries", "is missing"))?;
        let entries: Vec<&RawValue> = serde_json::from_str(entries.get())
            .map_err(|_| BadInput::invalid("entries", "must be a list of entries"))?;
        if !(1..=MAX_ENTRIES).contains(&entries.len()) {
            return Err(BadInput::invalid("entries", format!("must contain 1 to {MAX_ENTRIES} entries")));
        }
        let entries = entries.iter().enumerate().map(|(index, raw)| {
            JsonObject::parse(raw).map_err(|reason| Invalid::new(format!("entries[{index}]"), reason).into())
        });
        Ok(Self { first, entries: entries.collect::<Result<_, BadInput>>()? })
    }
}

/// Values stay raw so that each error can name its field.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    first: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    entries: Option<&'a RawValue>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntriesStored {
    /// Always `stored`.
    pub status: String,
    pub session_id: SessionId,
    pub first: u64,
    pub entries: u64,
    /// Number of the next entry.
    pub next: u64,
    /// Whether all entries were stored before. The rest is then the original response.
    pub repeated: bool,
}

/// `GET …/entries`: a page, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntryPage {
    pub session_id: SessionId,
    /// The sandbox that appends to the session now.
    pub sandbox_id: SandboxId,
    pub entries: Vec<JsonObject>,
    /// Send it as `after` for the next page: the number of the last entry here.
    pub next_after: u64,
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_unchanged_and_the_invalid_field_is_named() {
        let body = br#" {"first":7,"entries":[{"type":"user", "n":1.0},{}],"extra":1} "#;
        let read = Entries::decode(body).unwrap();
        let texts: Vec<&str> = read.entries.iter().map(JsonObject::text).collect();
        assert_eq!((read.first, texts), (7, vec![r#"{"type":"user", "n":1.0}"#, "{}"]));
        let many = format!(r#"{{"first":1,"entries":[{}{{}}]}}"#, "{},".repeat(MAX_ENTRIES));
        let deep = format!(r#"{{"first":1,"entries":[{{"a":{}1{}}}]}}"#, "[".repeat(80), "]".repeat(80));
        for (body, field) in [
            ("[]", "body"),
            ("7", "body"),
            ("{}", "first"),
            (r#"{"first":0,"entries":[{}]}"#, "first"),
            (r#"{"first":1.5,"entries":[{}]}"#, "first"),
            (r#"{"first":null,"entries":[{}]}"#, "first"),
            (r#"{"first":1}"#, "entries"),
            (r#"{"first":1,"entries":null}"#, "entries"),
            (r#"{"first":1,"entries":{}}"#, "entries"),
            (r#"{"first":1,"entries":[]}"#, "entries"),
            (r#"{"first":1,"entries":[{},3]}"#, "entries[1]"),
            (&many, "entries"),
            (&deep, "entries[0]"),
        ] {
            match Entries::decode(body.as_bytes()) {
                Err(BadInput::Invalid(wrong)) => assert_eq!(wrong.field, field, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
        for body in [&b""[..], b"{", b"{\"first\":\"\xff\"}"] {
            assert!(matches!(Entries::decode(body), Err(BadInput::Malformed(_))));
        }
    }
}
