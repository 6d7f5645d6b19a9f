//! Sign-in of an operator's browser on a local plane: a link carries a one-time code, and the console exchanges the code
//! for a token that expires.
//!
//! Deliberately absent: a limit on wrong codes. A code has 244 random bits and cannot be guessed, and a limit would allow
//! every process of the machine to lock the operator out.

use super::{AuthError, Authenticator, Identity, operator, timestamp};
use app::{Clock, Error, ids};
use domain::Timestamp;
use jsonwebtoken::{Algorithm, Header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// Time to open a link. A code that stays in the history of a browser or of a terminal is worthless afterwards.
pub const CODE_SECS: i64 = 600;
/// Lifetime of a browser's token.
pub const SIGN_IN_SECS: i64 = 7 * 24 * 3600;
/// Starts the token of a browser.
pub(super) const PREFIX: &str = "sit_";
const AUDIENCE: &str = "sunaba-console";

/// The codes that are not used yet, as hashes. They are in memory: a restarted plane prints a new link.
pub struct SignInCodes {
    clock: Arc<dyn Clock>,
    unused: Mutex<BTreeMap<CodeHash, Code>>,
}

type CodeHash = [u8; 32];

struct Code {
    operator: String,
    expires_at: Timestamp,
}

impl SignInCodes {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, unused: Mutex::default() }
    }

    /// A new code that signs in as this operator.
    pub fn create(&self, operator: &str) -> String {
        let code = ids::secret();
        let now = self.clock.now();
        let mut unused = self.unused();
        unused.retain(|_, other| other.expires_at > now);
        let operator = operator.to_owned();
        unused.insert(hash(&code), Code { operator, expires_at: now.plus_secs(CODE_SECS) });
        code
    }

    /// The operator whose code this is. A code is used once: of concurrent callers, one gets the operator.
    pub fn exchange(&self, code: &str) -> Option<String> {
        let found = self.unused().remove(&hash(code))?;
        (found.expires_at > self.clock.now()).then_some(found.operator)
    }

    fn unused(&self) -> MutexGuard<'_, BTreeMap<CodeHash, Code>> {
        self.unused.lock().expect("no code panics while it holds the codes")
    }
}

impl fmt::Debug for SignInCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInCodes").finish_non_exhaustive()
    }
}

fn hash(code: &str) -> CodeHash {
    Sha256::digest(code).into()
}

#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    aud: String,
    /// Name of the operator.
    sub: String,
    exp: i64,
}

impl Authenticator {
    /// A token for the browser of an operator. Fails in a process that has no key for it.
    pub fn sign_in_token(&self, operator: &str, expires_at: Timestamp) -> Result<String, Error> {
        let key = self.sign_in_keys.as_ref().map(|(signing, _)| signing);
        let key = key.ok_or_else(|| Error::Internal("this plane issues no sign-in tokens".into()))?;
        let claims = Claims { aud: AUDIENCE.into(), sub: operator.into(), exp: expires_at.as_secs() };
        let jwt = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, key);
        Ok(format!("{PREFIX}{}", jwt.expect("plain claims can be signed with HS256")))
    }

    pub(super) fn browser(&self, jwt: &str) -> Result<Identity, AuthError> {
        let mut rules = self.rules(Algorithm::HS256);
        rules.set_audience(&[AUDIENCE]);
        let (_, key) = self.sign_in_keys.as_ref().ok_or(AuthError::Invalid)?;
        let claims = jsonwebtoken::decode::<Claims>(jwt, key, &rules);
        let claims = claims.map_err(|_| AuthError::Invalid)?.claims;
        if !self.operators.contains(&claims.sub) {
            return Err(AuthError::Invalid);
        }
        #[expect(clippy::cast_precision_loss, reason = "values that lose precision are out of range")]
        let expires_at = self.not_expired(timestamp(claims.exp as f64)?)?;
        Ok(Identity { expires_at, ..operator(&claims.sub) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Keys, Operators};
    use super::*;
    use app::clock::ManualClock;

    fn clock() -> Arc<ManualClock> {
        Arc::new(ManualClock::at(Timestamp::from_secs(1_800_000_000)))
    }

    #[test]
    fn code_is_used_once() {
        let codes = SignInCodes::new(clock());
        let (code, other) = (codes.create("alice"), codes.create("bob"));
        assert_eq!(codes.exchange("an unknown code"), None);
        assert_eq!(codes.exchange(&code).as_deref(), Some("alice"));
        assert_eq!(codes.exchange(&code), None);
        assert_eq!(codes.exchange(&other).as_deref(), Some("bob"));
    }

    #[test]
    fn one_of_concurrent_uses_of_a_code_succeeds() {
        let codes = SignInCodes::new(clock());
        let code = codes.create("alice");
        let successes = std::thread::scope(|scope| {
            let uses: Vec<_> = (0..8).map(|_| scope.spawn(|| codes.exchange(&code))).collect();
            uses.into_iter().filter_map(|used| used.join().unwrap()).count()
        });
        assert_eq!(successes, 1);
    }

    #[test]
    fn expired_code_is_rejected_and_removed() {
        let clock = clock();
        let codes = SignInCodes::new(clock.clone());
        let (in_time, late) = (codes.create("alice"), codes.create("alice"));
        clock.advance_secs(CODE_SECS - 1);
        assert!(codes.exchange(&in_time).is_some());
        clock.advance_secs(1);
        assert_eq!(codes.exchange(&late), None);
        codes.create("alice");
        clock.advance_secs(CODE_SECS);
        codes.create("alice");
        assert_eq!(codes.unused().len(), 1, "expired codes take no memory");
    }

    #[test]
    fn codes_are_kept_as_hashes() {
        let codes = SignInCodes::new(clock());
        let code = codes.create("alice");
        assert_eq!(code.len(), 64);
        assert_eq!(codes.unused().keys().copied().collect::<Vec<_>>(), [hash(&code)]);
        assert!(!format!("{codes:?}").contains(&code));
    }

    fn authenticator(key: Option<&str>, operators: Operators, clock: Arc<ManualClock>) -> Authenticator {
        let keys = Keys { sign_in_key: key.map(str::to_owned), operators, ..Keys::none() };
        Authenticator::new(&keys, clock)
    }

    #[tokio::test]
    async fn sign_in_token_is_its_operator_until_it_expires() {
        let clock = clock();
        let of = |key, name| authenticator(key, Operators::one(name, "a token of a test"), clock.clone());
        let plane = of(Some("a key of the tests"), "alice");
        let token = plane.sign_in_token("alice", clock.now().plus_secs(SIGN_IN_SECS)).unwrap();
        let identity = plane.authenticate(Some(&token)).await.unwrap();
        assert_eq!(identity.principal, domain::access::Principal::operator("alice"));
        assert_eq!(identity.expires_at, Some(clock.now().plus_secs(SIGN_IN_SECS)));
        let other_key = of(Some("another key of the tests"), "alice");
        let no_key = of(None, "alice");
        let no_longer_operator = of(Some("a key of the tests"), "bob");
        for (plane, why) in [
            (&other_key, "the key differs"),
            (&no_key, "a plane without a key accepts none"),
            (&no_longer_operator, "the operator was removed"),
        ] {
            let refused = plane.authenticate(Some(&token)).await;
            assert!(matches!(refused, Err(AuthError::Invalid)), "{why}: {refused:?}");
        }
        assert!(no_key.sign_in_token("alice", clock.now()).is_err());
        clock.advance_secs(SIGN_IN_SECS);
        assert!(matches!(plane.authenticate(Some(&token)).await, Err(AuthError::Expired)));
    }
}
