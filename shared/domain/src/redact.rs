//! Redaction of secrets in events, transcripts and logs.

use crate::url::percent_encoded;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Shorter values are not redacted: they would match ordinary words.
pub const MIN_SECRET_BYTES: usize = 8;

/// Replaces an entry that cannot be searched for secrets.
const UNREADABLE: &str = r#"{"type":"unreadable"}"#;

/// Values to redact. Each is found literally, in JSON nested in JSON, in URLs, and in base64, also with a prefix as in
/// `base64("user:" + secret)`.
///
/// **Invariant:** redacted JSON is still JSON.
#[derive(Clone, Default)]
pub struct Secrets {
    table: Option<Arc<Table>>,
}

struct Table {
    forms: Vec<Form>,
    /// Whether a form begins with these two bytes: one lookup per byte of text, however many forms there are.
    begins: Vec<bool>,
}

struct Form {
    text: String,
    replacement: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.table.as_ref().map_or(0, |table| table.forms.len());
        f.debug_struct("Secrets").field("forms", &forms).finish()
    }
}

impl Secrets {
    /// Takes names and values. Values below [`MIN_SECRET_BYTES`] are ignored.
    pub fn new(secrets: Vec<(String, String)>) -> Self {
        let mut forms = Vec::new();
        for (name, value) in &secrets {
            // The value may be printed without its trailing newline.
            let value = value.trim();
            if value.len() < MIN_SECRET_BYTES {
                continue;
            }
            // The name is inserted into JSON strings, so it must not need escaping.
            let name: String =
                name.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect();
            let replacement = format!("[redacted {name}]");
            for text in encodings(value) {
                forms.push(Form { text, replacement: replacement.clone() });
            }
        }
        // Longest first, so that the longer of two matches at the same position wins.
        forms.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        forms.dedup_by(|a, b| a.text == b.text);
        if forms.is_empty() {
            return Self::default();
        }
        let mut begins = vec![false; 1 << 16];
        for form in &forms {
            let bytes = form.text.as_bytes();
            begins[pair(bytes[0], bytes[1])] = true;
        }
        Self { table: Some(Arc::new(Table { forms, begins })) }
    }

    /// The text with secrets replaced; `None` if it has none.
    pub fn redact(&self, text: &str) -> Option<String> {
        self.replace(text, |form| form.replacement.clone())
    }

    /// The text with each character of a secret replaced by `*`, so that its length stays; `None` if it has no secrets.
    pub fn mask(&self, text: &str) -> Option<String> {
        self.replace(text, |form| "*".repeat(form.text.chars().count()))
    }

    /// The part of a streamed text that is safe to show: the end may be the beginning of a secret.
    pub fn safe_prefix<'a>(&self, text: &'a str) -> &'a str {
        let Some(table) = &self.table else { return text };
        let mut held = 0;
        for form in &table.forms {
            let longest = (form.text.len() - 1).min(text.len());
            let found = (1..=longest).rev().find(|&length| {
                form.text.is_char_boundary(length)
                    && text.as_bytes().ends_with(&form.text.as_bytes()[..length])
            });
            held = held.max(found.unwrap_or(0));
        }
        &text[..text.len() - held]
    }

    /// Redacts keys and values at all levels. Returns whether anything changed.
    pub fn redact_map(&self, data: &mut Map<String, Value>) -> bool {
        if self.table.is_none() {
            return false;
        }
        let mut changed = false;
        for value in data.values_mut() {
            changed |= self.redact_value(value);
        }
        if data.keys().any(|key| self.redact(key).is_some()) {
            changed = true;
            let fields = std::mem::take(data).into_iter();
            *data = fields.map(|(key, value)| (self.redact(&key).unwrap_or(key), value)).collect();
        }
        changed
    }

    /// Redacts JSON text. Text without secrets stays the same, byte for byte.
    pub fn redact_raw(&self, raw: Box<RawValue>) -> Box<RawValue> {
        let Some(table) = &self.table else { return raw };
        let text = raw.get();
        // Escapes that JSON allows but does not require hide a secret until the text is parsed.
        let plain = !text.contains("\\u") && !text.contains("\\/");
        if plain && table.find(text, 0).is_none() {
            return raw;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(text) else {
            // Nested too deeply, or numbers out of range: it may contain a secret, and the plane would reject it anyway.
            return RawValue::from_string(UNREADABLE.to_owned()).expect("the constant is JSON");
        };
        if !self.redact_value(&mut value) {
            return raw;
        }
        serde_json::value::to_raw_value(&value).unwrap_or(raw)
    }

    fn redact_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.redact(text) {
                Some(redacted) => {
                    *text = redacted;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                let mut changed = false;
                for item in items {
                    changed |= self.redact_value(item);
                }
                changed
            }
            Value::Object(fields) => self.redact_map(fields),
            _ => false,
        }
    }

    fn replace(&self, text: &str, replacement: impl Fn(&Form) -> String) -> Option<String> {
        let table = self.table.as_ref()?;
        let mut found = table.find(text, 0)?;
        let mut redacted = String::with_capacity(text.len());
        let mut from = 0;
        loop {
            let (at, form) = found;
            redacted.push_str(&text[from..at]);
            redacted.push_str(&replacement(form));
            from = at + form.text.len();
            match table.find(text, from) {
                Some(next) => found = next,
                None => break,
            }
        }
        redacted.push_str(&text[from..]);
        Some(redacted)
    }
}

impl Table {
    fn find(&self, text: &str, from: usize) -> Option<(usize, &Form)> {
        let bytes = text.as_bytes();
        let begins = |window: &[u8]| self.begins[pair(window[0], window[1])];
        let mut at = from;
        while let Some(offset) = bytes[at..].windows(2).position(begins) {
            at += offset;
            let found = self.forms.iter().find(|form| bytes[at..].starts_with(form.text.as_bytes()));
            if let Some(form) = found {
                return Some((at, form));
            }
            at += 1;
        }
        None
    }
}

fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

fn encodings(value: &str) -> Vec<String> {
    let mut encodings = vec![value.to_owned()];
    let mut escaped = value.to_owned();
    // JSON, JSON in JSON, and one more level, as in transcripts.
    for _ in 0..3 {
        let quoted = Value::String(escaped).to_string();
        escaped = quoted[1..quoted.len() - 1].to_owned();
        encodings.push(escaped.clone());
    }
    encodings.push(percent_encoded(value));
    for before in 0..3 {
        let bytes = [&[0; 2][..before], value.as_bytes()].concat();
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&bytes);
            // Omit the digits that also depend on the bytes before or after.
            let first = (before * 8).div_ceil(6);
            let last = bytes.len() * 8 / 6;
            encodings.push(encoded[first..last].to_owned());
        }
    }
    encodings.retain(|encoding| encoding.len() >= MIN_SECRET_BYTES);
    encodings.dedup();
    encodings
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn secrets() -> Secrets {
        Secrets::new(vec![
            ("GITHUB_TOKEN".into(), "ghp_planted/0123456789".into()),
            ("KEY".into(), "line one\nline \"two\"\\".into()),
            ("SHORT".into(), "abc".into()),
        ])
    }

    #[test]
    fn a_secret_is_found_in_every_encoding() {
        let secrets = secrets();
        let token = "ghp_planted/0123456789";
        let key = "line one\nline \"two\"\\";
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
        for text in [
            format!("url https://x:{token}@host"),
            key.to_owned(),
            json!({"inner": key}).to_string(),
            json!({"inner": json!({"deeper": key}).to_string()}).to_string(),
            format!("Authorization: Basic {basic}"),
            STANDARD_NO_PAD.encode(token),
            "https://host?token=ghp_planted%2F0123456789".to_owned(),
            URL_SAFE_NO_PAD.encode(format!("a{token}")),
        ] {
            let redacted = secrets.redact(&text).unwrap_or_else(|| panic!("{text}"));
            assert!(redacted.contains("[redacted "), "{redacted}");
            assert!(!redacted.contains("planted") && !redacted.contains("line one"), "{redacted}");
        }
        assert_eq!(secrets.redact("abc and other words"), None);
        assert!(!format!("{secrets:?}").contains("planted"));
    }

    #[test]
    fn redacted_json_stays_json_and_clean_json_is_unchanged() {
        let secrets = secrets();
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let clean = r#"{ "b":1.0, "a":"\u00e9" }"#;
        assert_eq!(secrets.redact_raw(raw(clean)).get(), clean);
        for text in [
            r#"{"a":"ghp_planted\/0123456789"}"#,
            r#"{"a":"\u0067hp_planted/0123456789"}"#,
            r#"{"ghp_planted/0123456789":[["x ghp_planted/0123456789"]]}"#,
            r#"{"a":"{\"k\":\"line one\\nline \\\"two\\\"\\\\\"}"}"#,
        ] {
            let redacted = secrets.redact_raw(raw(text));
            assert!(
                !redacted.get().contains("planted") && !redacted.get().contains("line one"),
                "{redacted}"
            );
            assert!(serde_json::from_str::<Value>(redacted.get()).is_ok(), "{redacted}");
        }
    }

    #[test]
    fn an_unparsable_entry_is_replaced() {
        let deep = format!("{}\"ghp_planted/0123456789\"{}", "[".repeat(200), "]".repeat(200));
        for text in [deep, r#"{"a":"ghp_planted\/0123456789","b":1e999}"#.to_owned()] {
            let redacted = secrets().redact_raw(RawValue::from_string(text).unwrap());
            assert_eq!(redacted.get(), UNREADABLE);
        }
        let padded = Secrets::new(vec![("P".into(), "planted-secret\n".into())]);
        assert_eq!(padded.redact("a planted-secret b").unwrap(), "a [redacted P] b");
    }

    #[test]
    fn streamed_text_holds_back_the_beginning_of_a_secret() {
        let secrets = secrets();
        assert_eq!(secrets.safe_prefix("the token is ghp_plan"), "the token is ");
        assert_eq!(secrets.safe_prefix("the token is g"), "the token is ");
        assert_eq!(secrets.safe_prefix("nothing here!"), "nothing here!");
        let text = "a ghp_planted/0123456789 b";
        assert_eq!(secrets.mask(text).unwrap().chars().count(), text.chars().count());
    }

    proptest! {
        #[test]
        fn a_planted_secret_never_survives(before in ".{0,40}", after in ".{0,40}", value in "[!-~]{12,40}", depth in 0..3) {
            let secrets = Secrets::new(vec![("S".into(), value.clone())]);
            let mut text = format!("{before}{value}{after}");
            for _ in 0..depth {
                text = json!({"x": text}).to_string();
            }
            let mut data = Map::new();
            data.insert("text".into(), Value::String(text.clone()));
            prop_assert!(secrets.redact_map(&mut data));
            let redacted_text = Value::Object(data).to_string();
            prop_assert!(!redacted_text.contains(&value) || "[redacted S]".contains(&value));
            let raw = RawValue::from_string(Value::String(text).to_string()).unwrap();
            let redacted = secrets.redact_raw(raw);
            prop_assert!(serde_json::from_str::<Value>(redacted.get()).is_ok());
            prop_assert!(redacted.get().contains("[redacted S]"));
        }
    }
}
