//! Sockets over TLS, and machines that trust nobody.

use crate::{Bell, Follow, Follower, Hang, Once, SILENCE};
use domain::SandboxId;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(20);

fn sandbox() -> SandboxId {
    SandboxId::parse("s-1").unwrap()
}

/// The first bytes of whoever connects first.
async fn first_bytes(listener: &TcpListener) -> [u8; 6] {
    let (mut stream, _) = timeout(LONG, listener.accept()).await.expect("somebody connects").unwrap();
    let mut bytes = [0; 6];
    timeout(LONG, stream.read_exact(&mut bytes)).await.expect("it says something").unwrap();
    bytes
}

/// A record of the kind "handshake" that holds a `ClientHello`.
fn is_client_hello(bytes: [u8; 6]) -> bool {
    bytes[0] == 22 && bytes[1] == 3 && bytes[5] == 1
}

#[tokio::test]
async fn sockets_with_wss_begin_with_a_tls_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("wss://localhost:{}/live", listener.local_addr().unwrap().port());
    let plane = "https://plane.invalid".to_owned();
    let hang = Hang { plane: plane.clone(), sockets: Some(address.clone()), sandbox: sandbox(), token: None };
    let bell = tokio::spawn(async move { Bell::hang(&hang).await.map(|_| ()) });
    assert!(is_client_hello(first_bytes(&listener).await));
    assert_eq!(bell.await.unwrap(), Err("unreachable"), "nobody answered");
    let follow = Follow {
        plane,
        sockets: Some(address),
        sandbox: sandbox(),
        token: Some("planted-token".into()),
        after_seq: 0,
        silence: SILENCE,
    };
    assert!(!format!("{follow:?}").contains("planted-token"));
    let mut follower = Follower::new(follow);
    tokio::select! {
        event = follower.next() => panic!("{event:?}"),
        bytes = first_bytes(&listener) => assert!(is_client_hello(bytes)),
    }
}

#[test]
fn a_client_needs_nothing_of_the_machine() {
    Once::new("http://127.0.0.1:1", &sandbox(), None, LONG);
}

/// The test above again, in a process that finds no list of authorities.
#[test]
fn a_machine_without_authorities_can_still_ask_a_plane_without_tls() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["tls_tests::a_client_needs_nothing_of_the_machine", "--exact"])
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", "/nonexistent")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}
