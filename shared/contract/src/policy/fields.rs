//! Reads the fields of JSON objects, and reports every error with the path of its field.

use super::PolicyError;
use serde_json::{Map, Value};

/// All fields of a policy.
const FIELDS: [&str; 10] = [
    "network.access",
    "network.allowedDomains",
    "network.allowedPrivateHosts",
    "filesystem.denyRead",
    "filesystem.allowRead",
    "filesystem.allowWrite",
    "repository.allowSettings",
    "limits.processes",
    "limits.memoryMb",
    "limits.fileMb",
];

/// An object, and where it is.
pub(super) struct Fields<'a, 'e> {
    pub path: String,
    object: Option<&'a Map<String, Value>>,
    pub errors: &'e mut Vec<PolicyError>,
}

impl<'a, 'e> Fields<'a, 'e> {
    /// Reports an error if the value is not an object, or has fields that are not `known`.
    pub fn of(value: &'a Value, path: &str, known: &[&str], errors: &'e mut Vec<PolicyError>) -> Self {
        let object = value.as_object();
        let mut fields = Self { path: path.to_owned(), object, errors };
        match object {
            None => fields.errors.push(error(path, format!("must be an object, not {}", kind(value)))),
            Some(object) => {
                for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
                    fields.error(name, format!("unknown field; {}", hint(name, known)));
                }
            }
        }
        fields
    }

    /// The value of a field. `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.object?.get(name).filter(|value| !value.is_null())
    }

    /// The path of a field.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub fn error(&mut self, name: &str, message: impl Into<String>) {
        let path = self.path_of(name);
        self.errors.push(error(&path, message));
    }

    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        if !value.is_boolean() {
            self.error(name, format!("must be true or false, not {}", kind(value)));
        }
        value.as_bool()
    }

    /// A whole number from 1 to `most`.
    pub fn count(&mut self, name: &str, most: u64) -> Option<u64> {
        let value = self.get(name)?;
        let number = value.as_u64().filter(|number| (1..=most).contains(number));
        if number.is_none() {
            self.error(name, format!("must be a whole number from 1 to {most}, not {value}"));
        }
        number
    }

    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = self.get(name)?;
        if !value.is_string() {
            self.error(name, format!("must be a string, not {}", kind(value)));
        }
        value.as_str()
    }

    /// The strings of a list, each with the name of its field: `denyRead[0]`. `None` without the field.
    pub fn texts(&mut self, name: &str) -> Option<Vec<(String, &'a str)>> {
        let value = self.get(name)?;
        let Some(items) = value.as_array() else {
            self.error(name, format!("must be a list of strings, not {}", kind(value)));
            return Some(Vec::new());
        };
        let mut texts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let name = format!("{name}[{index}]");
            match item.as_str() {
                Some(text) => texts.push((name, text.trim())),
                None => self.error(&name, format!("must be a string, not {}", kind(item))),
            }
        }
        Some(texts)
    }
}

pub(super) fn error(field: &str, message: impl Into<String>) -> PolicyError {
    PolicyError { field: field.to_owned(), message: message.into() }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The known field that was probably meant, or all that are known.
fn hint(name: &str, known: &[&str]) -> String {
    let near = |candidate: &str| distance(&plain(name), &plain(candidate)) <= 2;
    let here = known.iter().find(|candidate| near(candidate)).map(|name| (*name).to_owned());
    let elsewhere = || FIELDS.iter().find(|field| near(field.rsplit('.').next().unwrap_or(field)));
    match here.or_else(|| elsewhere().map(|field| (*field).to_owned())) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// Without case and separators: `allowed_domains` is near `allowedDomains`.
fn plain(name: &str) -> String {
    name.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Number of characters to insert, delete or replace.
fn distance(one: &str, another: &str) -> usize {
    let another: Vec<char> = another.chars().collect();
    let mut row: Vec<usize> = (0..=another.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in another.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[another.len()]
}
