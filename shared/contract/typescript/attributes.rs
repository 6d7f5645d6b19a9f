//! What stands above an item, a field or a variant: its comment, and what serde is told.

use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Token};

/// What serde is told, as far as our shapes tell it something.
#[derive(Debug, Default)]
pub struct Serde {
    /// Its name on the wire.
    pub rename: Option<String>,
    /// How the names of its variants or fields are spelled.
    pub rename_all: Option<String>,
    /// The field that tells which variant it is.
    pub tag: Option<String>,
    /// Nothing tells which variant it is.
    pub untagged: bool,
    /// Its fields stand where it would.
    pub flatten: bool,
    /// It is left out at times.
    pub optional: bool,
}

impl Serde {
    /// Reads the attributes. One that is not known here would be a shape that is not as it is said to be.
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
                    // These are for readers; and what is transparent has one field, as every newtype.
                    "default" | "other" | "transparent" => {}
                    unknown => {
                        return Err(meta.error(format!("serde({unknown}) is not known to the generator")));
                    }
                }
                Ok(())
            });
            read.unwrap_or_else(|error| panic!("{error}"));
        }
        found
    }

    /// A variant's or a field's name on the wire, as what it stands in spells names.
    pub fn name(&self, ident: &str, outer: &Self) -> String {
        match (&self.rename, outer.rename_all.as_deref()) {
            (Some(name), _) => name.clone(),
            (None, None) => ident.to_owned(),
            (None, Some("lowercase")) => ident.to_lowercase(),
            (None, Some("UPPERCASE")) => ident.to_uppercase(),
            (None, Some("snake_case")) => words(ident).join("_"),
            (None, Some("kebab-case")) => words(ident).join("-"),
            (None, Some(other)) => panic!("serde(rename_all = {other:?}) is not known to the generator"),
        }
    }
}

/// The words of a name in capitals, in small letters.
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

/// A comment as TypeScript has it, each line after `indent`; nothing if there is none.
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

/// Without links, which lead nowhere outside of Rust: [`bundle`] and [`bundle`](crate::bundle) are `bundle`.
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
