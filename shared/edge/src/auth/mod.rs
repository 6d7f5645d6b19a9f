//! Authentication of operators, users and workers.
//!
//! The kind of a token is known before it is verified, so that no key is ever tried on a token of another kind: worker
//! tokens start with `swt_` and those of operators' browsers with `sit_`, an operator's token is a fixed string, and
//! everything else must be a user's JWT.

mod jwks;
mod operators;
mod sign_in;
pub mod webhooks;
mod worker_key;

pub use operators::Operators;
pub use sign_in::{CODE_SECS, SIGN_IN_SECS, SignInCodes};
pub use worker_key::{PublicKey, SigningKey};

use app::{Clock, Error};
use domain::access::{Principal, Role, looks_like_operator};
use domain::{OrgId, SandboxId, Timestamp};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use jwks::Jwks;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Minimum length of a signing secret. A shorter one can be brute-forced offline from a token.
pub const MIN_SECRET_CHARS: usize = 32;
/// Minimum length of an operator's token, which can only be guessed online.
pub const MIN_TOKEN_CHARS: usize = 16;

/// Identity providers sign the tokens of many applications, and some those of many customers, with the same keys.
pub const JWKS_RULE: &str = "SUNABA_JWKS_URL needs SUNABA_JWT_ISSUER and SUNABA_JWT_AUDIENCE: without them, tokens that were issued for other applications are accepted";

/// Keys and rules of the [`Authenticator`].
#[derive(Clone)]
pub struct Keys {
    /// Signs worker tokens. `None` in a process that issues none.
    pub worker_signing_key: Option<SigningKey>,
    /// Verifies worker tokens. `None` in a process that authenticates no caller.
    pub worker_public_key: Option<PublicKey>,
    pub operators: Operators,
    /// Signs and verifies the tokens of operators' browsers. Only a local plane has it.
    pub sign_in_key: Option<String>,
    /// Verifies users' HS256 tokens.
    pub user_secret: Option<String>,
    /// Public keys of users' RS256 and ES256 tokens.
    pub jwks_url: Option<String>,
    /// Required `iss` of users' tokens.
    pub issuer: Option<String>,
    /// Required `aud` of users' tokens.
    pub audience: Option<String>,
    /// Disables authentication: every caller is the operator. A host allows this on a loopback address only.
    pub open: bool,
}

impl Keys {
    /// Accepts no token. For functions that authenticate no caller.
    pub fn none() -> Self {
        Self {
            worker_signing_key: None,
            worker_public_key: None,
            operators: Operators::default(),
            sign_in_key: None,
            user_secret: None,
            jwks_url: None,
            issuer: None,
            audience: None,
            open: false,
        }
    }
}

pub struct Authenticator {
    open: bool,
    operators: Operators,
    worker_signing_key: Option<EncodingKey>,
    worker_verification_key: Option<DecodingKey>,
    sign_in_keys: Option<(EncodingKey, DecodingKey)>,
    user_verification_key: Option<DecodingKey>,
    jwks: Option<Jwks>,
    issuer: Option<String>,
    audience: Option<String>,
    clock: Arc<dyn Clock>,
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub principal: Principal,
    /// Expiry of the token.
    pub expires_at: Option<Timestamp>,
}

/// Why authentication failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("Missing token. Send Authorization: Bearer <token>.")]
    Missing,
    #[error("The token is not valid.")]
    Invalid,
    #[error("The token has expired.")]
    Expired,
    /// The key server cannot be reached.
    #[error("The token cannot be verified right now.")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AuthError {
    pub fn into_app(self) -> Error {
        match self {
            Self::Missing => Error::Unauthorized("Missing token. Send Authorization: Bearer <token>."),
            Self::Invalid => Error::Unauthorized("The token is not valid."),
            Self::Expired => Error::Unauthorized("The token has expired."),
            Self::Unavailable(source) => Error::Unavailable(source),
        }
    }
}

/// Name of the operator of a local plane, and of every caller without authentication.
pub const LOCAL_OPERATOR: &str = "local";
/// Allowed clock skew of identity providers.
const LEEWAY_SECS: i64 = 30;
const WORKER_PREFIX: &str = "swt_";
const WORKER_AUDIENCE: &str = "sunaba-worker";

#[derive(Debug, Serialize, Deserialize)]
struct WorkerClaims {
    aud: String,
    sub: String,
    /// Token generation of the sandbox.
    generation: u32,
    exp: i64,
}

#[derive(Debug, Deserialize)]
struct UserClaims {
    sub: String,
    /// Identity providers use different names for the org; some send several.
    #[serde(default)]
    org: Option<String>,
    #[serde(default)]
    org_id: Option<String>,
    #[serde(default)]
    organization_id: Option<String>,
    #[serde(default)]
    role: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    exp: f64,
    #[serde(default)]
    nbf: Option<f64>,
}

/// The last second of the year 9999.
const MAX_SECS: f64 = 253_402_300_799.0;
/// `sub` has at most 255 ASCII characters: <https://openid.net/specs/openid-connect-core-1_0.html#IDToken>.
const MAX_SUBJECT_CHARS: usize = 255;

impl Authenticator {
    pub fn new(keys: &Keys, clock: Arc<dyn Clock>) -> Self {
        Self {
            open: keys.open,
            operators: keys.operators.clone(),
            worker_signing_key: keys.worker_signing_key.as_ref().map(SigningKey::encoding_key),
            worker_verification_key: keys.worker_public_key.map(PublicKey::decoding_key),
            sign_in_keys: keys.sign_in_key.as_ref().map(|key| {
                (EncodingKey::from_secret(key.as_bytes()), DecodingKey::from_secret(key.as_bytes()))
            }),
            user_verification_key: keys
                .user_secret
                .as_ref()
                .map(|secret| DecodingKey::from_secret(secret.as_bytes())),
            jwks: keys.jwks_url.clone().map(Jwks::new),
            issuer: keys.issuer.clone(),
            audience: keys.audience.clone(),
            clock,
        }
    }

    pub async fn authenticate(&self, token: Option<&str>) -> Result<Identity, AuthError> {
        if self.open {
            return Ok(operator(LOCAL_OPERATOR));
        }
        let token = token.filter(|token| !token.is_empty()).ok_or(AuthError::Missing)?;
        if let Some(jwt) = token.strip_prefix(WORKER_PREFIX) {
            return self.worker(jwt);
        }
        if let Some(jwt) = token.strip_prefix(sign_in::PREFIX) {
            return self.browser(jwt);
        }
        if let Some(name) = self.operators.find(token) {
            return Ok(operator(name));
        }
        self.user(token).await
    }

    /// Fails in a process that has no signing key: its row in the registry lacks the permission.
    pub fn worker_token(
        &self,
        sandbox: &SandboxId,
        generation: u32,
        expires_at: Timestamp,
    ) -> Result<String, Error> {
        let key = self.worker_signing_key.as_ref();
        let key = key.ok_or_else(|| Error::Internal("this function may not issue worker tokens".into()))?;
        let claims = WorkerClaims {
            aud: WORKER_AUDIENCE.into(),
            sub: sandbox.to_string(),
            generation,
            exp: expires_at.as_secs(),
        };
        let jwt = jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, key);
        Ok(format!("{WORKER_PREFIX}{}", jwt.expect("plain claims can be signed with an Ed25519 key")))
    }

    fn worker(&self, jwt: &str) -> Result<Identity, AuthError> {
        let mut rules = self.rules(Algorithm::EdDSA);
        rules.set_audience(&[WORKER_AUDIENCE]);
        let key = self.worker_verification_key.as_ref().ok_or(AuthError::Invalid)?;
        let claims = jsonwebtoken::decode::<WorkerClaims>(jwt, key, &rules);
        let claims = claims.map_err(|_| AuthError::Invalid)?.claims;
        let sandbox = SandboxId::parse(claims.sub).map_err(|_| AuthError::Invalid)?;
        #[expect(clippy::cast_precision_loss, reason = "values that lose precision are out of range")]
        let expires_at = self.not_expired(timestamp(claims.exp as f64)?)?;
        Ok(Identity { principal: Principal::Worker { sandbox, generation: claims.generation }, expires_at })
    }

    async fn user(&self, jwt: &str) -> Result<Identity, AuthError> {
        let header = jsonwebtoken::decode_header(jwt).map_err(|_| AuthError::Invalid)?;
        let mut rules = self.rules(header.alg);
        match &self.issuer {
            Some(issuer) => {
                rules.set_issuer(&[issuer]);
                rules.required_spec_claims.insert("iss".into());
            }
            None => rules.iss = None,
        }
        match &self.audience {
            Some(audience) => {
                rules.set_audience(&[audience]);
                rules.required_spec_claims.insert("aud".into());
            }
            None => rules.validate_aud = false,
        }
        // The algorithm selects the kind of key, never the other way round.
        let key = match (header.alg, &self.user_verification_key, &self.jwks) {
            (Algorithm::HS256, Some(secret), _) => secret.clone(),
            (Algorithm::RS256 | Algorithm::ES256, _, Some(jwks)) => {
                jwks.key(header.kid.as_deref(), header.alg, self.clock.now()).await?
            }
            _ => return Err(AuthError::Invalid),
        };
        let claims = jsonwebtoken::decode::<UserClaims>(jwt, &key, &rules);
        let claims = claims.map_err(|_| AuthError::Invalid)?.claims;
        if claims.kind.as_deref().is_some_and(|kind| kind != "access") {
            return Err(AuthError::Invalid);
        }
        if !is_subject(&claims.sub) {
            return Err(AuthError::Invalid);
        }
        let not_before = claims.nbf.map(timestamp).transpose()?;
        if not_before.is_some_and(|from| from > self.clock.now().plus_secs(LEEWAY_SECS)) {
            return Err(AuthError::Invalid);
        }
        let expires_at = self.not_expired(timestamp(claims.exp)?)?;
        let org = claims.org.or(claims.org_id).or(claims.organization_id).ok_or(AuthError::Invalid)?;
        let org = OrgId::parse(org).map_err(|_| AuthError::Invalid)?;
        let role = match claims.role.as_deref() {
            Some("admin" | "owner") => Role::Admin,
            Some("member") => Role::Member,
            // Unknown roles get the fewest permissions.
            _ => Role::Viewer,
        };
        Ok(Identity { principal: Principal::User { id: claims.sub, org, role }, expires_at })
    }

    /// Expiry is checked against our own clock, so that tests can set it. Callers that validate a claim must also require it:
    /// the library accepts a token that omits it.
    fn rules(&self, algorithm: Algorithm) -> Validation {
        let mut rules = Validation::new(algorithm);
        rules.validate_exp = false;
        rules.required_spec_claims.clear();
        rules
    }

    fn not_expired(&self, expires_at: Timestamp) -> Result<Option<Timestamp>, AuthError> {
        if expires_at <= self.clock.now() { Err(AuthError::Expired) } else { Ok(Some(expires_at)) }
    }
}

/// Omits the keys: debug output ends up in logs.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("open", &self.open).finish_non_exhaustive()
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn operator(name: &str) -> Identity {
    Identity { principal: Principal::operator(name), expires_at: None }
}

/// A time in a token, which may have a fraction (RFC 7519, section 2).
#[expect(clippy::cast_possible_truncation, reason = "the value is in the range")]
fn timestamp(secs: f64) -> Result<Timestamp, AuthError> {
    match (0.0..=MAX_SECS).contains(&secs) {
        true => Ok(Timestamp::from_secs(secs as i64)),
        false => Err(AuthError::Invalid),
    }
}

/// It is stored with what the user does, and shown. Control characters and look-alikes have no place in it, nor has what
/// would name an operator.
fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT_CHARS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && !looks_like_operator(text)
}

#[cfg(test)]
mod tests;
