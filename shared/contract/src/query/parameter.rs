//! Parameters that a route accepts. The decoder and `docs/openapi.json` use the same declaration.

/// A parameter of a query, or a header.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    pub name: &'static str,
    /// Other accepted spellings.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    /// One sentence for the documents.
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Integer {
        min: u64,
        max: u64,
        default: Option<u64>,
    },
    /// An id, as `domain::id` checks it.
    Id,
    Text {
        max_chars: Option<usize>,
    },
    OneOf(Values),
    /// Comma-separated or repeated; with the allowed values, if they are known.
    List(Option<Values>),
}

/// The allowed values: a function, so that it can list the names of an enum.
pub type Values = fn() -> Vec<&'static str>;

impl Parameter {
    const fn new(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, aliases: &[], kind, description }
    }

    pub const fn integer(name: &'static str, min: u64, max: u64, description: &'static str) -> Self {
        Self::new(name, Kind::Integer { min, max, default: None }, description)
    }

    pub const fn id(name: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Id, description)
    }

    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Text { max_chars: None }, description)
    }

    pub const fn one_of(name: &'static str, values: Values, description: &'static str) -> Self {
        Self::new(name, Kind::OneOf(values), description)
    }

    /// `true` or `false`.
    pub const fn flag(name: &'static str, description: &'static str) -> Self {
        Self::one_of(name, || vec!["true", "false"], description)
    }

    pub const fn list(name: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::List(None), description)
    }

    pub const fn list_of(name: &'static str, values: Values, description: &'static str) -> Self {
        Self::new(name, Kind::List(Some(values)), description)
    }

    /// The value of an integer that is absent.
    #[must_use]
    pub const fn or(mut self, absent: u64) -> Self {
        if let Kind::Integer { default, .. } = &mut self.kind {
            *default = Some(absent);
        }
        self
    }

    #[must_use]
    pub const fn up_to_chars(mut self, max: usize) -> Self {
        self.kind = Kind::Text { max_chars: Some(max) };
        self
    }

    #[must_use]
    pub const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Whether `name` is one of its spellings.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// The reason for refusing the parameter `unknown`: names the parameter that was probably meant, or all.
pub(super) fn hint(unknown: &str, accepted: &[Parameter]) -> String {
    let spellings = accepted
        .iter()
        .flat_map(|parameter| [parameter.name].into_iter().chain(parameter.aliases.iter().copied()));
    let nearest = spellings.map(|name| (distance(unknown, name), name)).min();
    match nearest {
        None => "is not a parameter: this route has none".to_owned(),
        Some((0..=2, name)) if unknown.len() > 2 => {
            format!("is not a parameter of this route; did you mean {name}?")
        }
        Some(_) => {
            let names: Vec<&str> = accepted.iter().map(|parameter| parameter.name).collect();
            format!("is not a parameter of this route, which has {}", names.join(", "))
        }
    }
}

/// Number of characters to insert, delete or replace. Names longer than any parameter count as far away.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().take(60).collect(), right.chars().collect());
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: [Parameter; 2] =
        [Parameter::integer("limit", 1, 10, ""), Parameter::list("event_types", "").also(&["event_type"])];

    #[test]
    fn a_hint_names_the_nearest_parameter_or_all() {
        for (unknown, expected) in [
            ("limits", "did you mean limit?"),
            ("Limit", "did you mean limit?"),
            ("eventtype", "did you mean event_type?"),
            ("x", "which has limit, event_types"),
            ("colour", "which has limit, event_types"),
        ] {
            let hint = hint(unknown, &ACCEPTED);
            assert!(hint.ends_with(expected), "{unknown}: {hint}");
        }
        assert!(hint("x", &[]).ends_with("this route has none"));
    }
}
