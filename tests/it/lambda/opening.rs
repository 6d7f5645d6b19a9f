//! A socket is subscribed before its handshake ends, and until then API Gateway says of it that it is gone.

use crate::payloads::{connect, fixture, together};
use crate::stage::{Stage, heard, invoke, viewer};
use app::events::broadcast::OPENING_SECS;
use domain::ConnectionId;
use edge::Plane;
use std::sync::Arc;

/// A socket that API Gateway has asked us about, and that is not open yet: the hub does not know it.
async fn opening(process: &Arc<Plane>) {
    let opening = connect("c-1", &[("token", &viewer())]);
    assert_eq!(invoke(process, "realtime-connect", &opening).await.unwrap()["statusCode"], 200);
}

async fn is_known(stage: &Stage) -> bool {
    stage.aws.store.connection(&ConnectionId::parse("c-1").unwrap()).await.unwrap().is_some()
}

/// **Invariant:** whoever is still opening is not forgotten.
#[tokio::test]
async fn a_socket_that_is_still_opening_is_told_of_what_comes_once_it_is_open() {
    let stage = Stage::open().await;
    // The one that subscribes and the one that tells are different functions.
    let process = stage.process();
    opening(&stage.process()).await;
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert!(is_known(&stage).await);

    stage.clock.advance_secs(OPENING_SECS - 1);
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert!(is_known(&stage).await, "as long as it may take to open");

    let mut inbox = stage.socket("c-1");
    invoke(&process, "events-broadcast", &together(&["stream-compressed", "stream-pulse"])).await.unwrap();
    let ids: Vec<_> = heard(&mut inbox).unwrap().iter().map(|frame| frame["id"].clone()).collect();
    assert_eq!(ids, ["e-3", "e-4"]);
}

#[tokio::test]
async fn a_socket_that_does_not_open_is_forgotten() {
    let stage = Stage::open().await;
    let process = stage.process();
    opening(&stage.process()).await;
    stage.clock.advance_secs(OPENING_SECS);
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert!(!is_known(&stage).await);
    // Its subscriptions went with it: if it opens after all, nobody tells it anything, and nobody tries.
    let mut inbox = stage.socket("c-1");
    invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert_eq!(heard(&mut inbox).unwrap().len(), 0);
}
