//! JSON Schemas of the contract's types, as the components of a document.

use edge::http::SchemaOf;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// What is sent and what is received have separate generators: a field with a default is optional in a request, and
/// always present in a response.
pub struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = || {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            responses: settings().for_serialize().into_generator(),
        }
    }

    pub fn request(&mut self, schema: SchemaOf) -> Value {
        clean(schema(&mut self.requests))
    }

    pub fn response(&mut self, schema: SchemaOf) -> Value {
        clean(schema(&mut self.responses))
    }

    pub fn finish(mut self) -> Result<Map<String, Value>, String> {
        let mut all = self.responses.take_definitions(true);
        for (name, schema) in self.requests.take_definitions(true) {
            if let Some(other) = all.get(&name)
                && *other != schema
            {
                return Err(format!(
                    "{name} differs between requests and responses; give one of them its own type, or a name with \
                     #[schemars(rename)]\n{other}\n{schema}"
                ));
            }
            all.insert(name, schema);
        }
        // The generator appends a number to the name of the second type.
        let same_name = |name: &&String| name.strip_suffix('2').is_some_and(|base| all.contains_key(base));
        if let Some(name) = all.keys().find(same_name) {
            return Err(format!(
                "{name}: two types have one name; give one of them another with #[schemars(rename)]"
            ));
        }
        all.sort_keys();
        Ok(all.into_iter().map(|(name, schema)| (name, cleaned(schema))).collect())
    }
}

fn clean(schema: Schema) -> Value {
    cleaned(schema.to_value())
}

/// Without links to Rust names in descriptions, and without formats that only Rust knows.
fn cleaned(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(name, value)| match (name.as_str(), value) {
                ("description", Value::String(text)) => Some((name, Value::String(plain(&text)))),
                ("format", Value::String(format)) if format.starts_with("uint") => None,
                (_, value) => Some((name, cleaned(value))),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        other => other,
    }
}

/// [`bundle`] and [`bundle`](crate::bundle) become `bundle`; lines are joined.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = text.as_str();
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, after)) = after.split_once("`]") else { break };
        plain += &format!("{before}`{name}`");
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    plain + rest
}
