//! Parses CloudFormation templates to JSON, with YAML short forms (`!Ref x`) expanded (`{"Ref": "x"}`).

use saphyr::{LoadableYamlNode, ScalarOwned, YamlOwned};
use serde_json::{Map, Value, json};

pub fn parse(yaml: &str) -> Result<Value, String> {
    let documents = YamlOwned::load_from_str(yaml).map_err(|error| error.to_string())?;
    documents.first().map(value).ok_or_else(|| "the template is empty".to_owned())
}

fn value(node: &YamlOwned) -> Value {
    match node {
        YamlOwned::Value(scalar) => match scalar {
            ScalarOwned::Null => Value::Null,
            ScalarOwned::Boolean(truth) => json!(truth),
            ScalarOwned::Integer(number) => json!(number),
            ScalarOwned::FloatingPoint(number) => json!(number.into_inner()),
            ScalarOwned::String(text) => json!(text),
        },
        YamlOwned::Sequence(items) => items.iter().map(value).collect(),
        YamlOwned::Mapping(fields) => {
            let fields = fields.iter().map(|(name, field)| (key(name), value(field)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        YamlOwned::Tagged(tag, content) => function(&tag.suffix, value(content)),
        YamlOwned::Representation(text, ..) => json!(text),
        YamlOwned::Alias(_) | YamlOwned::BadValue => Value::Null,
    }
}

fn key(node: &YamlOwned) -> String {
    match value(node) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn function(name: &str, argument: Value) -> Value {
    match (name, &argument) {
        ("Ref" | "Condition", _) => json!({name: argument}),
        ("GetAtt", Value::String(path)) => {
            let (resource, attribute) = path.split_once('.').unwrap_or((path, ""));
            json!({"Fn::GetAtt": [resource, attribute]})
        }
        _ => json!({format!("Fn::{name}"): argument}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_expanded() {
        let template = parse(
            "A: !Ref Table\nB: !GetAtt Table.Stream.Arn\nC: !If [X, !Sub \"${A}-b\", 3]\nD: {E: true, F: '3', 1: ~}",
        );
        assert_eq!(
            template.unwrap(),
            json!({
                "A": {"Ref": "Table"},
                "B": {"Fn::GetAtt": ["Table", "Stream.Arn"]},
                "C": {"Fn::If": ["X", {"Fn::Sub": "${A}-b"}, 3]},
                "D": {"E": true, "F": "3", "1": null},
            })
        );
        assert!(parse("A: [").is_err());
    }
}
