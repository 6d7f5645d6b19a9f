use super::jwks::{ASK_AGAIN_SECS, KEEP_SECS};
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

fn keys() -> Keys {
    Keys {
        worker_secret: "the workers' secret in these tests".into(),
        operator_token: Some("the operator's token".into()),
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
async fn each_kind_of_token_is_told_apart() {
    let clock = clock();
    let authenticator = Authenticator::new(&keys(), clock.clone());
    let sandbox = SandboxId::parse("s-1").unwrap();
    let worker = authenticator.worker_token(&sandbox, 3, clock.now().plus_secs(10));
    let who = async |token: &str| authenticator.authenticate(Some(token)).await.map(|id| id.principal);
    assert_eq!(who("the operator's token").await.unwrap(), Principal::Operator);
    assert_eq!(who(&worker).await.unwrap(), Principal::Worker { sandbox, generation: 3 });
    assert_eq!(who(&hs256(&claims())).await.unwrap(), acme_member());
    assert!(matches!(who("").await, Err(AuthError::Missing)));
    assert!(matches!(who("swt_").await, Err(AuthError::Invalid)));
    assert!(matches!(who(worker.strip_prefix(WORKER_PREFIX).unwrap()).await, Err(AuthError::Invalid)));
    clock.advance_secs(10);
    assert!(matches!(who(&worker).await, Err(AuthError::Expired)));
    clock.advance_secs(50);
    assert!(matches!(who(&hs256(&claims())).await, Err(AuthError::Expired)));
}

#[tokio::test]
async fn a_users_token_must_say_who_whose_and_until_when() {
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
    for wrong in [
        json!({"sub": null}),
        json!({"org_id": null}),
        json!({"org_id": "a b"}),
        json!({"org_id": "*"}),
        json!({"exp": null}),
        json!({"exp": "soon"}),
        json!({"iss": "https://evil.example"}),
        json!({"iss": null}),
        json!({"aud": "something else"}),
        json!({"aud": null}),
        json!({"type": "refresh"}),
        json!({"nbf": NOW + 31}),
    ] {
        assert!(matches!(check(wrong.clone()).await, Err(AuthError::Invalid)), "{wrong}");
    }
}

#[tokio::test]
async fn unsigned_and_otherwise_signed_tokens_are_refused() {
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

/// A provider that gives out its keys, and counts how often it is asked.
async fn provider(keys: Value) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
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
    (url, asked)
}

fn rsa_key() -> EncodingKey {
    let pair = aws_lc_rs::rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    // The signer wants the key itself, which is what follows the 26 bytes that PKCS#8 puts around an RSA key.
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
async fn keys_of_an_oidc_provider_are_fetched_kept_and_asked_for_again() {
    let (rsa, ec) = (rsa_key(), ec_key());
    let set = json!({"keys": [public("r", Algorithm::RS256, &rsa), public("e", Algorithm::ES256, &ec)]});
    let (url, asked) = provider(set).await;
    let clock = clock();
    let keys = Keys { user_secret: None, jwks_url: Some(url), ..keys() };
    let authenticator = Authenticator::new(&keys, clock.clone());
    let mut claims = claims();
    claims["exp"] = json!(NOW + 100_000);
    let who = async |token: String| authenticator.authenticate(Some(&token)).await.map(|id| id.principal);
    let asked = || asked.load(Ordering::SeqCst);

    assert_eq!(who(signed(Algorithm::RS256, Some("r"), &claims, &rsa)).await.unwrap(), acme_member());
    assert_eq!(who(signed(Algorithm::ES256, Some("e"), &claims, &ec)).await.unwrap(), acme_member());
    assert_eq!(who(signed(Algorithm::ES256, None, &claims, &ec)).await.unwrap(), acme_member());
    assert_eq!(asked(), 1, "keys are kept");

    for forged in [
        signed(Algorithm::RS256, Some("r"), &claims, &rsa_key()),
        signed(Algorithm::ES256, Some("r"), &claims, &ec),
        // Without a secret for users, a token that is signed with something public is nobody's.
        signed(Algorithm::HS256, Some("r"), &claims, &EncodingKey::from_secret(b"r")),
    ] {
        assert!(matches!(who(forged).await, Err(AuthError::Invalid)));
    }
    assert!(matches!(
        who(signed(Algorithm::RS256, Some("new"), &claims, &rsa)).await,
        Err(AuthError::Invalid)
    ));
    assert_eq!(asked(), 1, "unknown keys do not make us ask at once");
    clock.advance_secs(ASK_AGAIN_SECS);
    assert!(matches!(
        who(signed(Algorithm::RS256, Some("new"), &claims, &rsa)).await,
        Err(AuthError::Invalid)
    ));
    assert_eq!(asked(), 2);
    clock.advance_secs(KEEP_SECS);
    assert_eq!(who(signed(Algorithm::RS256, Some("r"), &claims, &rsa)).await.unwrap(), acme_member());
    assert_eq!(asked(), 3, "keys are not kept for ever");
}

/// A provider that does not answer, and counts how often it is asked.
#[tokio::test]
async fn a_provider_that_hangs_is_asked_once_and_then_left_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let keys = Keys { jwks_url: Some(format!("http://{}/", listener.local_addr().unwrap())), ..keys() };
    // Refuses: whoever connects is hung up on.
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
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
    assert!(asked.load(Ordering::SeqCst) <= 2, "one attempt, at most tried twice by the client beneath");
}

#[tokio::test]
async fn a_provider_that_does_not_answer_is_not_the_users_fault() {
    let keys = Keys { jwks_url: Some("http://127.0.0.1:9/jwks.json".into()), ..keys() };
    let authenticator = Authenticator::new(&keys, clock());
    let token = signed(Algorithm::ES256, None, &claims(), &ec_key());
    assert!(matches!(authenticator.authenticate(Some(&token)).await, Err(AuthError::Unavailable(_))));
}
