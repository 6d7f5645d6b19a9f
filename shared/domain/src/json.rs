//! A JSON object kept as the text its sender wrote.
//!
//! Events pass through the plane without being rebuilt: a number too long for a double, the order of the
//! fields and the spelling of a string arrive as they were sent.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;

/// Deepest nesting accepted. Agents send four or five levels; parsers that recurse give up somewhere past 100.
pub const MAX_DEPTH: usize = 64;

/// One JSON object, unparsed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    /// `{}`.
    pub fn empty() -> Self {
        Self::from_text("{}".into())
    }

    /// Takes a value if it is an object of a sane depth; otherwise says what it should have been.
    ///
    /// Half of a surrogate pair (`\ud83d` of an emoji that somebody cut in two) is no text: most parsers refuse the
    /// whole document for it. It becomes the replacement character, and the rest of the event is kept.
    pub fn parse(raw: &RawValue) -> Result<Self, String> {
        if !raw.get().starts_with('{') {
            return Err("must be an object".into());
        }
        let scan = scan(raw.get());
        if scan.depth > MAX_DEPTH {
            return Err(format!("must not be nested deeper than {MAX_DEPTH} levels"));
        }
        if scan.halves.is_empty() {
            return Ok(Self(raw.to_owned()));
        }
        let mut text = raw.get().to_owned();
        for at in scan.halves {
            text.replace_range(at..at + 6, "\\ufffd");
        }
        Ok(Self::from_text(text))
    }

    /// Any serialisable map or struct as an object.
    pub fn of(value: &impl Serialize) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("our own structs serialise to JSON"))
    }

    /// The text, as it was sent.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The top-level fields in the sender's order. Of a repeated name the last one counts, as in browsers.
    pub fn fields(&self) -> Vec<(String, &RawValue)> {
        let Fields(fields) = serde_json::from_str(self.text()).expect("a JsonObject holds an object");
        fields
    }

    /// One top-level string field.
    pub fn string(&self, name: &str) -> Option<String> {
        let fields = self.fields();
        let (_, raw) = fields.iter().find(|(field, _)| field == name)?;
        serde_json::from_str(raw.get()).ok()
    }

    /// An object made of these fields, in this order.
    pub fn from_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a RawValue)>) -> Self {
        let mut text = String::from("{");
        for (name, raw) in fields {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(name).expect("a string serialises"));
            text.push(':');
            text.push_str(raw.get());
        }
        text.push('}');
        Self::from_text(text)
    }

    /// This object with `overlay` laid over it: fields of the same name are replaced, or left out where the overlay
    /// has no value; others are added at the end.
    #[must_use]
    pub fn overlaid(&self, overlay: &[(&str, Option<Box<RawValue>>)]) -> Self {
        let fields = self.fields();
        let kept = fields.iter().filter(|(name, _)| overlay.iter().all(|(over, _)| over != name));
        let laid = overlay.iter().filter_map(|(name, raw)| Some((*name, raw.as_deref()?)));
        Self::from_fields(kept.map(|(name, raw)| (name.as_str(), *raw)).chain(laid))
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

/// An object as a string of JSON, for formats that are not JSON: there it cannot be kept as the text that it is.
pub mod as_text {
    use super::JsonObject;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    /// Writes its text.
    pub fn serialize<S: Serializer>(object: &Option<JsonObject>, serializer: S) -> Result<S::Ok, S::Error> {
        object.as_ref().map(JsonObject::text).serialize(serializer)
    }

    /// Reads what was written above.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonObject>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let raw = RawValue::from_string(text).map_err(serde::de::Error::custom)?;
        JsonObject::parse(&raw).map(Some).map_err(serde::de::Error::custom)
    }
}

/// What `serde_json` does not look at when it keeps a value raw.
struct Scan {
    /// How deep the brackets go.
    depth: usize,
    /// Where escapes stand that are half of a surrogate pair.
    halves: Vec<usize>,
}

/// Looks once at every byte of a valid JSON text.
fn scan(text: &str) -> Scan {
    let bytes = text.as_bytes();
    let mut found = Scan { depth: 0, halves: Vec::new() };
    let (mut depth, mut in_string, mut at) = (0usize, false, 0);
    while at < bytes.len() {
        let mut step = 1;
        match bytes[at] {
            b'\\' if in_string => {
                step = 2;
                match escaped_unit(bytes, at) {
                    Some(0xd800..=0xdbff) => match escaped_unit(bytes, at + 6) {
                        Some(0xdc00..=0xdfff) => step = 12,
                        _ => found.halves.push(at),
                    },
                    Some(0xdc00..=0xdfff) => found.halves.push(at),
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

/// The UTF-16 unit of an escape `\uXXXX` at this place, if there is one.
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
                // An index beside the list: an object may have tens of thousands of fields.
                let mut places: HashMap<String, usize> = HashMap::new();
                while let Some((name, raw)) = map.next_entry::<String, &'de RawValue>()? {
                    match places.get(&name) {
                        Some(&place) => fields[place].1 = raw,
                        None => {
                            places.insert(name.clone(), fields.len());
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
    fn an_overlay_replaces_and_adds() {
        let laid = object(r#"{"a":1,"source":"x","b":[2]}"#)
            .overlaid(&[("source", Some(RawValue::from_string("\"agent\"".into()).unwrap())), ("b", None)]);
        assert_eq!(laid.text(), r#"{"a":1,"source":"agent"}"#);
    }

    #[test]
    fn only_objects_of_a_sane_depth_are_taken() {
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
    fn half_of_a_surrogate_pair_is_replaced_and_the_rest_is_kept() {
        for (sent, kept) in [
            (r#"{"\ud800":1}"#, r#"{"\ufffd":1}"#),
            (r#"{"a":["x\uDC00y",{"b":"\ud83dz"}]}"#, r#"{"a":["x\ufffdy",{"b":"\ufffdz"}]}"#),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffd\ud83d\ude00"}"#),
            (r#"{"a":"\ud83d\ude00 \\ud800"}"#, r#"{"a":"\ud83d\ude00 \\ud800"}"#),
        ] {
            let taken = object(sent);
            assert_eq!(taken.text(), kept);
            assert_eq!(taken.fields().len(), 1);
            assert!(serde_json::from_str::<serde_json::Value>(taken.text()).is_ok(), "{sent}");
        }
    }

    proptest::proptest! {
        /// Whatever JSON comes in, every later step can read it.
        #[test]
        fn what_is_taken_can_be_read(text in r#"\{"(\\u[dD][89a-fA-F][0-9]{2}|\\\\|\\"|[a-z\[{])*":"(\\u[dD][89a-fA-F][0-9]{2}|\\\\|\\u00e9|[a-z])*"\}"#) {
            if let Ok(raw) = RawValue::from_string(text) {
                let taken = JsonObject::parse(&raw).unwrap();
                proptest::prop_assert_eq!(taken.fields().len(), 1);
                proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(taken.text()).is_ok());
            }
        }
    }

    #[test]
    fn of_a_repeated_field_the_last_counts() {
        assert_eq!(object(r#"{"a":"1","a":"2"}"#).string("a").as_deref(), Some("2"));
    }
}
