//! Keys of a service, and how they are sent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use std::fmt;

/// Headers in which clients send keys. All of them are removed before the real key is added.
const KEY_HEADERS: [HeaderName; 5] = [
    AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Shorter keys are not searched for in responses: they would occur by chance.
const MIN_SEARCHED_BYTES: usize = 8;

/// How a client sends a key, and the endpoint the real one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// `Authorization: Bearer <key>`
    Bearer,
    /// `Authorization: Basic`, with this user name.
    Basic { user: String },
    /// A header with the key as its value, such as `x-api-key`.
    Header(HeaderName),
}

/// The key that a client has, and the one that replaces it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    form: Form,
    presented: String,
    real: HeaderValue,
    /// Texts that no response may contain.
    secrets: Vec<String>,
}

impl Key {
    /// `None` if the real key cannot be a value of a header.
    pub fn new(form: Form, presented: impl Into<String>, real: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(&form.value(real)).ok()?;
        value.set_sensitive(true);
        let mut secrets = vec![real.to_owned()];
        if let Form::Basic { user } = &form {
            secrets.push(STANDARD.encode(format!("{user}:{real}")));
        }
        secrets.retain(|secret| secret.len() >= MIN_SEARCHED_BYTES);
        Some(Self { form, presented: presented.into(), real: value, secrets })
    }

    pub(super) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    fn is_presented(&self, headers: &HeaderMap) -> bool {
        let expected = self.form.value(&self.presented);
        let values = headers.get_all(self.form.header()).into_iter();
        values.filter_map(|value| value.to_str().ok()).any(|value| match self.form {
            Form::Header(_) => is_equal(value, &expected),
            // Names of schemes are case-insensitive.
            Form::Bearer | Form::Basic { .. } => match (value.split_once(' '), expected.split_once(' ')) {
                (Some((scheme, value)), Some((expected_scheme, expected))) => {
                    scheme.eq_ignore_ascii_case(expected_scheme) && is_equal(value.trim(), expected)
                }
                _ => false,
            },
        })
    }
}

/// Replaces the presented key with the real one. Returns whether one was presented.
pub(super) fn replace(keys: &[Key], headers: &mut HeaderMap) -> bool {
    let found = keys.iter().find(|key| key.is_presented(headers));
    for name in KEY_HEADERS.iter().chain(keys.iter().map(|key| key.form.header())) {
        headers.remove(name);
    }
    if let Some(key) = found {
        headers.insert(key.form.header(), key.real.clone());
    }
    found.is_some()
}

/// Removes all keys, for a handler that needs none.
pub(super) fn remove(headers: &mut HeaderMap) {
    for name in &KEY_HEADERS {
        headers.remove(name);
    }
}

impl Form {
    /// The value of the header with this key.
    pub fn value(&self, key: &str) -> String {
        match self {
            Self::Bearer => format!("Bearer {key}"),
            Self::Basic { user } => format!("Basic {}", STANDARD.encode(format!("{user}:{key}"))),
            Self::Header(_) => key.to_owned(),
        }
    }

    fn header(&self) -> &HeaderName {
        match self {
            Self::Bearer | Self::Basic { .. } => &AUTHORIZATION,
            Self::Header(name) => name,
        }
    }
}

impl fmt::Debug for Key {
    /// Omits both keys: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("form", &self.form).finish_non_exhaustive()
    }
}

/// Compares in a time that does not depend on where the texts differ.
fn is_equal(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |differences, (a, b)| differences | (a ^ b));
    a.len() == b.len() && differences == 0
}
