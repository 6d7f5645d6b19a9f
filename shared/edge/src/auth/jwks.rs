//! Public keys of an OIDC provider, fetched on demand and cached.

use super::AuthError;
use domain::Timestamp;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Cache lifetime. An unknown key id causes an earlier refresh.
pub(super) const CACHE_SECS: i64 = 600;
/// Minimum interval between refreshes for unknown key ids, which any caller can send.
pub(super) const REFRESH_INTERVAL_SECS: i64 = 30;

/// Backoff after a failed fetch.
const FAILURE_BACKOFF_SECS: i64 = 5;

const USER_AGENT: &str = concat!("sunaba/", env!("CARGO_PKG_VERSION"));

pub(super) struct Jwks {
    url: String,
    client: reqwest::Client,
    cache: Mutex<Cache>,
    /// Held during a fetch. A caller whose key is cached does not wait for it.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default, Clone)]
struct Cache {
    keys: Option<Arc<JwkSet>>,
    fetched_at: Option<Timestamp>,
    failed_at: Option<Timestamp>,
}

impl Jwks {
    pub(super) fn new(url: String) -> Self {
        let client =
            reqwest::Client::builder().user_agent(USER_AGENT).timeout(Duration::from_secs(3)).build();
        let client = client.unwrap_or_default();
        Self { url, client, cache: Mutex::default(), fetching: tokio::sync::Mutex::new(()) }
    }

    pub(super) async fn key(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Result<DecodingKey, AuthError> {
        if let Some(result) = self.cached(kid, algorithm, now) {
            return result;
        }
        let _guard = self.fetching.lock().await;
        // Another caller may have fetched, or failed to, in the meantime.
        if let Some(result) = self.cached(kid, algorithm, now) {
            return result;
        }
        match self.fetch().await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                *self.cache() = Cache { keys: Some(keys.clone()), fetched_at: Some(now), failed_at: None };
                find(&keys, kid, algorithm).ok_or(AuthError::Invalid).and_then(decoding_key)
            }
            Err(error) => {
                self.cache().failed_at = Some(now);
                tracing::warn!(
                    "Cannot fetch the JWKS of the identity provider: {}",
                    app::error::chain(&error)
                );
                self.cached(kid, algorithm, now).unwrap_or(Err(AuthError::Unavailable(Box::new(error))))
            }
        }
    }

    /// The result from the cache; `None` if the keys must be fetched. Stale keys are used while the provider is unreachable.
    fn cached(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Option<Result<DecodingKey, AuthError>> {
        let cache = self.cache().clone();
        let since = |at: Option<Timestamp>| at.map_or(i64::MAX, |at| now.as_secs() - at.as_secs());
        let failing = since(cache.failed_at) < FAILURE_BACKOFF_SECS;
        match cache.keys.as_ref().and_then(|keys| find(keys, kid, algorithm)) {
            Some(key) if failing || since(cache.fetched_at) < CACHE_SECS => Some(decoding_key(key)),
            None if since(cache.fetched_at) < REFRESH_INTERVAL_SECS => Some(Err(AuthError::Invalid)),
            None if failing => {
                Some(Err(AuthError::Unavailable("the last request to the identity provider failed".into())))
            }
            _ => None,
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().expect("no code panics while it holds the cache")
    }

    async fn fetch(&self) -> Result<JwkSet, reqwest::Error> {
        self.client.get(&self.url).send().await?.error_for_status()?.json().await
    }
}

/// The key with this id; without an id, the only key that fits the algorithm.
fn find<'a>(keys: &'a JwkSet, kid: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let mut candidates = keys.keys.iter().filter(|key| {
        matches!(
            (&key.algorithm, algorithm),
            (AlgorithmParameters::RSA(_), Algorithm::RS256)
                | (AlgorithmParameters::EllipticCurve(_), Algorithm::ES256)
        )
    });
    match kid {
        Some(kid) => candidates.find(|key| key.common.key_id.as_deref() == Some(kid)),
        None => candidates.next().filter(|_| candidates.next().is_none()),
    }
}

fn decoding_key(key: &Jwk) -> Result<DecodingKey, AuthError> {
    DecodingKey::from_jwk(key).map_err(|_| AuthError::Invalid)
}
