//! A JSON body, field by field: each complaint names the field that it is about.

use crate::bad_input::BadInput;
use domain::{Invalid, Timestamp};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// The fields of a body, or of an object in it. `null` is the same as absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body(Map<String, Value>);

impl Body {
    /// Reads a body; an empty one has no fields.
    pub(crate) fn read(body: &[u8]) -> Result<Self, BadInput> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        let value = serde_json::from_slice(body)
            .map_err(|e| BadInput::Malformed(format!("The body is not valid JSON: {e}.")))?;
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(BadInput::invalid("body", "must be a JSON object")),
        }
    }

    /// Whether it has no fields.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of its fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether a field is there, be it `null`.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// A string.
    pub(crate) fn text(&self, field: &str) -> Result<Option<&str>, BadInput> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(BadInput::invalid(field, "must be a string")),
        }
    }

    /// A string of so many characters at most; white space around it does not count, and one without any other
    /// character is as good as absent.
    pub(crate) fn words(&self, field: &str, most_chars: usize) -> Result<Option<String>, BadInput> {
        let Some(text) = self.text(field)?.map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        if text.chars().count() > most_chars || text.contains(odd) {
            let rule = format!("must be at most {most_chars} characters, none of them control characters");
            return Err(BadInput::invalid(field, rule));
        }
        Ok(Some(text.to_owned()))
    }

    /// A name of the kind that programs use: letters, digits, `.`, `_` and `-`.
    pub(crate) fn name(&self, field: &str) -> Result<Option<String>, BadInput> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if text.is_empty() || text.len() > MAX_NAME_CHARS || !text.chars().all(plain) {
            let rule = format!("must be 1 to {MAX_NAME_CHARS} letters, digits, '.', '_' and '-'");
            return Err(BadInput::invalid(field, rule));
        }
        Ok(Some(text.to_owned()))
    }

    /// An id, or whatever else is read from a string.
    pub(crate) fn parsed<T>(
        &self,
        field: &str,
        parse: impl Fn(String) -> Result<T, Invalid>,
    ) -> Result<Option<T>, BadInput> {
        let parsed = self.text(field)?.map(|text| parse(text.to_owned())).transpose();
        parsed.map_err(|wrong| BadInput::invalid(field, wrong.reason))
    }

    /// A list of ids, each once.
    pub(crate) fn list<T: PartialEq>(
        &self,
        field: &str,
        parse: impl Fn(String) -> Result<T, Invalid>,
    ) -> Result<Option<Vec<T>>, BadInput> {
        let items = match self.get(field) {
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

    /// A whole number within bounds.
    pub(crate) fn number(&self, field: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_u64().filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let rule = format!("must be a whole number from {} to {}", bounds.start(), bounds.end());
                Err(BadInput::invalid(field, rule))
            }
        }
    }

    /// A small whole number within bounds.
    pub(crate) fn small(&self, field: &str, bounds: RangeInclusive<u32>) -> Result<Option<u32>, BadInput> {
        let number = self.number(field, u64::from(*bounds.start())..=u64::from(*bounds.end()))?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, field: &str) -> Result<Option<bool>, BadInput> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(BadInput::invalid(field, "must be true or false")),
        }
    }

    /// A moment.
    pub(crate) fn time(&self, field: &str) -> Result<Option<Timestamp>, BadInput> {
        let parse = |text: &str| {
            let rule = "must be a time like 2026-01-01T00:00:00Z";
            Timestamp::parse(text).ok_or_else(|| BadInput::invalid(field, rule))
        };
        self.text(field)?.map(parse).transpose()
    }

    /// An object in it.
    pub(crate) fn object(&self, field: &str) -> Result<Option<Self>, BadInput> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self(fields.clone()))),
            Some(_) => Err(BadInput::invalid(field, "must be an object")),
        }
    }

    /// An object in it, as it is.
    pub(crate) fn raw_object(&self, field: &str) -> Result<Option<&Map<String, Value>>, BadInput> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(_) => Err(BadInput::invalid(field, "must be an object")),
        }
    }
}

/// A required field.
pub(crate) fn required<T>(field: &str, value: Option<T>) -> Result<T, BadInput> {
    value.ok_or_else(|| BadInput::invalid(field, "is missing"))
}

/// Longest name of the kind that programs use.
const MAX_NAME_CHARS: usize = 100;
