//! Public keys of an OIDC provider, fetched when needed and kept for a while.

use super::AuthError;
use domain::Timestamp;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey};
use std::sync::Arc;
use std::time::Duration;

/// Keys are fetched again after this long, or when a token names one that is not known.
pub(super) const KEEP_SECS: i64 = 600;
/// An unknown key makes us ask again at most this often: anybody can name an unknown key.
pub(super) const ASK_AGAIN_SECS: i64 = 30;

/// The keys of one provider.
pub(super) struct Jwks {
    url: String,
    client: reqwest::Client,
    /// Async, because it is held while the keys are fetched: whoever comes meanwhile needs the same keys.
    known: tokio::sync::Mutex<Option<(Arc<JwkSet>, Timestamp)>>,
}

impl Jwks {
    pub(super) fn new(url: String) -> Self {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build().unwrap_or_default();
        Self { url, client, known: tokio::sync::Mutex::new(None) }
    }

    pub(super) async fn key(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Result<DecodingKey, AuthError> {
        let mut known = self.known.lock().await;
        if let Some((keys, fetched)) = known.as_ref() {
            let age = now.as_secs() - fetched.as_secs();
            match find(keys, kid, algorithm) {
                Some(key) if age < KEEP_SECS => return decoding_key(key),
                None if age < ASK_AGAIN_SECS => return Err(AuthError::Invalid),
                _ => {}
            }
        }
        let keys = Arc::new(self.fetch().await.map_err(|e| AuthError::Unavailable(Box::new(e)))?);
        *known = Some((keys.clone(), now));
        find(&keys, kid, algorithm).ok_or(AuthError::Invalid).and_then(decoding_key)
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
