//! Decodes a body field by field, so that each error names its field.

use crate::bad_input::BadInput;
use domain::{Invalid, JsonObject, Timestamp};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

pub fn required<T>(field: &str, value: Option<T>) -> Result<T, BadInput> {
    value.ok_or_else(|| BadInput::invalid(field, "is missing"))
}

/// One line of text, trimmed, with a maximum number of characters.
pub fn line(field: &str, text: &str, max: usize) -> Result<String, BadInput> {
    let line = text.trim();
    if line.is_empty() || line.chars().count() > max || line.chars().any(char::is_control) {
        let rule = format!("must be 1 to {max} characters, without control characters");
        return Err(BadInput::invalid(field, rule));
    }
    Ok(line.to_owned())
}

/// A JSON object. `null` counts as absent, and unknown fields are ignored.
#[derive(Debug, Clone, Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// An empty body has no fields.
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

    pub fn text(&self, field: &str) -> Result<Option<&str>, BadInput> {
        match self.present(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(BadInput::invalid(field, "must be a string")),
        }
    }

    /// One line of text. See [`line()`].
    pub fn line(&self, field: &str, max: usize) -> Result<Option<String>, BadInput> {
        self.text(field)?.map(|text| line(field, text, max)).transpose()
    }

    /// One of these names.
    pub fn one_of<T: Copy>(&self, field: &str, names: &[(&str, T)]) -> Result<Option<T>, BadInput> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        match names.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                Err(BadInput::invalid(field, format!("must be one of {}", known.join(", "))))
            }
        }
    }

    pub fn integer(&self, field: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
        let Some(value) = self.present(field) else { return Ok(None) };
        match value.as_u64().filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (min, max) = (bounds.start(), bounds.end());
                Err(BadInput::invalid(field, format!("must be an integer from {min} to {max}")))
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

    pub fn flag(&self, field: &str) -> Result<Option<bool>, BadInput> {
        match self.present(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(BadInput::invalid(field, "must be true or false")),
        }
    }

    /// An identifier of letters, digits, `.`, `_` and `-`.
    pub fn name(&self, field: &str) -> Result<Option<String>, BadInput> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if text.is_empty() || text.len() > MAX_NAME_CHARS || !text.chars().all(plain) {
            let rule = format!("must be 1 to {MAX_NAME_CHARS} letters, digits, '.', '_' and '-'");
            return Err(BadInput::invalid(field, rule));
        }
        Ok(Some(text.to_owned()))
    }

    /// A string that `parse` accepts.
    pub fn parsed<T>(
        &self,
        field: &str,
        parse: impl Fn(String) -> Result<T, Invalid>,
    ) -> Result<Option<T>, BadInput> {
        let parsed = self.text(field)?.map(|text| parse(text.to_owned())).transpose();
        parsed.map_err(|wrong| BadInput::invalid(field, wrong.reason))
    }

    /// A list of strings that `parse` accepts, without duplicates.
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
            let path = format!("{field}[{index}]");
            let Value::String(text) = item else {
                return Err(BadInput::invalid(path, "must be a string"));
            };
            let value = parse(text.clone()).map_err(|wrong| BadInput::invalid(path, wrong.reason))?;
            if !list.contains(&value) {
                list.push(value);
            }
        }
        Ok(Some(list))
    }

    pub fn time(&self, field: &str) -> Result<Option<Timestamp>, BadInput> {
        let parse = |text: &str| {
            let rule = "must be a time like 2026-01-01T00:00:00Z";
            Timestamp::parse(text).ok_or_else(|| BadInput::invalid(field, rule))
        };
        self.text(field)?.map(parse).transpose()
    }

    pub fn object(&self, field: &str) -> Result<Option<Self>, BadInput> {
        match self.present(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self(fields.clone()))),
            Some(_) => Err(BadInput::invalid(field, "must be an object")),
        }
    }

    /// A list of at most `max` objects.
    pub fn objects(&self, field: &str, max: usize) -> Result<Option<Vec<Self>>, BadInput> {
        let items = match self.present(field) {
            None => return Ok(None),
            Some(Value::Array(items)) if items.len() <= max => items,
            Some(_) => {
                return Err(BadInput::invalid(field, format!("must be a list of at most {max} objects")));
            }
        };
        let object = |(index, item): (usize, &Value)| match item {
            Value::Object(fields) => Ok(Self(fields.clone())),
            _ => Err(BadInput::invalid(format!("{field}[{index}]"), "must be an object")),
        };
        items.iter().enumerate().map(object).collect::<Result<_, _>>().map(Some)
    }

    pub fn as_json(&self) -> JsonObject {
        JsonObject::of(&self.0)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether a field is present, possibly as `null`.
    pub fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    fn present(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }
}

const MAX_NAME_CHARS: usize = 100;
