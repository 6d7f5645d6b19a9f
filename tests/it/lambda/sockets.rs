//! `$connect`, `$default` and `$disconnect` of a WebSocket API.

use super::check;
use crate::harness::{Harness, event, function, invoke, received_frames, viewer};
use crate::payloads::{connect, fixture, frame, job};
use app::sockets::subscribe::{MAX_CHANGES, WINDOW_SECS};
use domain::ConnectionId;
use domain::access::Principal;
use serde_json::{Value, json};
use store::connections::Connection;

/// Connection id in the payloads.
const SOCKET: &str = "XzYa1cKFPHcCIvA=";

async fn stored_connection(harness: &Harness) -> Option<Connection> {
    harness.aws.store.connection(&ConnectionId::parse(SOCKET).unwrap()).await.unwrap()
}

fn ok() -> Value {
    json!({"statusCode": 200})
}

#[tokio::test]
async fn socket_with_a_token_is_subscribed_on_connect() {
    let harness = Harness::open().await;
    let response = invoke(&harness.process(), "sockets-connect", &fixture("socket-connect-with-token")).await;
    assert_eq!(response.unwrap(), ok());
    let connection = stored_connection(&harness).await.unwrap();
    assert!(matches!(connection.principal, Some(Principal::User { .. })), "{connection:?}");
    assert_eq!(connection.realm.as_deref(), Some("acme"));
    // A query parameter may be repeated, and each value may be a list.
    let event_types = json!(connection.filters)["event_types"].clone();
    assert_eq!(event_types.as_array().map(Vec::len), Some(3), "{event_types}");
    assert!(harness.feeds.jobs.is_empty(), "an authenticated socket needs no expiry job");
}

#[tokio::test]
async fn socket_without_a_token_gets_an_expiry_job() {
    let mut harness = Harness::open().await;
    let response =
        invoke(&harness.process(), "sockets-connect", &fixture("socket-connect-without-token")).await;
    assert_eq!(response.unwrap(), ok());
    let job: Value = serde_json::from_str(&harness.feeds.jobs.recv().await.unwrap().body).unwrap();
    assert_eq!(job, json!({"job": "expire_socket", "connection_id": SOCKET}));
}

/// From its handshake to its end: frames, deadline, disconnect.
#[tokio::test]
async fn anonymous_socket_writes_nothing_to_the_table() {
    let harness = Harness::open().await;
    let process = harness.process();
    harness.aws.meter.start();
    invoke(&process, "sockets-connect", &fixture("socket-connect-without-token")).await.unwrap();
    let mut inbox = harness.socket(SOCKET);
    for name in ["socket-message-subscribe", "socket-message-ping", "socket-message-invalid-json"] {
        assert_eq!(invoke(&process, "sockets-frame", &fixture(name)).await.unwrap(), ok());
    }
    let frames = received_frames(&mut inbox).unwrap();
    assert_eq!(frames[0]["code"], "unauthorized");
    let expire = json!({"job": "expire_socket", "connection_id": SOCKET}).to_string();
    invoke(&process, "sockets-expire", &job(&expire)).await.unwrap();
    invoke(&process, "sockets-disconnect", &fixture("socket-disconnect")).await.unwrap();
    let calls = harness.aws.meter.take();
    assert!(!calls.is_empty() && calls.iter().all(|call| call.write_units == 0.0), "{calls:?}");
    assert!(stored_connection(&harness).await.is_none());
    // The last frames before it was closed.
    assert_eq!(received_frames(&mut inbox).unwrap()[0]["code"], "unauthorized");
    assert_eq!(received_frames(&mut inbox), None, "the socket is closed");
}

#[tokio::test]
async fn auth_frame_has_the_filters_of_the_socket() {
    let harness = Harness::open().await;
    let process = harness.process();
    let auth = json!({"type": "auth", "token": viewer(), "entity_ids": ["s-1"], "batch": true});
    invoke(&process, "sockets-connect", &connect(SOCKET, &[])).await.unwrap();
    let mut inbox = harness.socket(SOCKET);
    invoke(&process, "sockets-frame", &frame(SOCKET, &auth)).await.unwrap();
    let confirmed = json!({"status": "subscribed", "filters": {"entity_ids": ["s-1"]}, "batch": true});
    assert_eq!(received_frames(&mut inbox).unwrap(), [json!({"status": "authenticated"}), confirmed]);
    let stored = stored_connection(&harness).await.unwrap();
    assert!(stored.batch && stored.principal.is_some(), "{stored:?}");
}

#[tokio::test]
async fn excess_subscription_changes_are_rejected_and_not_executed() {
    let harness = Harness::open().await;
    let process = harness.process();
    invoke(&process, "sockets-connect", &connect(SOCKET, &[("token", &viewer())])).await.unwrap();
    let mut inbox = harness.socket(SOCKET);
    let mut change = async |n: u64| {
        let subscribe = json!({"type": "subscribe", "entity_ids": [format!("s-{n}")]});
        invoke(&process, "sockets-frame", &frame(SOCKET, &subscribe)).await.unwrap();
        received_frames(&mut inbox).unwrap().remove(0)
    };
    harness.aws.meter.start();
    // The handshake counts too.
    for n in 1..u64::from(MAX_CHANGES) {
        assert_eq!(change(n).await["status"], "subscribed", "{n}");
    }
    harness.aws.meter.take();
    for n in u64::from(MAX_CHANGES)..=300 {
        assert_eq!(change(n).await["code"], "rate_limited", "{n}");
    }
    let calls = harness.aws.meter.take();
    assert!(calls.iter().all(|call| call.write_units == 0.0), "refused frames write nothing");
    let last = MAX_CHANGES - 1;
    let filters = json!(stored_connection(&harness).await.unwrap().filters);
    assert_eq!(filters["entity_ids"], json!([format!("s-{last}")]), "the last accepted change stays");
    harness.clock.advance_secs(WINDOW_SECS);
    assert_eq!(change(301).await["status"], "subscribed", "a new window");
}

#[tokio::test]
async fn invalid_token_or_origin_is_rejected_without_storing_the_socket() {
    let harness = Harness::open().await;
    for name in ["socket-connect-wrong-token", "socket-connect-foreign-origin"] {
        let response = invoke(&harness.process(), "sockets-connect", &fixture(name)).await.unwrap();
        check(name, &response);
        assert!(stored_connection(&harness).await.is_none(), "{name}");
    }
}

#[tokio::test]
async fn sandbox_socket_is_filtered_to_its_sandbox() {
    let harness = Harness::open().await;
    let process = harness.process();
    let payload = fixture("socket-connect-sandbox-filter");
    let unknown = invoke(&process, "sockets-connect", &payload).await.unwrap();
    assert_eq!(unknown["statusCode"], 404, "{unknown}");
    harness.register("s-1").await;
    assert_eq!(invoke(&process, "sockets-connect", &payload).await.unwrap(), ok());
    let filters = json!(stored_connection(&harness).await.unwrap().filters);
    assert_eq!((&filters["entity_types"], &filters["entity_ids"]), (&json!(["sandbox"]), &json!(["s-1"])));
}

/// Otherwise the socket would receive events of all sandboxes instead of one.
#[tokio::test]
async fn invalid_sandbox_id_is_rejected_on_connect() {
    let harness = Harness::open().await;
    for invalid in ["", "a/b", "..", "s 1"] {
        let payload = connect(SOCKET, &[("token", &viewer()), ("sandbox_id", invalid)]);
        let response = invoke(&harness.process(), "sockets-connect", &payload).await.unwrap();
        let status = response["statusCode"].as_u64().unwrap();
        assert!([404, 422].contains(&status), "{invalid:?}: {response}");
        assert!(stored_connection(&harness).await.is_none(), "{invalid:?}");
    }
}

#[tokio::test]
async fn frame_replies_are_sent_over_the_socket() {
    let harness = Harness::open().await;
    let process = harness.process();
    invoke(&process, "sockets-connect", &fixture("socket-connect-without-token")).await.unwrap();
    let mut inbox = harness.socket(SOCKET);
    for (name, replies) in [
        ("socket-message-subscribe", vec![("code", "unauthorized")]),
        ("socket-message-auth", vec![("status", "authenticated"), ("status", "subscribed")]),
        ("socket-message-subscribe", vec![("status", "subscribed")]),
        ("socket-message-ping", vec![("type", "pong")]),
        ("socket-message-invalid-json", vec![("code", "invalid_json")]),
        ("socket-message-binary", vec![]),
    ] {
        assert_eq!(invoke(&process, "sockets-frame", &fixture(name)).await.unwrap(), ok(), "{name}");
        let frames = received_frames(&mut inbox).expect("the socket stays open");
        assert_eq!(frames.len(), replies.len(), "{name}: {frames:?}");
        for (frame, (field, value)) in frames.iter().zip(replies) {
            assert_eq!(frame[field], value, "{name}: {frame}");
        }
    }
    let connection = stored_connection(&harness).await.unwrap();
    assert!(connection.batch, "{connection:?}");
    assert_eq!(json!(connection.filters)["entity_ids"], json!(["s-1"]));
}

#[tokio::test]
async fn invalid_token_in_a_frame_closes_the_socket() {
    let harness = Harness::open().await;
    let process = harness.process();
    invoke(&process, "sockets-connect", &fixture("socket-connect-without-token")).await.unwrap();
    let mut inbox = harness.socket(SOCKET);
    let invalid = fixture("socket-message-auth").replace(&viewer(), "not-a-token");
    assert_eq!(invoke(&process, "sockets-frame", &invalid).await.unwrap(), ok());
    assert_eq!(received_frames(&mut inbox).unwrap()[0]["code"], "unauthorized");
    assert_eq!(received_frames(&mut inbox), None, "the socket is closed");
}

/// API Gateway runs `$disconnect` and a frame concurrently.
#[tokio::test]
async fn socket_that_authenticates_after_its_disconnect_is_not_kept() {
    let harness = Harness::open().await;
    let process = harness.process();
    invoke(&process, "sockets-connect", &fixture("socket-connect-without-token")).await.unwrap();
    drop(harness.socket(SOCKET));
    harness.aws.hub.remove(&ConnectionId::parse(SOCKET).unwrap());
    invoke(&process, "sockets-disconnect", &fixture("socket-disconnect")).await.unwrap();
    let auth = json!({"type": "auth", "token": viewer(), "entity_ids": ["s-1"]});
    harness.aws.meter.start();
    assert_eq!(invoke(&process, "sockets-frame", &frame(SOCKET, &auth)).await.unwrap(), ok());
    let calls = harness.aws.meter.take();
    assert!(calls.iter().any(|call| call.write_units > 0.0), "it was stored: {calls:?}");
    assert!(stored_connection(&harness).await.is_none());
    let subscribers = harness.aws.store.subscribers("acme", "entity/s-1").await.unwrap();
    assert!(subscribers.is_empty(), "{subscribers:?}");
}

#[tokio::test]
async fn disconnect_removes_the_connection_and_is_idempotent() {
    let harness = Harness::open().await;
    let process = harness.process();
    invoke(&process, "sockets-connect", &fixture("socket-connect-with-token")).await.unwrap();
    assert!(stored_connection(&harness).await.is_some());
    for _ in 0..2 {
        let response = invoke(&process, "sockets-disconnect", &fixture("socket-disconnect")).await;
        assert_eq!(response.unwrap(), ok());
        assert!(stored_connection(&harness).await.is_none());
    }
}

/// The format of connection ids is not documented. So far they are URL-safe base64, which may start with any character.
#[tokio::test]
async fn all_api_gateway_connection_ids_are_accepted() {
    let harness = Harness::open().await;
    for id in ["XzYa1cKFPHcCIvA=", "-zYa1cKFPHcCIvA=", "_zYa1cKFPHcCI_-="] {
        let payload = connect(id, &[("token", &viewer())]);
        assert_eq!(invoke(&harness.process(), "sockets-connect", &payload).await.unwrap(), ok(), "{id}");
    }
}

#[tokio::test]
async fn wrong_trigger_for_a_function_is_an_error() {
    let harness = Harness::open().await;
    let (process, check, ingest) = (harness.process(), function("platform-check"), function("events-ingest"));
    let message = event(&fixture("socket-message-ping"));
    let socket = lambda_host::ws::invoke(&process, ingest, message).await.unwrap_err();
    let records = event(&fixture("stream-segment"));
    let records = lambda_host::records::invoke(&process, check, records).await.unwrap_err();
    let queue = event(&fixture("queue-two-messages"));
    let queue = lambda_host::jobs::invoke(&process, check, queue).await.unwrap_err();
    let tick = event(&fixture("schedule-tick"));
    let tick = lambda_host::tick::invoke(&process, ingest, tick).await.unwrap_err();
    for (error, function) in [(socket, ingest), (records, check), (queue, check), (tick, ingest)] {
        assert_eq!(
            error.to_string(),
            format!("{} received a payload of another trigger; see the registry", function.name)
        );
    }
    // An HTTP request is routed by its path, and no route belongs to this function.
    let request = event(&fixture("http-get-events"));
    let response = lambda_host::http::invoke(&process, Some(check), request).await.unwrap();
    assert_eq!(serde_json::to_value(response).unwrap()["statusCode"], 404);
}
