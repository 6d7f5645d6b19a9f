//! Attributes of an item, a field or a variant: its doc comment and its serde options.

use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Token};

/// The serde options that the contract uses.
#[derive(Debug, Default)]
pub struct Serde {
    pub rename: Option<String>,
    pub rename_all: Option<String>,
    pub tag: Option<String>,
    pub untagged: bool,
    pub flatten: bool,
    /// `skip_serializing_if` is present.
    pub optional: bool,
    /// Names that are also read.
    pub aliases: Vec<String>,
}

impl Serde {
    /// Panics on an unsupported option, because the generated type would be wrong.
    pub fn of(attributes: &[Attribute]) -> Self {
        let mut found = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let read = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let value: Option<LitStr> =
                    if meta.input.peek(Token![=]) { Some(meta.value()?.parse()?) } else { None };
                let value = value.map(|value| value.value());
                match name.as_str() {
                    "rename" => found.rename = value,
                    "rename_all" => found.rename_all = value,
                    "tag" => found.tag = value,
                    "untagged" => found.untagged = true,
                    "flatten" => found.flatten = true,
                    "skip_serializing_if" => found.optional = true,
                    "alias" => found.aliases.extend(value),
                    // These affect only deserialization, or nothing: a transparent newtype is serialized as its field.
                    "default" | "other" | "transparent" => {}
                    unknown => {
                        return Err(meta.error(format!("serde({unknown}) is not supported by the generator")));
                    }
                }
                Ok(())
            });
            read.unwrap_or_else(|error| panic!("{error}"));
        }
        found
    }

    /// The serialized name of a variant or a field, with the options of its container.
    pub fn name(&self, ident: &str, outer: &Self) -> String {
        match (&self.rename, outer.rename_all.as_deref()) {
            (Some(name), _) => name.clone(),
            (None, None) => ident.to_owned(),
            (None, Some("lowercase")) => ident.to_lowercase(),
            (None, Some("UPPERCASE")) => ident.to_uppercase(),
            (None, Some("snake_case")) => words(ident).join("_"),
            (None, Some("kebab-case")) => words(ident).join("-"),
            (None, Some(other)) => panic!("serde(rename_all = {other:?}) is not supported by the generator"),
        }
    }
}

/// The words of a name in `CamelCase`, in lower case.
pub fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        match words.last_mut() {
            Some(word) if !letter.is_uppercase() => word.push(letter),
            _ => words.push(letter.to_lowercase().collect()),
        }
    }
    words
}

/// The doc comment as a TypeScript comment, or an empty string.
pub fn comment(attributes: &[Attribute], indent: &str) -> String {
    let lines: Vec<String> = attributes.iter().filter_map(doc_line).map(|line| plain(line.trim())).collect();
    match &lines[..] {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let body: String = lines.iter().map(|line| format!("{indent} * {line}\n")).collect();
            format!("{indent}/**\n{body}{indent} */\n")
        }
    }
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Replaces Rust links: [`bundle`] and [`bundle`](crate::bundle) become `bundle`.
fn plain(line: &str) -> String {
    let mut rest = line;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, after)) = after.split_once("`]") else { break };
        plain.push_str(before);
        plain.push_str(&format!("`{name}`"));
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    plain + &rest.replace("*/", "* /")
}
