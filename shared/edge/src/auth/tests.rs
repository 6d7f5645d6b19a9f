use super::jwks::{CACHE_SECS, REFRESH_INTERVAL_SECS};
use super::*;
use app::clock::ManualClock;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::Jwk;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const NOW: i64 = 1_800_000_000;
const SECRET: &str = "the users' secret in these tests";

fn worker_key() -> SigningKey {
    SigningKey::of_secret("the workers' secret in these tests")
}

fn keys() -> Keys {
    Keys {
        worker_signing_key: Some(worker_key()),
        worker_public_key: Some(worker_key().public()),
        operators: Operators::one("night-shift", "the operator's token"),
        sign_in_key: Some("the key of browsers in the tests".into()),
        user_secret: Some(SECRET.into()),
        jwks_url: None,
        issuer: None,
        audience: None,
        open: false,
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_secs(NOW)))
}

fn signed(algorithm: Algorithm, kid: Option<&str>, claims: &Value, key: &EncodingKey) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

fn claims() -> Value {
    json!({"sub": "u-1", "org": "acme", "role": "member", "exp": NOW + 60})
}

fn hs256(claims: &Value) -> String {
    signed(Algorithm::HS256, None, claims, &EncodingKey::from_secret(SECRET.as_bytes()))
}

fn acme_member() -> Principal {
    Principal::User { id: "u-1".into(), org: OrgId::parse("acme").unwrap(), role: Role::Member }
}

#[tokio::test]
async fn operator_worker_and_user_tokens_are_distinguished() {
    let clock = clock();
    let authenticator = Authenticator::new(&keys(), clock.clone());
    let sandbox = SandboxId::parse("s-1").unwrap();
    let worker = authenticator.worker_token(&sandbox, 3, clock.now().plus_secs(10)).unwrap();
    let authenticate =
        async |token: &str| authenticator.authenticate(Some(token)).await.map(|id| id.principal);
    assert_eq!(authenticate("the operator's token").await.unwrap(), Principal::operator("night-shift"));
    assert_eq!(authenticate(&worker).await.unwrap(), Principal::Worker { sandbox, generation: 3 });
    assert_eq!(authenticate(&hs256(&claims())).await.unwrap(), acme_member());
    assert!(matches!(authenticate("").await, Err(AuthError::Missing)));
    assert!(matches!(authenticate("swt_").await, Err(AuthError::Invalid)));
    assert!(matches!(
        authenticate(worker.strip_prefix(WORKER_PREFIX).unwrap()).await,
        Err(AuthError::Invalid)
    ));
    clock.advance_secs(10);
    assert!(matches!(authenticate(&worker).await, Err(AuthError::Expired)));
    clock.advance_secs(50);
    assert!(matches!(authenticate(&hs256(&claims())).await, Err(AuthError::Expired)));
}

/// A function that only verifies has no key with which a token could be made.
#[tokio::test]
async fn public_key_verifies_worker_tokens_and_issues_none() {
    let (clock, sandbox) = (clock(), SandboxId::parse("s-1").unwrap());
    let expires_at = clock.now().plus_secs(10);
    let issuing = Authenticator::new(&keys(), clock.clone());
    let verifying = Authenticator::new(&Keys { worker_signing_key: None, ..keys() }, clock.clone());
    let token = issuing.worker_token(&sandbox, 3, expires_at).unwrap();
    let worker = Principal::Worker { sandbox: sandbox.clone(), generation: 3 };
    assert_eq!(verifying.authenticate(Some(&token)).await.unwrap().principal, worker);
    assert!(verifying.worker_token(&sandbox, 3, expires_at).is_err());
    // The public key is known; as a secret of HS256 it must verify nothing.
    let claims = json!({"aud": WORKER_AUDIENCE, "sub": "s-1", "generation": 3, "exp": NOW + 10});
    let public = worker_key().public().to_string();
    for forged in [
        signed(Algorithm::HS256, None, &claims, &EncodingKey::from_secret(public.as_bytes())),
        signed(Algorithm::EdDSA, None, &claims, &SigningKey::of_secret(&public).encoding_key()),
    ] {
        let refused = verifying.authenticate(Some(&format!("{WORKER_PREFIX}{forged}"))).await;
        assert!(matches!(refused, Err(AuthError::Invalid)), "{refused:?}");
    }
}

#[tokio::test]
async fn user_token_requires_subject_org_and_expiry() {
    let keys = Keys { issuer: Some("https://id.example".into()), audience: Some("sunaba".into()), ..keys() };
    let authenticator = Authenticator::new(&keys, clock());
    let complete = json!({
        "sub": "u-1", "org_id": "acme", "role": "member", "exp": NOW + 60, "iss": "https://id.example", "aud": ["sunaba"],
    });
    let check = async |change: Value| {
        let mut claims = complete.clone();
        for (name, value) in change.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        authenticator.authenticate(Some(&hs256(&claims))).await.map(|id| id.principal)
    };
    assert_eq!(check(json!({})).await.unwrap(), acme_member());
    assert_eq!(check(json!({"nbf": NOW + 30, "organization_id": "other"})).await.unwrap(), acme_member());
    assert_eq!(check(json!({"exp": 253_402_300_799_i64, "nbf": 1.5})).await.unwrap(), acme_member());
    for subject in ["auth0|5f7c8ec7c33c6c004bbafe82", "alice@example.com", "operators", &"u".repeat(255)] {
        check(json!({"sub": subject})).await.unwrap();
    }
    for change in [
        json!({"sub": null}),
        json!({"org_id": null}),
        json!({"org_id": "a b"}),
        json!({"org_id": "*"}),
        json!({"exp": null}),
        json!({"exp": "soon"}),
        json!({"exp": 1e300}),
        json!({"exp": -1e300}),
        json!({"exp": 253_402_300_800_i64}),
        json!({"nbf": -1e300}),
        json!({"sub": ""}),
        json!({"sub": "u".repeat(256)}),
        json!({"sub": "u-1\nSANDBOX_ENDED"}),
        json!({"sub": "\u{202e}u-1"}),
        json!({"sub": "u 1"}),
        json!({"iss": "https://evil.example"}),
        json!({"iss": null}),
        json!({"aud": "something else"}),
        json!({"aud": null}),
        json!({"type": "refresh"}),
        json!({"nbf": NOW + 31}),
    ] {
        assert!(matches!(check(change.clone()).await, Err(AuthError::Invalid)), "{change}");
    }
}

#[tokio::test]
async fn user_whose_subject_looks_like_an_operator_is_rejected() {
    let authenticator = Authenticator::new(&keys(), clock());
    for subject in ["operator", "operator:", "operator:alice", "Operator:alice", "OPERATOR"] {
        let claims = json!({"sub": subject, "org": "acme", "role": "member", "exp": NOW + 60});
        let result = authenticator.authenticate(Some(&hs256(&claims))).await;
        assert!(matches!(result, Err(AuthError::Invalid)), "{subject}");
    }
}

#[tokio::test]
async fn unsigned_and_wrongly_signed_tokens_are_rejected() {
    let authenticator = Authenticator::new(&keys(), clock());
    let other = EncodingKey::from_secret(b"another secret");
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1Iiwib3JnIjoiYWNtZSIsImV4cCI6OTk5OTk5OTk5OX0.";
    for token in [
        signed(Algorithm::HS256, None, &claims(), &other),
        signed(Algorithm::HS512, None, &claims(), &EncodingKey::from_secret(SECRET.as_bytes())),
        unsigned.to_owned(),
    ] {
        assert!(matches!(authenticator.authenticate(Some(&token)).await, Err(AuthError::Invalid)), "{token}");
    }
}

/// Serves a JWKS and counts the requests.
async fn provider(keys: Value) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _read = socket.read(&mut request).await;
            let body = keys.to_string();
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _sent = socket.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    (url, requests)
}

fn rsa_key() -> EncodingKey {
    let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    // The signer takes the bare key, which follows the 26-byte PKCS#8 header of an RSA key.
    EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..])
}

fn ec_key() -> EncodingKey {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    EncodingKey::from_ec_der(pkcs8.as_ref())
}

fn public(kid: &str, algorithm: Algorithm, key: &EncodingKey) -> Jwk {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
    jwk.common.key_id = Some(kid.into());
    jwk
}

#[tokio::test]
async fn oidc_keys_are_fetched_cached_and_refreshed() {
    let (rsa, ec) = (rsa_key(), ec_key());
    let set = json!({"keys": [public("r", Algorithm::RS256, &rsa), public("e", Algorithm::ES256, &ec)]});
    let (url, requests) = provider(set).await;
    let clock = clock();
    let keys = Keys { user_secret: None, jwks_url: Some(url), ..keys() };
    let authenticator = Authenticator::new(&keys, clock.clone());
    let mut claims = claims();
    claims["exp"] = json!(NOW + 100_000);
    let authenticate =
        async |token: String| authenticator.authenticate(Some(&token)).await.map(|id| id.principal);
    let requests = || requests.load(Ordering::SeqCst);

    assert_eq!(
        authenticate(signed(Algorithm::RS256, Some("r"), &claims, &rsa)).await.unwrap(),
        acme_member()
    );
    assert_eq!(authenticate(signed(Algorithm::ES256, Some("e"), &claims, &ec)).await.unwrap(), acme_member());
    assert_eq!(authenticate(signed(Algorithm::ES256, None, &claims, &ec)).await.unwrap(), acme_member());
    assert_eq!(requests(), 1, "keys are cached");

    for forged in [
        signed(Algorithm::RS256, Some("r"), &claims, &rsa_key()),
        signed(Algorithm::ES256, Some("r"), &claims, &ec),
        // Without a secret for users, a token that is signed with a public value is invalid.
        signed(Algorithm::HS256, Some("r"), &claims, &EncodingKey::from_secret(b"r")),
    ] {
        assert!(matches!(authenticate(forged).await, Err(AuthError::Invalid)));
    }
    assert!(matches!(
        authenticate(signed(Algorithm::RS256, Some("new"), &claims, &rsa)).await,
        Err(AuthError::Invalid)
    ));
    assert_eq!(requests(), 1, "an unknown key id does not cause an immediate refresh");
    clock.advance_secs(REFRESH_INTERVAL_SECS);
    assert!(matches!(
        authenticate(signed(Algorithm::RS256, Some("new"), &claims, &rsa)).await,
        Err(AuthError::Invalid)
    ));
    assert_eq!(requests(), 2);
    clock.advance_secs(CACHE_SECS);
    assert_eq!(
        authenticate(signed(Algorithm::RS256, Some("r"), &claims, &rsa)).await.unwrap(),
        acme_member()
    );
    assert_eq!(requests(), 3, "the cache expires");
}

#[tokio::test]
async fn failing_oidc_provider_is_not_called_again_during_backoff() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let keys = Keys { jwks_url: Some(format!("http://{}/", listener.local_addr().unwrap())), ..keys() };
    // Closes every connection.
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let authenticator = Authenticator::new(&keys, clock());
    let token = signed(Algorithm::ES256, None, &claims(), &ec_key());
    for _ in 0..20 {
        assert!(matches!(authenticator.authenticate(Some(&token)).await, Err(AuthError::Unavailable(_))));
    }
    assert!(requests.load(Ordering::SeqCst) <= 2, "one attempt, which the HTTP client may retry once");
}

#[tokio::test]
async fn unreachable_oidc_provider_is_unavailable_not_unauthorized() {
    let keys = Keys { jwks_url: Some("http://127.0.0.1:9/jwks.json".into()), ..keys() };
    let authenticator = Authenticator::new(&keys, clock());
    let token = signed(Algorithm::ES256, None, &claims(), &ec_key());
    assert!(matches!(authenticator.authenticate(Some(&token)).await, Err(AuthError::Unavailable(_))));
}
