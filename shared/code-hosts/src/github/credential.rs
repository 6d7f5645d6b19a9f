//! With what requests are authorized: a token, or an App that gets tokens.

use crate::{Failure, Reason, Secret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use std::fmt;

/// GitHub accepts at most ten minutes, and its clock may differ from ours.
const JWT_LIFETIME_SECS: i64 = 9 * 60;
const CLOCK_SKEW_SECS: i64 = 60;

/// How the file of a private key begins that GitHub provides (PKCS #1).
const PEM_BEGIN: &str = "-----BEGIN RSA PRIVATE KEY-----";
const PEM_END: &str = "-----END RSA PRIVATE KEY-----";

#[derive(Debug)]
pub(super) enum Credential {
    Token(Secret),
    App(App),
}

/// A GitHub App.
pub(super) struct App {
    pub id: String,
    key: EncodingKey,
    /// DER of the key in Base64. Tells apart Apps for which the id is the same: a cached token is only for those
    /// who have the key.
    pub key_text: Secret,
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: i64,
    exp: i64,
    iss: &'a str,
}

impl Credential {
    pub(super) fn token(token: &str) -> Result<Self, Failure> {
        let token = token.trim();
        let is_printable = token.bytes().all(|byte| byte.is_ascii_graphic());
        let invalid = || unusable("GITHUB_TOKEN must be one line without spaces");
        is_printable.then(|| Self::Token(Secret::new(token))).ok_or_else(invalid)
    }

    pub(super) fn app(id: &str, key: &str) -> Result<Self, Failure> {
        let id = id.trim();
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
            return Err(unusable("GITHUB_APP_ID must be the id of the App, or its client id"));
        }
        let app = read_key(key).map(|(key, key_text)| App { id: id.to_owned(), key, key_text });
        let app = app.filter(|app| app.jwt(0).is_ok());
        app.map(Self::App).ok_or_else(|| {
            unusable(
                "GITHUB_APP_PRIVATE_KEY must be an RSA key as GitHub provides it: a PEM file that begins with \
                 BEGIN RSA PRIVATE KEY",
            )
        })
    }
}

impl App {
    /// A token that identifies the App itself.
    pub(super) fn jwt(&self, now_secs: i64) -> Result<Secret, Failure> {
        let claims =
            Claims { iat: now_secs - CLOCK_SKEW_SECS, exp: now_secs + JWT_LIFETIME_SECS, iss: &self.id };
        let jwt = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        jwt.map(Secret::new).map_err(|_| unusable("GITHUB_APP_PRIVATE_KEY cannot sign"))
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("id", &self.id).finish_non_exhaustive()
    }
}

fn read_key(pem: &str) -> Option<(EncodingKey, Secret)> {
    let pem = pem.replace("\\n", "\n");
    let body = pem.trim().strip_prefix(PEM_BEGIN)?.strip_suffix(PEM_END)?;
    let body: String = body.chars().filter(|character| !character.is_whitespace()).collect();
    let der = STANDARD.decode(&body).ok()?;
    Some((EncodingKey::from_rsa_der(&der), Secret::new(body)))
}

fn unusable(message: &str) -> Failure {
    Failure::new(Reason::Unauthorized, message)
}
