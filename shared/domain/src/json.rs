//! A JSON object that is kept as the text that was sent.
//!
//! Events pass through the plane without being serialized again: numbers too long for a double, the order of fields and
//! the escapes in strings stay as they were.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// Maximum nesting. Agents send four or five levels; recursive parsers fail at some depth beyond 100.
pub const MAX_DEPTH: usize = 64;

/// One JSON object, unparsed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonSchema for JsonObject {
    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "description": "Any JSON object, as it was sent." })
    }
}

impl JsonObject {
    /// `{}`.
    pub fn empty() -> Self {
        Self::from_text("{}".into())
    }

    /// Accepts an object up to [`MAX_DEPTH`]; otherwise returns the reason for the rejection.
    ///
    /// A lone surrogate (`\ud83d` of an emoji that was cut in two) is not valid Unicode, and most parsers reject the whole
    /// document for it. It is replaced by U+FFFD, so that the rest of the event is kept.
    pub fn parse(raw: &RawValue) -> Result<Self, String> {
        if !raw.get().starts_with('{') {
            return Err("must be an object".into());
        }
        let scan = scan(raw.get());
        if scan.depth > MAX_DEPTH {
            return Err(format!("must not be nested deeper than {MAX_DEPTH} levels"));
        }
        if scan.lone_surrogates.is_empty() {
            return Ok(Self(raw.to_owned()));
        }
        let mut text = raw.get().to_owned();
        for at in scan.lone_surrogates {
            text.replace_range(at..at + 6, "\\ufffd");
        }
        Ok(Self::from_text(text))
    }

    /// Serializes a map or a struct.
    pub fn of(value: &impl Serialize) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("our own structs serialize to JSON"))
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The top-level fields in the order that was sent. The last of duplicate names counts, as in browsers.
    pub fn fields(&self) -> Vec<(String, &RawValue)> {
        let Fields(fields) = serde_json::from_str(self.text()).expect("a JsonObject holds an object");
        fields
    }

    /// A top-level string field.
    pub fn string(&self, name: &str) -> Option<String> {
        let fields = self.fields();
        let (_, raw) = fields.iter().find(|(field, _)| field == name)?;
        serde_json::from_str(raw.get()).ok()
    }

    pub fn from_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a RawValue)>) -> Self {
        let mut text = String::from("{");
        for (name, raw) in fields {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(name).expect("a string serializes"));
            text.push(':');
            text.push_str(raw.get());
        }
        text.push('}');
        Self::from_text(text)
    }

    /// A copy with these fields set: a field of the same name is replaced, or removed if the new value is `None`; others
    /// are appended.
    #[must_use]
    pub fn with_fields(&self, changes: &[(&str, Option<Box<RawValue>>)]) -> Self {
        let fields = self.fields();
        let kept = fields.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        let new = changes.iter().filter_map(|(name, raw)| Some((*name, raw.as_deref()?)));
        Self::from_fields(kept.map(|(name, raw)| (name.as_str(), *raw)).chain(new))
    }

    fn from_text(text: String) -> Self {
        Self(RawValue::from_string(text).expect("built from valid JSON parts"))
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

/// Serializes an object as a string of JSON, for formats other than JSON, which do not support raw values.
pub mod as_text {
    use super::JsonObject;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    pub fn serialize<S: Serializer>(object: &Option<JsonObject>, serializer: S) -> Result<S::Ok, S::Error> {
        object.as_ref().map(JsonObject::text).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonObject>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let raw = RawValue::from_string(text).map_err(serde::de::Error::custom)?;
        JsonObject::parse(&raw).map(Some).map_err(serde::de::Error::custom)
    }
}

/// Properties that `serde_json` does not check when it keeps a value raw.
struct Scan {
    depth: usize,
    /// Byte positions of the escapes of lone surrogates.
    lone_surrogates: Vec<usize>,
}

/// Scans a valid JSON text in one pass.
fn scan(text: &str) -> Scan {
    let bytes = text.as_bytes();
    let mut found = Scan { depth: 0, lone_surrogates: Vec::new() };
    let (mut depth, mut in_string, mut at) = (0usize, false, 0);
    while at < bytes.len() {
        let mut step = 1;
        match bytes[at] {
            b'\\' if in_string => {
                step = 2;
                match escaped_unit(bytes, at) {
                    Some(0xd800..=0xdbff) => match escaped_unit(bytes, at + 6) {
                        Some(0xdc00..=0xdfff) => step = 12,
                        _ => found.lone_surrogates.push(at),
                    },
                    Some(0xdc00..=0xdfff) => found.lone_surrogates.push(at),
                    _ => {}
                }
            }
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                found.depth = found.depth.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += step;
    }
    found
}

/// The UTF-16 unit of an escape `\uXXXX` at this position, if there is one.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
                // An index, because an object may have tens of thousands of fields.
                let mut positions: HashMap<String, usize> = HashMap::new();
                while let Some((name, raw)) = map.next_entry::<String, &'de RawValue>()? {
                    match positions.get(&name) {
                        Some(&position) => fields[position].1 = raw,
                        None => {
                            positions.insert(name.clone(), fields.len());
                            fields.push((name, raw));
                        }
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> JsonObject {
        JsonObject::parse(&RawValue::from_string(text.into()).unwrap()).unwrap()
    }

    #[test]
    fn text_passes_through_unchanged() {
        let text = r#"{"z":1.000000000000000000001,"a":"\u00e9","n":123456789012345678901234567890}"#;
        assert_eq!(object(text).text(), text);
    }

    #[test]
    fn with_fields_replaces_and_removes() {
        let changed = object(r#"{"a":1,"source":"x","b":[2]}"#).with_fields(&[
            ("source", Some(RawValue::from_string("\"agent\"".into()).unwrap())),
            ("b", None),
        ]);
        assert_eq!(changed.text(), r#"{"a":1,"source":"agent"}"#);
    }

    #[test]
    fn only_objects_up_to_the_maximum_depth_are_accepted() {
        for bad in ["[]", "1", "null", "\"{}\""] {
            assert!(JsonObject::parse(&RawValue::from_string(bad.into()).unwrap()).is_err(), "{bad}");
        }
        let nested = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(
            JsonObject::parse(&RawValue::from_string(nested(MAX_DEPTH)).unwrap())
                .unwrap_err()
                .contains("deeper")
        );
        object(&nested(MAX_DEPTH - 1));
        object(r#"{"brackets in strings do not count":"[[[[\"[[[["}"#);
    }

    #[test]
    fn a_lone_surrogate_is_replaced() {
        for (sent, kept) in [
            (r#"{"\ud800":1}"#, r#"{"\ufffd":1}"#),
            (r#"{"a":["x\uDC00y",{"b":"\ud83dz"}]}"#, r#"{"a":["x\ufffdy",{"b":"\ufffdz"}]}"#),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffd\ud83d\ude00"}"#),
            (r#"{"a":"\ud83d\ude00 \\ud800"}"#, r#"{"a":"\ud83d\ude00 \\ud800"}"#),
        ] {
            let accepted = object(sent);
            assert_eq!(accepted.text(), kept);
            assert_eq!(accepted.fields().len(), 1);
            assert!(serde_json::from_str::<serde_json::Value>(accepted.text()).is_ok(), "{sent}");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_json_can_be_parsed(text in r#"\{"(\\u[dD][89a-fA-F][0-9]{2}|\\\\|\\"|[a-z\[{])*":"(\\u[dD][89a-fA-F][0-9]{2}|\\\\|\\u00e9|[a-z])*"\}"#) {
            if let Ok(raw) = RawValue::from_string(text) {
                let accepted = JsonObject::parse(&raw).unwrap();
                proptest::prop_assert_eq!(accepted.fields().len(), 1);
                proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(accepted.text()).is_ok());
            }
        }
    }

    #[test]
    fn the_last_of_duplicate_fields_counts() {
        assert_eq!(object(r#"{"a":"1","a":"2"}"#).string("a").as_deref(), Some("2"));
    }
}
