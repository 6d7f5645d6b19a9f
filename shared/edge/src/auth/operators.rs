//! The operators of the plane. Their tokens are stored as hashes, so that reading what the plane verifies with gives no
//! token. SHA-256 is enough for random tokens, which cannot be guessed; it would not be for passwords.

use super::MIN_TOKEN_CHARS;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use domain::access::UNNAMED_OPERATOR;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// Names of operators, each with the hash of its token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Operators(Vec<(String, TokenHash)>);

type TokenHash = [u8; 32];

/// Maximum length of an operator's name.
const MAX_NAME_CHARS: usize = 100;

impl Operators {
    /// One operator with this token.
    pub fn one(name: &str, token: &str) -> Self {
        Self(vec![(name.to_owned(), Sha256::digest(token).into())])
    }

    /// Reads `{"alice": "<SHA-256 of the token in hex>"}`. Any other text is the token of the only operator, as earlier
    /// versions stored it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if !text.starts_with('{') {
            return match text.len() >= MIN_TOKEN_CHARS {
                true => Ok(Self::one(UNNAMED_OPERATOR, text)),
                false => Err(format!("a token must have at least {MIN_TOKEN_CHARS} characters")),
            };
        }
        let named: BTreeMap<String, String> = serde_json::from_str(text).map_err(|_| {
            "must be JSON with the name and the hash of each operator: {\"alice\": \"<64 hex digits>\"}"
                .to_owned()
        })?;
        let operators = named.into_iter().map(|(name, hash)| match (is_name(&name), decode_hex(&hash)) {
            (true, Some(hash)) => Ok((name, hash)),
            (false, _) => Err(format!("{name:?} is not a name: use letters, digits, '.', '_' and '-'")),
            (true, None) => Err(format!(
                "the hash of {name} is not a SHA-256 in hex; `sunaba keys --operator {name}` makes a token and its hash"
            )),
        });
        operators.collect::<Result<_, _>>().map(Self)
    }

    /// As [`Operators::parse`] reads it.
    pub fn to_json(&self) -> String {
        let named: BTreeMap<&str, String> =
            self.0.iter().map(|(name, hash)| (name.as_str(), hex(hash))).collect();
        serde_json::to_string(&named).expect("names and hashes serialize")
    }

    /// Whether there is an operator of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// The name of the operator who has this token. Takes the same time whatever the token is.
    pub(super) fn find(&self, token: &str) -> Option<&str> {
        let hash: TokenHash = Sha256::digest(token).into();
        let mut found = None;
        for (name, known) in &self.0 {
            if verify_slices_are_equal(known, &hash).is_ok() {
                found = Some(name.as_str());
            }
        }
        found
    }
}

/// Omits the hashes: debug output ends up in logs.
impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

fn is_name(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    plain && (1..=MAX_NAME_CHARS).contains(&name.len())
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The 32 bytes that 64 hexadecimal digits stand for.
pub(super) fn decode_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_found_by_token_and_stored_as_hashes() {
        let stored = Operators::one("alice", "the token of alice").to_json();
        assert!(!stored.contains("the token"), "{stored}");
        let both = format!(
            r#"{},"bob":"{}"}}"#,
            stored.trim_end_matches('}'),
            hex(&Sha256::digest("the token of bob"))
        );
        let operators = Operators::parse(&both).unwrap();
        assert_eq!(operators.find("the token of alice"), Some("alice"));
        assert_eq!(operators.find("the token of bob"), Some("bob"));
        assert_eq!(operators.find("the token of eve"), None);
        assert_eq!(Operators::parse(&operators.to_json()).unwrap(), operators);
        // The hash itself is not a token.
        assert_eq!(operators.find(&hex(&Sha256::digest("the token of bob"))), None);
    }

    #[test]
    fn plain_token_belongs_to_the_only_operator() {
        let operators = Operators::parse("a plain token of before\n").unwrap();
        assert_eq!(operators.find("a plain token of before"), Some(UNNAMED_OPERATOR));
    }

    #[test]
    fn wrong_definitions_say_what_to_do() {
        let hash = hex(&[0; 32]);
        for (text, part) in [
            ("short".to_owned(), "at least 16 characters"),
            ("{\"alice\": 5}".to_owned(), "must be JSON"),
            ("{\"alice\"".to_owned(), "must be JSON"),
            ("{\"alice\": \"secret\"}".to_owned(), "sunaba keys --operator alice"),
            (format!("{{\"al ice\": \"{hash}\"}}"), "is not a name"),
            (format!("{{\"\": \"{hash}\"}}"), "is not a name"),
        ] {
            let error = Operators::parse(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
