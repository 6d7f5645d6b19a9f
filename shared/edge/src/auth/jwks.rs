//! Public keys of an OIDC provider, fetched when needed and kept for a while.

use super::AuthError;
use domain::Timestamp;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Keys are fetched again after this long, or when a token names one that is not known.
pub(super) const KEEP_SECS: i64 = 600;
/// An unknown key makes us ask again at most this often: anybody can name an unknown key.
pub(super) const ASK_AGAIN_SECS: i64 = 30;

/// After a failure the provider is left alone for this long.
const LEAVE_ALONE_SECS: i64 = 5;

const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));

/// The keys of one provider.
pub(super) struct Jwks {
    url: String,
    client: reqwest::Client,
    known: Mutex<Known>,
    /// Held by the one who fetches. Whoever finds their key among the known ones does not wait for it.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default, Clone)]
struct Known {
    keys: Option<Arc<JwkSet>>,
    fetched_at: Option<Timestamp>,
    failed_at: Option<Timestamp>,
}

impl Jwks {
    pub(super) fn new(url: String) -> Self {
        let client =
            reqwest::Client::builder().user_agent(USER_AGENT).timeout(Duration::from_secs(3)).build();
        let client = client.unwrap_or_default();
        Self { url, client, known: Mutex::default(), fetching: tokio::sync::Mutex::new(()) }
    }

    pub(super) async fn key(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Result<DecodingKey, AuthError> {
        if let Some(answer) = self.recall(kid, algorithm, now) {
            return answer;
        }
        let _turn = self.fetching.lock().await;
        // Somebody may have fetched, or failed to, while we waited.
        if let Some(answer) = self.recall(kid, algorithm, now) {
            return answer;
        }
        match self.fetch().await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                *self.known() = Known { keys: Some(keys.clone()), fetched_at: Some(now), failed_at: None };
                find(&keys, kid, algorithm).ok_or(AuthError::Invalid).and_then(decoding_key)
            }
            Err(error) => {
                self.known().failed_at = Some(now);
                tracing::warn!("Could not fetch the users' keys: {}", app::error::chain(&error));
                self.recall(kid, algorithm, now).unwrap_or(Err(AuthError::Unavailable(Box::new(error))))
            }
        }
    }

    /// An answer without asking the provider; `None` if it must be asked. Keys that are old are good enough while
    /// the provider cannot be reached.
    fn recall(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Option<Result<DecodingKey, AuthError>> {
        let known = self.known().clone();
        let since = |at: Option<Timestamp>| at.map_or(i64::MAX, |at| now.as_secs() - at.as_secs());
        let failing = since(known.failed_at) < LEAVE_ALONE_SECS;
        match known.keys.as_ref().and_then(|keys| find(keys, kid, algorithm)) {
            Some(key) if failing || since(known.fetched_at) < KEEP_SECS => Some(decoding_key(key)),
            None if since(known.fetched_at) < ASK_AGAIN_SECS => Some(Err(AuthError::Invalid)),
            None if failing => {
                Some(Err(AuthError::Unavailable("the provider was just asked in vain".into())))
            }
            _ => None,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no code panics while it holds the keys")
    }

    async fn fetch(&self) -> Result<JwkSet, reqwest::Error> {
        self.client.get(&self.url).send().await?.error_for_status()?.json().await
    }
}

/// The key that a token names; without a name, the only one that fits its algorithm.
fn find<'a>(keys: &'a JwkSet, kid: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let mut fitting = keys.keys.iter().filter(|key| {
        matches!(
            (&key.algorithm, algorithm),
            (AlgorithmParameters::RSA(_), Algorithm::RS256)
                | (AlgorithmParameters::EllipticCurve(_), Algorithm::ES256)
        )
    });
    match kid {
        Some(kid) => fitting.find(|key| key.common.key_id.as_deref() == Some(kid)),
        None => fitting.next().filter(|_| fitting.next().is_none()),
    }
}

fn decoding_key(key: &Jwk) -> Result<DecodingKey, AuthError> {
    DecodingKey::from_jwk(key).map_err(|_| AuthError::Invalid)
}
