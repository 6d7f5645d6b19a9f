//! The fields of a body, read one by one, so that each complaint names its field.

use crate::bad_input::BadInput;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

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

    fn present(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }
}
