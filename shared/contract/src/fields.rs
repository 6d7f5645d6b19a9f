//! The fields of a body, read one by one, so that each complaint names its field.

use crate::bad_input::BadInput;
use domain::{Invalid, JsonObject, Timestamp};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A required field.
pub fn required<T>(field: &str, value: Option<T>) -> Result<T, BadInput> {
    value.ok_or_else(|| BadInput::invalid(field, "is missing"))
}

/// A JSON object. `null` counts as absent, and what nobody asks for is ignored.
#[derive(Debug, Clone, Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a body; an empty one has no fields.
    pub fn decode(body: &[u8]) -> Result<Self, BadInput> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        let value: Value = serde_json::from_slice(body)
            .map_err(|e| BadInput::Malformed(format!("The body is not valid JSON: {e}.")))?;
        match value {
            Value::Object(object) => Ok(Self(object)),
            _ => Err(BadInput::invalid("body", "must be a JSON object")),
        }
    }

    /// Any text.
    pub fn text(&self, field: &str) -> Result<Option<&str>, BadInput> {
        match self.present(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(BadInput::invalid(field, "must be a string")),
        }
    }

    /// One line of text, without what surrounds it. Counted in characters.
    pub fn line(&self, field: &str, most: usize) -> Result<Option<String>, BadInput> {
        let Some(line) = self.text(field)?.map(str::trim) else { return Ok(None) };
        if line.is_empty() || line.chars().count() > most || line.chars().any(char::is_control) {
            let rule = format!("must be 1 to {most} characters, none of them control characters");
            return Err(BadInput::invalid(field, rule));
        }
        Ok(Some(line.to_owned()))
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, field: &str, words: &[(&str, T)]) -> Result<Option<T>, BadInput> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meant)) => Ok(Some(*meant)),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(BadInput::invalid(field, format!("must be one of {}", known.join(", "))))
            }
        }
    }

    /// A whole number within bounds.
    pub fn whole(&self, field: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
        let Some(value) = self.present(field) else { return Ok(None) };
        match value.as_u64().filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = (bounds.start(), bounds.end());
                Err(BadInput::invalid(field, format!("must be a whole number from {least} to {most}")))
            }
        }
    }

    /// A number from 0 to 1.
    pub fn fraction(&self, field: &str) -> Result<Option<f64>, BadInput> {
        let Some(value) = self.present(field) else { return Ok(None) };
        match value.as_f64().filter(|number| (0.0..=1.0).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(BadInput::invalid(field, "must be a number from 0 to 1")),
        }
    }

    /// Yes or no.
    pub fn flag(&self, field: &str) -> Result<Option<bool>, BadInput> {
        match self.present(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(BadInput::invalid(field, "must be true or false")),
        }
    }

    /// A name of the kind that programs use: letters, digits, `.`, `_` and `-`.
    pub fn name(&self, field: &str) -> Result<Option<String>, BadInput> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if text.is_empty() || text.len() > MAX_NAME_CHARS || !text.chars().all(plain) {
            let rule = format!("must be 1 to {MAX_NAME_CHARS} letters, digits, '.', '_' and '-'");
            return Err(BadInput::invalid(field, rule));
        }
        Ok(Some(text.to_owned()))
    }

    /// An id, or whatever else is read from a string.
    pub fn parsed<T>(
        &self,
        field: &str,
        parse: impl Fn(String) -> Result<T, Invalid>,
    ) -> Result<Option<T>, BadInput> {
        let parsed = self.text(field)?.map(|text| parse(text.to_owned())).transpose();
        parsed.map_err(|wrong| BadInput::invalid(field, wrong.reason))
    }

    /// A list of ids, each once.
    pub fn list<T: PartialEq>(
        &self,
        field: &str,
        parse: impl Fn(String) -> Result<T, Invalid>,
    ) -> Result<Option<Vec<T>>, BadInput> {
        let items = match self.present(field) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(BadInput::invalid(field, "must be a list of strings")),
        };
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let place = format!("{field}[{index}]");
            let Value::String(text) = item else {
                return Err(BadInput::invalid(place, "must be a string"));
            };
            let one = parse(text.clone()).map_err(|wrong| BadInput::invalid(place, wrong.reason))?;
            if !list.contains(&one) {
                list.push(one);
            }
        }
        Ok(Some(list))
    }

    /// A moment.
    pub fn time(&self, field: &str) -> Result<Option<Timestamp>, BadInput> {
        let parse = |text: &str| {
            let rule = "must be a time like 2026-01-01T00:00:00Z";
            Timestamp::parse(text).ok_or_else(|| BadInput::invalid(field, rule))
        };
        self.text(field)?.map(parse).transpose()
    }

    /// An object in it.
    pub fn object(&self, field: &str) -> Result<Option<Self>, BadInput> {
        match self.present(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self(fields.clone()))),
            Some(_) => Err(BadInput::invalid(field, "must be an object")),
        }
    }

    /// The object itself.
    pub fn as_json(&self) -> JsonObject {
        JsonObject::of(&self.0)
    }

    /// The names of its fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether a field is there, be it `null`.
    pub fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    fn present(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }
}

/// Longest name of the kind that programs use.
const MAX_NAME_CHARS: usize = 100;
