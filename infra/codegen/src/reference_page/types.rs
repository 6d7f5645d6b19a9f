//! JSON Schemas as HTML: the type of a value, and the fields of an object.

use super::{list, object, table, text};
use serde_json::Value;

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text with `code` in backticks.
pub fn inline(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(index, part)| match index % 2 {
            0 => escape(part),
            _ => format!("<code>{}</code>", escape(part)),
        })
        .collect()
}

/// The type of a value in a few words, with links to named types.
pub fn type_of(schema: &Value, prefix: &str) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return format!("<a href=\"#{prefix}-{name}\">{name}</a>");
    }
    if let Some(constant) = schema.get("const") {
        return format!("<code>{}</code>", escape(&constant.to_string()));
    }
    for (combined, word) in [("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")] {
        if let Some(parts) = schema[combined].as_array() {
            let types: Vec<String> = parts.iter().map(|schema| type_of(schema, prefix)).collect();
            return types.join(word);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("<code>{}</code>", escape(&value.to_string()))).collect();
        return values.join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let names = names.into_iter().map(|name| match name {
        "array" => format!("list of {}", type_of(&schema["items"], prefix)),
        name => name.to_owned(),
    });
    names.collect::<Vec<_>>().join(" or ") + &bounds(schema)
}

fn bounds(schema: &Value) -> String {
    let number = |name: &str| schema[name].as_f64().map(|number| number.to_string());
    let mut bounds = Vec::new();
    match (number("minimum"), number("maximum")) {
        (Some(min), Some(max)) => bounds.push(format!("{min} to {max}")),
        (Some(min), None) if min != "0" => bounds.push(format!("from {min}")),
        (None, Some(max)) => bounds.push(format!("up to {max}")),
        _ => {}
    }
    for (name, unit) in [("maxLength", "characters"), ("maxItems", "entries")] {
        bounds.extend(number(name).map(|max| format!("up to {max} {unit}")));
    }
    bounds.extend(schema["format"].as_str().map(escape));
    bounds.extend(schema.get("default").map(|default| format!("default {}", escape(&default.to_string()))));
    if bounds.is_empty() { String::new() } else { format!(" <small>({})</small>", bounds.join(", ")) }
}

/// A row of a table of fields or parameters.
pub fn row(name: &str, place: &str, schema: &Value, description: &str, prefix: &str) -> String {
    format!(
        "<tr><td><code>{}</code></td><td>{place}</td><td>{}</td><td>{}</td></tr>\n",
        escape(name),
        type_of(schema, prefix),
        inline(description)
    )
}

/// The fields of an object, the values of an enumeration, or the type.
pub fn fields(schema: &Value, prefix: &str) -> String {
    let mut html = String::new();
    let required = list(&schema["required"]);
    let rows: String = object(&schema["properties"])
        .into_iter()
        .flatten()
        .map(|(name, field)| {
            let place = if required.iter().any(|known| known == name) { "always" } else { "optional" };
            row(name, place, field, text(&field["description"]), prefix)
        })
        .collect();
    if !rows.is_empty() {
        html += &table(&["field", "present", "type", "meaning"], &rows);
    }
    let alternatives = list(&schema["oneOf"]).iter().chain(list(&schema["anyOf"]));
    let alternatives: Vec<&Value> = alternatives.collect();
    if alternatives.is_empty() && rows.is_empty() {
        return format!("<p>{}</p>\n", type_of(schema, prefix));
    }
    if !alternatives.is_empty() && !rows.is_empty() {
        html += "<p>And one of:</p>\n";
    }
    for alternative in alternatives {
        html += &match alternative["properties"].is_object() {
            true => format!(
                "<p>{}</p>\n{}",
                inline(text(&alternative["description"])),
                fields(alternative, prefix)
            ),
            false => format!(
                "<p>{} {}</p>\n",
                type_of(alternative, prefix),
                inline(text(&alternative["description"]))
            ),
        };
    }
    html
}
