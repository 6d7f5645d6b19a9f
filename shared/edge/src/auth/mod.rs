//! Who is asking: operator, user or worker.
//!
//! Which kind a token is of shows before it is checked, so that no key is ever tried on a token that was made
//! with another: worker tokens start with `swt_`, the operator's is one known string, everything else must be
//! a user's JWT.

mod jwks;

use app::{Clock, Error};
use domain::access::{Principal, Role};
use domain::{OrgId, SandboxId, Timestamp};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use jwks::Jwks;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// A secret that signs tokens has at least this many characters: a shorter one can be guessed from a token.
pub const MIN_SECRET_CHARS: usize = 32;
/// The operator's token has at least this many: it can only be tried out.
pub const MIN_TOKEN_CHARS: usize = 16;

/// What the authenticator is made from.
#[derive(Clone)]
pub struct Keys {
    /// Signs and checks worker tokens.
    pub worker_secret: String,
    /// The operator's token, where there is one.
    pub operator_token: Option<String>,
    /// Checks users' HS256 tokens.
    pub user_secret: Option<String>,
    /// Where the keys for users' RS256 and ES256 tokens are.
    pub jwks_url: Option<String>,
    /// The `iss` that users' tokens must have, if any.
    pub issuer: Option<String>,
    /// The `aud` that users' tokens must have, if any.
    pub audience: Option<String>,
    /// No authentication: everybody is the operator. A host allows this on a loopback address only.
    pub open: bool,
}

impl Keys {
    /// Keys that nobody has: no token is good. For what asks nobody who they are.
    pub fn unknown() -> Self {
        Self {
            worker_secret: app::ids::secret(),
            operator_token: None,
            user_secret: None,
            jwks_url: None,
            issuer: None,
            audience: None,
            open: false,
        }
    }
}

/// Tells who is asking.
pub struct Authenticator {
    open: bool,
    operator: Option<[u8; 32]>,
    sign_worker: EncodingKey,
    check_worker: DecodingKey,
    check_user: Option<DecodingKey>,
    jwks: Option<Jwks>,
    issuer: Option<String>,
    audience: Option<String>,
    clock: Arc<dyn Clock>,
}

/// Who it is, and until when that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who.
    pub principal: Principal,
    /// When the token ends.
    pub until: Option<Timestamp>,
}

/// Why it is not known who is asking.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No token came.
    #[error("A token is missing: send Authorization: Bearer <token>.")]
    Missing,
    /// The token is not one of ours, or spoiled.
    #[error("The token is not valid.")]
    Invalid,
    /// The token has ended.
    #[error("The token has expired.")]
    Expired,
    /// The place with the keys does not answer.
    #[error("The token cannot be checked right now.")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AuthError {
    /// As a use case would say it.
    pub fn into_app(self) -> Error {
        match self {
            Self::Missing => Error::Unauthorized("A token is missing: send Authorization: Bearer <token>."),
            Self::Invalid => Error::Unauthorized("The token is not valid."),
            Self::Expired => Error::Unauthorized("The token has expired."),
            Self::Unavailable(source) => Error::Unavailable(source),
        }
    }
}

/// Clocks of providers may be ahead of ours by this much.
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
    /// Providers differ in what they call it; some send several.
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

impl Authenticator {
    /// From these keys.
    pub fn new(keys: &Keys, clock: Arc<dyn Clock>) -> Self {
        Self {
            open: keys.open,
            operator: keys.operator_token.as_deref().map(fingerprint),
            sign_worker: EncodingKey::from_secret(keys.worker_secret.as_bytes()),
            check_worker: DecodingKey::from_secret(keys.worker_secret.as_bytes()),
            check_user: keys.user_secret.as_ref().map(|secret| DecodingKey::from_secret(secret.as_bytes())),
            jwks: keys.jwks_url.clone().map(Jwks::new),
            issuer: keys.issuer.clone(),
            audience: keys.audience.clone(),
            clock,
        }
    }

    /// Who a token belongs to.
    pub async fn authenticate(&self, token: Option<&str>) -> Result<Identity, AuthError> {
        if self.open {
            return Ok(Identity { principal: Principal::Operator, until: None });
        }
        let token = token.filter(|token| !token.is_empty()).ok_or(AuthError::Missing)?;
        if let Some(jwt) = token.strip_prefix(WORKER_PREFIX) {
            return self.worker(jwt);
        }
        // Comparing fingerprints takes the same time wherever two tokens differ.
        if self.operator.is_some_and(|known| known == fingerprint(token)) {
            return Ok(Identity { principal: Principal::Operator, until: None });
        }
        self.user(token).await
    }

    /// A token for the worker of one sandbox.
    pub fn worker_token(&self, sandbox: &SandboxId, generation: u32, expires_at: Timestamp) -> String {
        let claims = WorkerClaims {
            aud: WORKER_AUDIENCE.into(),
            sub: sandbox.to_string(),
            generation,
            exp: expires_at.as_secs(),
        };
        let jwt = jsonwebtoken::encode(&Header::default(), &claims, &self.sign_worker);
        format!("{WORKER_PREFIX}{}", jwt.expect("plain claims can be signed with a secret"))
    }

    fn worker(&self, jwt: &str) -> Result<Identity, AuthError> {
        let mut rules = self.rules(Algorithm::HS256);
        rules.set_audience(&[WORKER_AUDIENCE]);
        let claims = jsonwebtoken::decode::<WorkerClaims>(jwt, &self.check_worker, &rules);
        let claims = claims.map_err(|_| AuthError::Invalid)?.claims;
        let sandbox = SandboxId::parse(claims.sub).map_err(|_| AuthError::Invalid)?;
        let until = self.still_good(Timestamp::from_secs(claims.exp))?;
        Ok(Identity { principal: Principal::Worker { sandbox, generation: claims.generation }, until })
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
        // The algorithm decides the kind of key, never the other way round.
        let key = match (header.alg, &self.check_user, &self.jwks) {
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
        if claims.nbf.is_some_and(|from| moment(from) > self.clock.now().plus_secs(LEEWAY_SECS)) {
            return Err(AuthError::Invalid);
        }
        let until = self.still_good(moment(claims.exp))?;
        let org = claims.org.or(claims.org_id).or(claims.organization_id).ok_or(AuthError::Invalid)?;
        let org = OrgId::parse(org).map_err(|_| AuthError::Invalid)?;
        let role = match claims.role.as_deref() {
            Some("admin" | "owner") => Role::Admin,
            Some("member") => Role::Member,
            // Whatever else it says, it is not a permission that we know.
            _ => Role::Viewer,
        };
        Ok(Identity { principal: Principal::User { id: claims.sub, org, role }, until })
    }

    /// Times are checked by our own clock, so that tests can set it. A claim that is checked must be required too:
    /// the library lets a token pass that leaves it out.
    fn rules(&self, algorithm: Algorithm) -> Validation {
        let mut rules = Validation::new(algorithm);
        rules.validate_exp = false;
        rules.required_spec_claims.clear();
        rules
    }

    fn still_good(&self, until: Timestamp) -> Result<Option<Timestamp>, AuthError> {
        if until <= self.clock.now() { Err(AuthError::Expired) } else { Ok(Some(until)) }
    }
}

/// Keys are not for logs.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("open", &self.open).finish_non_exhaustive()
    }
}

/// The token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn fingerprint(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[expect(clippy::cast_possible_truncation, reason = "a float beyond the range saturates, which is still no")]
fn moment(secs: f64) -> Timestamp {
    Timestamp::from_secs(secs as i64)
}

#[cfg(test)]
mod tests;
