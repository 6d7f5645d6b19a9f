//! Query strings.

use crate::bad_input::BadInput;

/// The decoded parameters of a request.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=1&b=2`. Malformed escapes stay as they are.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(name), percent_decode(value))
        });
        Self(pairs.collect())
    }

    /// Takes parameters that are decoded already.
    pub fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter that may be repeated or hold a comma-separated list.
    pub fn list(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(known, _)| known == name);
        values
            .flat_map(|(_, value)| value.split(','))
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .collect()
    }

    /// `None` if the parameter is absent.
    pub fn list_if_present(&self, name: &str) -> Option<Vec<String>> {
        self.get(name).map(|_| self.list(name))
    }

    pub fn number(&self, name: &str, bounds: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, BadInput> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            _ if *bounds.end() == u64::MAX => {
                Err(BadInput::invalid(name, format!("must be an integer from {}", bounds.start())))
            }
            _ => Err(BadInput::invalid(
                name,
                format!("must be an integer from {} to {}", bounds.start(), bounds.end()),
            )),
        }
    }

    /// One of these values.
    pub fn one_of<'a>(&self, name: &str, values: &[&'a str]) -> Result<Option<&'a str>, BadInput> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match values.iter().find(|value| **value == text) {
            Some(value) => Ok(Some(value)),
            None => Err(BadInput::invalid(name, format!("must be one of {}", values.join(", ")))),
        }
    }
}

/// Decodes `%41` and `+`.
pub fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high * 16 + low);
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_comma_separated_or_repeated() {
        let query = Query::parse("event_type=a,b&event_type=c+d&x=%41%zz%&empty=");
        assert_eq!(query.list("event_type"), ["a", "b", "c d"]);
        assert_eq!(query.get("x"), Some("A%zz%"));
        assert_eq!(query.list_if_present("empty"), Some(vec![]));
        assert_eq!(query.list_if_present("absent"), None);
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        let query = Query::parse("limit=501&after_seq=-1&ok=5");
        assert_eq!(query.number("ok", 1..=500).unwrap(), Some(5));
        assert_eq!(query.number("absent", 1..=500).unwrap(), None);
        assert!(query.number("limit", 1..=500).is_err());
        assert!(query.number("after_seq", 0..=u64::MAX).unwrap_err().to_string().contains("from 0"));
    }
}
