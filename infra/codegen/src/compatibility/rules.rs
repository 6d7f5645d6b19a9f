//! What breaks a client that was written for the old schema.

use super::{entries, items};
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Clients send it: it must not accept less.
    In,
    /// Clients read it: it must not contain less, or more kinds of values.
    Out,
}

pub struct Documents<'a> {
    pub old: &'a Value,
    pub new: &'a Value,
    found: Vec<String>,
    /// Pairs of references that were compared in a direction: types may refer to themselves.
    compared: BTreeSet<(String, String, Direction)>,
}

impl<'a> Documents<'a> {
    pub fn new(old: &'a Value, new: &'a Value) -> Self {
        Self { old, new, found: Vec::new(), compared: BTreeSet::new() }
    }

    pub fn report(&mut self, place: &str, change: &str) {
        self.found.push(format!("{place} {change}"));
    }

    pub fn finish(self) -> Vec<String> {
        self.found
    }

    pub fn resolve_old<'b>(&self, value: &'b Value) -> &'b Value
    where
        'a: 'b,
    {
        resolve(self.old, value)
    }

    pub fn resolve_new<'b>(&self, value: &'b Value) -> &'b Value
    where
        'a: 'b,
    {
        resolve(self.new, value)
    }

    pub fn compare(&mut self, place: &str, old: &Value, new: &Value, direction: Direction) {
        if let (Some(from), Some(to)) = (old["$ref"].as_str(), new["$ref"].as_str()) {
            // A change within a shared type is reported at the first place that uses it.
            if !self.compared.insert((from.to_owned(), to.to_owned(), direction)) {
                return;
            }
        }
        let (old, new) = (&resolve(self.old, old).clone(), &resolve(self.new, new).clone());
        self.compare_values(place, old, new);
        self.compare_types(place, old, new, direction);
        if direction == Direction::In {
            self.compare_bounds(place, old, new);
        }
        self.compare_fields(place, old, new, direction);
        for part in ["items", "additionalProperties"] {
            if old[part].is_object() && new[part].is_object() {
                self.compare(&format!("{place}[]"), &old[part], &new[part], direction);
            }
        }
        for (old, new) in items(&old["allOf"]).iter().zip(items(&new["allOf"])) {
            self.compare(place, old, new, direction);
        }
        self.compare_alternatives(place, old, new, direction);
    }

    /// Constants and enumerations.
    fn compare_values(&mut self, place: &str, old: &Value, new: &Value) {
        let (Some(old), Some(new)) = (values(old), values(new)) else { return };
        for value in old.iter().filter(|value| !new.contains(value)) {
            self.report(place, &format!("no longer has {value}"));
        }
    }

    fn compare_types(&mut self, place: &str, old: &Value, new: &Value, direction: Direction) {
        let (old, new) = (types(old), types(new));
        if old.is_empty() || new.is_empty() {
            return;
        }
        match direction {
            Direction::In => {
                for name in old.difference(&new) {
                    self.report(place, &format!("no longer accepts {name}"));
                }
            }
            Direction::Out => {
                for name in new.difference(&old) {
                    self.report(place, &format!("may now be {name}"));
                }
            }
        }
    }

    fn compare_bounds(&mut self, place: &str, old: &Value, new: &Value) {
        let number = |schema: &Value, name: &str| schema[name].as_f64();
        for name in ["maximum", "maxLength", "maxItems"] {
            let limit = number(new, name).unwrap_or(f64::INFINITY);
            if limit < number(old, name).unwrap_or(f64::INFINITY) {
                self.report(place, &format!("has a lower {name}"));
            }
        }
        for name in ["minimum", "minLength", "minItems", "minProperties"] {
            let limit = number(new, name).unwrap_or(f64::NEG_INFINITY);
            let before = number(old, name).unwrap_or(if name == "minimum" { f64::NEG_INFINITY } else { 0.0 });
            if limit > before {
                self.report(place, &format!("has a higher {name}"));
            }
        }
        if !new["pattern"].is_null() && old["pattern"] != new["pattern"] {
            self.report(place, "has another pattern");
        }
        if new["additionalProperties"] == false && old["additionalProperties"] != false {
            self.report(place, "no longer accepts other fields");
        }
    }

    fn compare_fields(&mut self, place: &str, old: &Value, new: &Value, direction: Direction) {
        let is_required =
            |schema: &Value, name: &str| items(&schema["required"]).iter().any(|known| known == name);
        for (name, field) in entries(&old["properties"]) {
            let place = format!("{place}.{name}");
            match new["properties"].get(name) {
                None => self.report(&place, "was removed"),
                Some(after) => {
                    let (before_required, required) = (is_required(old, name), is_required(new, name));
                    match direction {
                        Direction::In if required && !before_required => {
                            self.report(&place, "became required");
                        }
                        Direction::Out if before_required && !required => {
                            self.report(&place, "may now be absent");
                        }
                        _ => {}
                    }
                    self.compare(&place, field, after, direction);
                }
            }
        }
        let added = items(&new["required"]).iter().filter_map(Value::as_str);
        for name in added.filter(|name| old["properties"].get(*name).is_none()) {
            if direction == Direction::In {
                self.report(&format!("{place}.{name}"), "was added and is required");
            }
        }
    }

    /// `anyOf` and `oneOf`: each old alternative is compared with the new one of the same kind.
    fn compare_alternatives(&mut self, place: &str, old: &Value, new: &Value, direction: Direction) {
        for name in ["anyOf", "oneOf"] {
            let (old, new) = (items(&old[name]), items(&new[name]));
            if old.is_empty() || new.is_empty() || old.iter().all(|schema| values(schema).is_some()) {
                continue;
            }
            for before in old {
                match new.iter().find(|after| kind(after) == kind(before)) {
                    Some(after) => self.compare(place, before, after, direction),
                    None => self.report(place, &format!("no longer has the form {}", kind(before))),
                }
            }
            // Where any object may be, clients accept further forms.
            let is_open = old.iter().any(|before| kind(before) == "JsonObject");
            if direction == Direction::Out && !is_open {
                for after in new.iter().filter(|after| !old.iter().any(|before| kind(before) == kind(after)))
                {
                    self.report(place, &format!("may now have the form {}", kind(after)));
                }
            }
        }
    }
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// What distinguishes an alternative: its name, the constants of its fields, its fields, or its type.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(first) = items(&schema["allOf"]).first() {
        return kind(first);
    }
    let constants = entries(&schema["properties"])
        .filter_map(|(name, field)| Some(format!("{name}={}", field.get("const")?)));
    let constants: Vec<String> = constants.collect();
    if !constants.is_empty() {
        return constants.join(",");
    }
    let required: Vec<&str> = items(&schema["required"]).iter().filter_map(Value::as_str).collect();
    if required.is_empty() { schema["type"].to_string() } else { required.join(",") }
}

fn types(schema: &Value) -> BTreeSet<String> {
    match &schema["type"] {
        Value::String(name) => [name.clone()].into(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    }
}

/// The values of an enumeration, whether it is an `enum`, a list of constants, or a mixture.
fn values(schema: &Value) -> Option<Vec<Value>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![value.clone()]);
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.clone());
    }
    let alternatives: Option<Vec<Vec<Value>>> = items(&schema["oneOf"]).iter().map(values).collect();
    alternatives.map(|alternatives| alternatives.concat()).filter(|values| !values.is_empty())
}
