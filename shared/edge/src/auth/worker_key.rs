//! The key of worker tokens: Ed25519, so that a function that only verifies tokens cannot issue one.

use super::operators::{decode_hex, hex};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use jsonwebtoken::{DecodingKey, EncodingKey};
use sha2::{Digest, Sha256};
use std::fmt;

/// Signs worker tokens. Only functions that issue tokens have it.
#[derive(Clone)]
pub struct SigningKey {
    seed: [u8; 32],
    public: PublicKey,
}

/// Verifies worker tokens. It is not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// The hash is of this and the secret, so that a secret that is used elsewhere gives another key.
const CONTEXT: &str = "sunaba worker tokens, Ed25519\n";

/// What precedes the seed of an Ed25519 key in PKCS #8: <https://datatracker.ietf.org/doc/html/rfc8410#section-7>
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

impl SigningKey {
    /// The key of a secret with at least [`super::MIN_SECRET_CHARS`] random characters. A secret of any form, such as one
    /// that Secrets Manager generates, has a key.
    pub fn of_secret(secret: &str) -> Self {
        let seed: [u8; 32] = Sha256::new().chain_update(CONTEXT).chain_update(secret).finalize().into();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed");
        let public = pair.public_key().as_ref().try_into().expect("a public key of Ed25519 has 32 bytes");
        Self { seed, public: PublicKey(public) }
    }

    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(super) fn encoding_key(&self) -> EncodingKey {
        EncodingKey::from_ed_der(&[PKCS8_PREFIX.as_slice(), &self.seed].concat())
    }
}

impl PublicKey {
    /// Verifies no token.
    pub const NONE: Self = Self([0; 32]);

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        decode_hex(text.trim()).map(Self)
    }

    pub(super) fn decoding_key(self) -> DecodingKey {
        // The library expects the plain key here, without the frame of DER.
        DecodingKey::from_ed_der(&self.0)
    }
}

/// As [`PublicKey::parse`] reads it.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Omits the seed: debug output ends up in logs.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_follows_from_the_secret_and_does_not_reveal_it() {
        let key = SigningKey::of_secret("a secret with enough random characters");
        let public = key.public().to_string();
        assert_eq!(PublicKey::parse(&public), Some(key.public()));
        assert_eq!(key.public(), SigningKey::of_secret("a secret with enough random characters").public());
        assert_ne!(key.public(), SigningKey::of_secret("another secret with random characters").public());
        assert!(!format!("{key:?}").contains("seed"));
        for wrong in ["", "ab", &public[1..], &"g".repeat(64)] {
            assert_eq!(PublicKey::parse(wrong), None, "{wrong}");
        }
    }
}
