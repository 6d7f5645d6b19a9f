//! The configuration file: a flat YAML mapping. Flags and environment variables take precedence.

use super::plane_directory;
use anyhow::Context;
use saphyr::{LoadableYamlNode, ScalarOwned, YamlOwned};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the configuration file in the directory of the plane.
pub const NAME: &str = "sunaba.yaml";

/// Values of a configuration file, by lower-case name.
pub type Values = BTreeMap<String, String>;

/// Reads the given file, or the one in the directory of the plane if it exists. Before the first start of this version it
/// may be in the data directory.
pub fn read(file: Option<&Path>, data: &Path) -> anyhow::Result<Values> {
    let own = || [plane_directory(data).join(NAME), data.join(NAME)].into_iter().find(|path| path.exists());
    let Some(path) = file.map(Path::to_owned).or_else(own) else { return Ok(Values::new()) };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<Values, String> {
    let documents = YamlOwned::load_from_str(text).map_err(|error| error.to_string())?;
    let fields = match documents.as_slice() {
        [] => return Ok(Values::new()),
        [YamlOwned::Mapping(fields)] => fields,
        [YamlOwned::Value(ScalarOwned::Null)] => return Ok(Values::new()),
        _ => return Err("must be lines of `name: value`".to_owned()),
    };
    let mut values = Values::new();
    for (name, value) in fields {
        let Some(name) = text_of(name) else { return Err("a name must be a string".to_owned()) };
        match (text_of(value), value) {
            (Some(value), _) => {
                values.insert(name.to_ascii_lowercase(), value);
            }
            (None, YamlOwned::Value(ScalarOwned::Null)) => {}
            (None, _) => return Err(format!("{name} must be a string, a number or a boolean")),
        }
    }
    Ok(values)
}

fn text_of(node: &YamlOwned) -> Option<String> {
    match node {
        YamlOwned::Value(ScalarOwned::Boolean(truth)) => Some(truth.to_string()),
        YamlOwned::Value(ScalarOwned::Integer(number)) => Some(number.to_string()),
        YamlOwned::Value(ScalarOwned::FloatingPoint(number)) => Some(number.into_inner().to_string()),
        YamlOwned::Value(ScalarOwned::String(text)) => Some(text.clone()),
        YamlOwned::Representation(text, ..) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_a_flat_mapping() {
        let values = parse("# mine\nsandbox_cpu: 3\nAGENT: 'scripted:hello'\nx: true\ny: 0.5\nz:\n").unwrap();
        let expected = [("agent", "scripted:hello"), ("sandbox_cpu", "3"), ("x", "true"), ("y", "0.5")];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert!(parse("").unwrap().is_empty());
        assert_eq!(
            parse("sandbox: {cpu: 3}").unwrap_err(),
            "sandbox must be a string, a number or a boolean"
        );
        assert!(parse("- one").is_err() && parse("a: [").is_err());
    }
}
