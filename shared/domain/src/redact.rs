//! Secrets, and how they are kept out of what is told.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Shorter values are not looked for: they would be found in words that are no secrets.
pub const SHORTEST_SECRET: usize = 8;

/// What stands for an entry that cannot be looked through.
const UNREADABLE: &str = r#"{"type":"unreadable"}"#;

/// What must not be told. Found as it is, in JSON within JSON, and in base64, there also behind something else, as in
/// `base64("user:" + secret)`.
///
/// **Invariant:** whatever was JSON before is JSON afterwards.
#[derive(Clone, Default)]
pub struct Secrets {
    table: Option<Arc<Table>>,
}

struct Table {
    forms: Vec<Form>,
    /// Whether a form begins with these two bytes: one look for each byte of a text, however many forms there are.
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
    /// Names and values. Values below [`SHORTEST_SECRET`] bytes are left alone.
    pub fn new(secrets: Vec<(String, String)>) -> Self {
        let mut forms = Vec::new();
        for (name, value) in &secrets {
            // Whoever prints it may leave out a line end that came with it.
            let value = value.trim();
            if value.len() < SHORTEST_SECRET {
                continue;
            }
            // The name stands inside of JSON strings: it must need no escapes there.
            let name: String =
                name.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect();
            let replacement = format!("[redacted {name}]");
            for text in spellings(value) {
                forms.push(Form { text, replacement: replacement.clone() });
            }
        }
        // Of two that begin at the same place the longer one is the whole.
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

    /// The text without secrets, if it had any.
    pub fn redact(&self, text: &str) -> Option<String> {
        self.replace(text, |form| form.replacement.clone())
    }

    /// The text with a star for each character of a secret, if it had any: it stays as long as it was.
    pub fn mask(&self, text: &str) -> Option<String> {
        self.replace(text, |form| "*".repeat(form.text.chars().count()))
    }

    /// How much of a text can be shown before the rest is known: its end may be the beginning of a secret.
    pub fn certain<'a>(&self, text: &'a str) -> &'a str {
        let Some(table) = &self.table else { return text };
        let mut held = 0;
        for form in &table.forms {
            let most = (form.text.len() - 1).min(text.len());
            let found = (1..=most).rev().find(|&length| {
                form.text.is_char_boundary(length)
                    && text.as_bytes().ends_with(&form.text.as_bytes()[..length])
            });
            held = held.max(found.unwrap_or(0));
        }
        &text[..text.len() - held]
    }

    /// Everything in an event's data.
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
            let named = std::mem::take(data).into_iter();
            *data = named.map(|(key, value)| (self.redact(&key).unwrap_or(key), value)).collect();
        }
        changed
    }

    /// A piece of JSON as text. One without secrets stays as it is, to the byte.
    pub fn redact_raw(&self, raw: Box<RawValue>) -> Box<RawValue> {
        let Some(table) = &self.table else { return raw };
        let text = raw.get();
        // What JSON may spell in two ways is only seen once it is read.
        let plain = !text.contains("\\u") && !text.contains("\\/");
        if plain && table.find(text, 0).is_none() {
            return raw;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(text) else {
            // Too deep or too odd to be looked through, and there may be something in it: nobody would take it anyway.
            return RawValue::from_string(UNREADABLE.to_owned()).expect("it is JSON");
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
        while let Some(further) = bytes[at..].windows(2).position(begins) {
            at += further;
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

fn spellings(value: &str) -> Vec<String> {
    let mut spellings = vec![value.to_owned()];
    let mut escaped = value.to_owned();
    // JSON, JSON in JSON, and once more, as transcripts hold it.
    for _ in 0..3 {
        let quoted = Value::String(escaped).to_string();
        escaped = quoted[1..quoted.len() - 1].to_owned();
        spellings.push(escaped.clone());
    }
    spellings.push(in_url(value));
    for before in 0..3 {
        let bytes = [&[0; 2][..before], value.as_bytes()].concat();
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&bytes);
            // Digits that also depend on what stands before or after are left out.
            let first = (before * 8).div_ceil(6);
            let last = bytes.len() * 8 / 6;
            spellings.push(encoded[first..last].to_owned());
        }
    }
    spellings.retain(|spelling| spelling.len() >= SHORTEST_SECRET);
    spellings.dedup();
    spellings
}

/// As a URL or a form holds it.
fn in_url(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encode).collect()
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
    fn a_secret_is_found_in_every_spelling() {
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
    fn a_transcript_stays_json_and_one_without_secrets_stays_as_it_is() {
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
    fn an_entry_that_cannot_be_looked_through_is_not_kept_with_its_secret() {
        let deep = format!("{}\"ghp_planted/0123456789\"{}", "[".repeat(200), "]".repeat(200));
        for text in [deep, r#"{"a":"ghp_planted\/0123456789","b":1e999}"#.to_owned()] {
            let redacted = secrets().redact_raw(RawValue::from_string(text).unwrap());
            assert_eq!(redacted.get(), UNREADABLE);
        }
        let padded = Secrets::new(vec![("P".into(), "planted-secret\n".into())]);
        assert_eq!(padded.redact("a planted-secret b").unwrap(), "a [redacted P] b");
    }

    #[test]
    fn live_text_holds_back_what_may_become_a_secret_and_keeps_its_length() {
        let secrets = secrets();
        assert_eq!(secrets.certain("the token is ghp_plan"), "the token is ");
        assert_eq!(secrets.certain("the token is g"), "the token is ");
        assert_eq!(secrets.certain("nothing here!"), "nothing here!");
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
            let told = Value::Object(data).to_string();
            prop_assert!(!told.contains(&value) || "[redacted S]".contains(&value));
            let raw = RawValue::from_string(Value::String(text).to_string()).unwrap();
            let redacted = secrets.redact_raw(raw);
            prop_assert!(serde_json::from_str::<Value>(redacted.get()).is_ok());
            prop_assert!(redacted.get().contains("[redacted S]"));
        }
    }
}
