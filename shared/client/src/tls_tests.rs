//! Sockets over TLS, and machines without a certificate store.

use crate::{Follow, Follower, IDLE_TIMEOUT, SandboxApi, WakeUpOptions, WakeUpSocket};
use domain::SandboxId;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);

fn sandbox() -> SandboxId {
    SandboxId::parse("s-1").unwrap()
}

/// The first bytes of the first connection.
async fn first_bytes(listener: &TcpListener) -> [u8; 6] {
    let (mut stream, _) = timeout(LONG, listener.accept()).await.expect("a client connects").unwrap();
    let mut bytes = [0; 6];
    timeout(LONG, stream.read_exact(&mut bytes)).await.expect("the client sends a handshake").unwrap();
    bytes
}

/// A TLS handshake record with a `ClientHello`.
fn is_client_hello(bytes: [u8; 6]) -> bool {
    bytes[0] == 22 && bytes[1] == 3 && bytes[5] == 1
}

#[tokio::test]
async fn wss_sockets_start_with_a_tls_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("wss://localhost:{}/live", listener.local_addr().unwrap().port());
    let plane = "https://plane.invalid".to_owned();
    let options = WakeUpOptions {
        plane: plane.clone(),
        sockets: Some(address.clone()),
        sandbox: sandbox(),
        token: None,
    };
    let opening = tokio::spawn(async move { WakeUpSocket::open(&options).await.map(|_| ()) });
    assert!(is_client_hello(first_bytes(&listener).await));
    assert_eq!(opening.await.unwrap(), Err("unreachable"), "the handshake was not answered");
    let follow = Follow {
        plane,
        sockets: Some(address),
        sandbox: sandbox(),
        token: Some("planted-token".into()),
        after_seq: 0,
        idle_timeout: IDLE_TIMEOUT,
    };
    assert!(!format!("{follow:?}").contains("planted-token"));
    let mut follower = Follower::new(follow);
    tokio::select! {
        event = follower.next() => panic!("{event:?}"),
        bytes = first_bytes(&listener) => assert!(is_client_hello(bytes)),
    }
}

#[test]
fn client_is_built_without_certificate_store() {
    SandboxApi::new("http://127.0.0.1:1", &sandbox(), None, LONG);
}

/// Runs the test above in a process without a certificate store.
#[test]
fn machine_without_certificates_can_reach_a_plane_without_tls() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["tls_tests::client_is_built_without_certificate_store", "--exact"])
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", "/nonexistent")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
}
