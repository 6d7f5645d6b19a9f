//! A socket is subscribed before its handshake completes. Until then API Gateway reports the connection as gone.

use crate::harness::{Harness, invoke, received_frames, viewer};
use crate::payloads::{combined, connect, fixture};
use app::events::broadcast::HANDSHAKE_GRACE_SECS;
use domain::ConnectionId;
use edge::Plane;
use std::sync::Arc;

/// Invokes `$connect` without completing the handshake: the hub does not know the connection yet.
async fn begin_handshake(process: &Arc<Plane>) {
    let payload = connect("c-1", &[("token", &viewer())]);
    assert_eq!(invoke(process, "sockets-connect", &payload).await.unwrap()["statusCode"], 200);
}

async fn is_stored(harness: &Harness) -> bool {
    harness.aws.store.connection(&ConnectionId::parse("c-1").unwrap()).await.unwrap().is_some()
}

/// **Invariant:** a connection in its handshake keeps its subscription.
#[tokio::test]
async fn subscription_survives_until_the_handshake_completes() {
    let harness = Harness::open().await;
    // Subscribing and broadcasting are different functions, and so different processes.
    let process = harness.process();
    begin_handshake(&harness.process()).await;
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert!(is_stored(&harness).await);

    harness.clock.advance_secs(HANDSHAKE_GRACE_SECS - 1);
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert!(is_stored(&harness).await, "the grace period has not passed");

    let mut inbox = harness.socket("c-1");
    invoke(&process, "events-broadcast", &combined(&["stream-compressed", "stream-ephemeral"]))
        .await
        .unwrap();
    let ids: Vec<_> = received_frames(&mut inbox).unwrap().iter().map(|frame| frame["id"].clone()).collect();
    assert_eq!(ids, ["e-3", "e-4"]);
}

#[tokio::test]
async fn socket_that_never_opens_is_unsubscribed() {
    let harness = Harness::open().await;
    let process = harness.process();
    begin_handshake(&harness.process()).await;
    harness.clock.advance_secs(HANDSHAKE_GRACE_SECS);
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert!(!is_stored(&harness).await);
    // Its subscriptions are deleted too: even if it opens later, it receives nothing.
    let mut inbox = harness.socket("c-1");
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert_eq!(received_frames(&mut inbox).unwrap().len(), 0);
}
