//! Query strings.

mod parameter;

pub use parameter::{Kind, Parameter, Values};

use crate::bad_input::BadInput;
use domain::Invalid;

/// The decoded parameters of a request.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
    /// What the route accepts, once that is checked.
    accepted: Option<&'static [Parameter]>,
}

impl Query {
    /// Parses `a=1&b=2`. Malformed escapes stay as they are.
    pub fn parse(text: &str) -> Self {
        Self::of(form_urlencoded::parse(text.as_bytes()).into_owned())
    }

    /// Takes parameters that are decoded already.
    pub fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { pairs: pairs.into_iter().collect(), accepted: None }
    }

    /// Refuses parameters that the route does not know, instead of ignoring a misspelled filter.
    pub fn accepting(self, accepted: &'static [Parameter]) -> Result<Self, BadInput> {
        let unknown = |name: &str| !accepted.iter().any(|parameter| parameter.is_called(name));
        match self.pairs.iter().find(|(name, _)| unknown(name)) {
            Some((name, _)) => {
                let field: String = name.chars().take(MAX_NAME_CHARS).collect();
                Err(BadInput::invalid(field, parameter::hint(name, accepted)))
            }
            None => Ok(Self { accepted: Some(accepted), ..self }),
        }
    }

    /// The first value of a parameter.
    pub fn get(&self, parameter: &Parameter) -> Option<&str> {
        self.values(parameter).next()
    }

    /// Every value of a list, whether it is repeated or separated by commas.
    pub fn list(&self, parameter: &Parameter) -> Result<Vec<String>, BadInput> {
        let values = self.values(parameter).flat_map(|value| value.split(',')).map(str::trim);
        let values: Vec<String> = values.filter(|value| !value.is_empty()).map(str::to_owned).collect();
        match parameter.kind {
            Kind::List(Some(known)) if values.iter().any(|value| !known().contains(&value.as_str())) => {
                Err(not_one_of(parameter, &known()))
            }
            _ => Ok(values),
        }
    }

    /// `None` if the parameter is absent.
    pub fn list_if_present(&self, parameter: &Parameter) -> Result<Option<Vec<String>>, BadInput> {
        self.get(parameter).map(|_| self.list(parameter)).transpose()
    }

    /// An integer within the bounds of the parameter, or its default.
    pub fn number(&self, parameter: &Parameter) -> Result<Option<u64>, BadInput> {
        let Kind::Integer { min, max, default } = parameter.kind else {
            unreachable!("{} is declared as an integer", parameter.name)
        };
        let Some(text) = self.get(parameter) else { return Ok(default) };
        match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
            _ if max == u64::MAX => {
                Err(BadInput::invalid(parameter.name, format!("must be an integer from {min}")))
            }
            _ => Err(BadInput::invalid(parameter.name, format!("must be an integer from {min} to {max}"))),
        }
    }

    /// An integer within the bounds of a parameter that has a default.
    pub fn number_or_default(&self, parameter: &Parameter) -> Result<u64, BadInput> {
        match self.number(parameter)? {
            Some(number) => Ok(number),
            None => unreachable!("{} is declared with a default", parameter.name),
        }
    }

    /// The size of a page: an integer with a default.
    pub fn size(&self, parameter: &Parameter) -> Result<usize, BadInput> {
        Ok(usize::try_from(self.number_or_default(parameter)?).unwrap_or(usize::MAX))
    }

    /// One of the values of the parameter.
    pub fn one_of(&self, parameter: &Parameter) -> Result<Option<&'static str>, BadInput> {
        let Kind::OneOf(values) = parameter.kind else {
            unreachable!("{} is declared with its values", parameter.name)
        };
        let Some(text) = self.get(parameter) else { return Ok(None) };
        match values().into_iter().find(|value| *value == text) {
            Some(value) => Ok(Some(value)),
            None => Err(not_one_of(parameter, &values())),
        }
    }

    /// `true` or `false`.
    pub fn flag(&self, parameter: &Parameter) -> Result<Option<bool>, BadInput> {
        Ok(self.one_of(parameter)?.map(|value| value == "true"))
    }

    /// A text that `parse` accepts.
    pub fn parsed<T>(
        &self,
        parameter: &Parameter,
        parse: impl Fn(String) -> Result<T, Invalid>,
    ) -> Result<Option<T>, BadInput> {
        let parsed = self.get(parameter).map(|text| parse(text.to_owned())).transpose();
        parsed.map_err(|wrong| BadInput::invalid(parameter.name, wrong.reason))
    }

    fn values(&self, parameter: &Parameter) -> impl Iterator<Item = &str> {
        let declared =
            self.accepted.is_none_or(|accepted| accepted.iter().any(|known| known.name == parameter.name));
        debug_assert!(declared, "the route reads {} without declaring it", parameter.name);
        let values = self.pairs.iter().filter(|(name, _)| parameter.is_called(name));
        values.map(|(_, value)| value.as_str())
    }
}

/// Maximum length of an unknown name in an error.
const MAX_NAME_CHARS: usize = 60;

fn not_one_of(parameter: &Parameter, values: &[&str]) -> BadInput {
    BadInput::invalid(parameter.name, format!("must be one of {}", values.join(", ")))
}

/// Decodes a part of a path: `%41`. Malformed escapes and `+` stay as they are; only query strings and forms encode a space
/// as `+`.
pub fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: Parameter = Parameter::list("event_types", "").also(&["event_type"]);
    const STATUS: Parameter = Parameter::list_of("status", || vec!["open", "done"], "");
    const LIMIT: Parameter = Parameter::integer("limit", 1, 500, "").or(100);
    const AFTER: Parameter = Parameter::integer("after_seq", 0, u64::MAX, "");
    const X: Parameter = Parameter::text("x", "");

    #[test]
    fn lists_are_comma_separated_or_repeated_in_either_spelling() {
        let query = Query::parse("event_type=a,b&event_types=c+d&x=%41%zz%&empty=");
        assert_eq!(query.list(&TYPES).unwrap(), ["a", "b", "c d"]);
        assert_eq!(query.get(&X), Some("A%zz%"));
        let empty = Query::parse("event_types=");
        assert_eq!(empty.list_if_present(&TYPES).unwrap(), Some(vec![]));
        assert_eq!(query.list_if_present(&STATUS).unwrap(), None);
        assert!(
            Query::parse("status=open,closed").list(&STATUS).unwrap_err().to_string().contains("open, done")
        );
    }

    #[test]
    fn plus_is_a_space_in_a_query_and_itself_in_a_path() {
        const SPACED: Parameter = Parameter::text("a b", "");
        assert_eq!(Query::parse("a+b=c+%2B").get(&SPACED), Some("c +"));
        for (encoded, decoded) in [
            ("a+b", "a+b"),
            ("a%2Bb%20c", "a+b c"),
            ("%41%zz%", "A%zz%"),
            ("caf%C3%A9", "café"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(percent_decode(encoded), decoded, "{encoded}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        assert_eq!(Query::parse("limit=5").number(&LIMIT).unwrap(), Some(5));
        assert_eq!(Query::parse("").number(&LIMIT).unwrap(), Some(100));
        assert_eq!(Query::parse("").number(&AFTER).unwrap(), None);
        assert_eq!(Query::parse("").size(&LIMIT).unwrap(), 100);
        let query = Query::parse("limit=501&after_seq=-1");
        assert!(query.number(&LIMIT).is_err());
        assert!(query.number(&AFTER).unwrap_err().to_string().contains("from 0"));
    }

    #[test]
    fn unknown_parameters_are_refused_with_a_hint() {
        const ACCEPTED: &[Parameter] = &[TYPES, LIMIT];
        assert!(Query::parse("event_type=a&limit=1").accepting(ACCEPTED).is_ok());
        match Query::parse("limit=1&event_tpe=a").accepting(ACCEPTED) {
            Err(BadInput::Invalid(wrong)) => {
                assert_eq!(wrong.field, "event_tpe");
                assert!(wrong.reason.ends_with("did you mean event_type?"), "{}", wrong.reason);
            }
            other => panic!("{other:?}"),
        }
    }
}
