//! `$connect`, `$default` and `$disconnect` of a WebSocket API.

use super::check;
use crate::payloads::{connect, fixture};
use crate::stage::{Stage, event, function, heard, invoke, viewer};
use domain::ConnectionId;
use domain::access::Principal;
use serde_json::{Value, json};
use store::connections::Connection;

/// The socket of the payloads.
const SOCKET: &str = "XzYa1cKFPHcCIvA=";

async fn stored(stage: &Stage) -> Option<Connection> {
    stage.aws.store.connection(&ConnectionId::parse(SOCKET).unwrap()).await.unwrap()
}

fn done() -> Value {
    json!({"statusCode": 200})
}

#[tokio::test]
async fn a_socket_with_a_token_is_subscribed_once_it_is_open() {
    let stage = Stage::open().await;
    let answer = invoke(&stage.process(), "realtime-connect", &fixture("socket-connect-with-token")).await;
    assert_eq!(answer.unwrap(), done());
    let connection = stored(&stage).await.unwrap();
    assert!(matches!(connection.principal, Some(Principal::User { .. })), "{connection:?}");
    assert_eq!(connection.realm.as_deref(), Some("acme"));
    // A parameter may come several times, and each may be a list.
    let wanted = json!(connection.filters)["event_types"].clone();
    assert_eq!(wanted.as_array().map(Vec::len), Some(3), "{wanted}");
    assert!(stage.feeds.jobs.is_empty(), "nobody has to look after it");
}

#[tokio::test]
async fn a_socket_without_a_token_is_looked_after() {
    let mut stage = Stage::open().await;
    let answer = invoke(&stage.process(), "realtime-connect", &fixture("socket-connect-without-token")).await;
    assert_eq!(answer.unwrap(), done());
    let connection = stored(&stage).await.unwrap();
    assert_eq!((connection.principal, connection.realm), (None, None));
    let job: Value = serde_json::from_str(&stage.feeds.jobs.recv().await.unwrap()).unwrap();
    assert_eq!(job, json!({"job": "expire_socket", "connection_id": SOCKET}));
}

#[tokio::test]
async fn a_wrong_token_and_a_foreign_page_are_refused_and_nothing_is_stored() {
    let stage = Stage::open().await;
    for name in ["socket-connect-wrong-token", "socket-connect-foreign-origin"] {
        let answer = invoke(&stage.process(), "realtime-connect", &fixture(name)).await.unwrap();
        check(name, &answer);
        assert!(stored(&stage).await.is_none(), "{name}");
    }
}

#[tokio::test]
async fn a_socket_for_one_sandbox_hears_of_that_one() {
    let stage = Stage::open().await;
    let process = stage.process();
    let payload = fixture("socket-connect-one-sandbox");
    let unknown = invoke(&process, "realtime-connect", &payload).await.unwrap();
    assert_eq!(unknown["statusCode"], 404, "{unknown}");
    stage.register("s-1").await;
    assert_eq!(invoke(&process, "realtime-connect", &payload).await.unwrap(), done());
    let filters = json!(stored(&stage).await.unwrap().filters);
    assert_eq!((&filters["entity_types"], &filters["entity_ids"]), (&json!(["sandbox"]), &json!(["s-1"])));
}

/// Or it would hear of everything, where one sandbox was asked for.
#[tokio::test]
async fn an_odd_sandbox_opens_nothing() {
    let stage = Stage::open().await;
    for odd in ["", "a/b", "..", "s 1"] {
        let payload = connect(SOCKET, &[("token", &viewer()), ("sandbox_id", odd)]);
        let answer = invoke(&stage.process(), "realtime-connect", &payload).await.unwrap();
        let status = answer["statusCode"].as_u64().unwrap();
        assert!([404, 422].contains(&status), "{odd:?}: {answer}");
        assert!(stored(&stage).await.is_none(), "{odd:?}");
    }
}

#[tokio::test]
async fn frames_are_answered_on_the_socket_and_never_in_the_answer() {
    let stage = Stage::open().await;
    let process = stage.process();
    invoke(&process, "realtime-connect", &fixture("socket-connect-without-token")).await.unwrap();
    let mut inbox = stage.socket(SOCKET);
    for (name, told) in [
        ("socket-message-subscribe", vec![("code", "unauthorized")]),
        ("socket-message-auth", vec![("status", "authenticated"), ("status", "subscribed")]),
        ("socket-message-subscribe", vec![("status", "subscribed")]),
        ("socket-message-ping", vec![("type", "pong")]),
        ("socket-message-nonsense", vec![("code", "invalid_json")]),
        ("socket-message-binary", vec![]),
    ] {
        assert_eq!(invoke(&process, "realtime-frame", &fixture(name)).await.unwrap(), done(), "{name}");
        let frames = heard(&mut inbox).expect("the socket stays open");
        assert_eq!(frames.len(), told.len(), "{name}: {frames:?}");
        for (frame, (field, word)) in frames.iter().zip(told) {
            assert_eq!(frame[field], word, "{name}: {frame}");
        }
    }
    let connection = stored(&stage).await.unwrap();
    assert!(connection.batch, "{connection:?}");
    assert_eq!(json!(connection.filters)["entity_ids"], json!(["s-1"]));
}

#[tokio::test]
async fn a_wrong_token_in_a_frame_is_told_and_closes() {
    let stage = Stage::open().await;
    let process = stage.process();
    invoke(&process, "realtime-connect", &fixture("socket-connect-without-token")).await.unwrap();
    let mut inbox = stage.socket(SOCKET);
    let wrong = fixture("socket-message-auth").replace(&viewer(), "not-a-token");
    assert_eq!(invoke(&process, "realtime-frame", &wrong).await.unwrap(), done());
    assert_eq!(heard(&mut inbox).unwrap()[0]["code"], "unauthorized");
    assert_eq!(heard(&mut inbox), None, "it is closed");
}

#[tokio::test]
async fn a_socket_that_is_gone_is_forgotten_and_a_repeat_does_nothing() {
    let stage = Stage::open().await;
    let process = stage.process();
    invoke(&process, "realtime-connect", &fixture("socket-connect-with-token")).await.unwrap();
    assert!(stored(&stage).await.is_some());
    for _ in 0..2 {
        let answer = invoke(&process, "realtime-disconnect", &fixture("socket-disconnect")).await;
        assert_eq!(answer.unwrap(), done());
        assert!(stored(&stage).await.is_none());
    }
}

/// Nobody promises what such an id looks like. They have been base64 that fits a URL, in which any letter may be first.
#[tokio::test]
async fn whatever_api_gateway_calls_a_socket_is_its_name() {
    let stage = Stage::open().await;
    for id in ["XzYa1cKFPHcCIvA=", "-zYa1cKFPHcCIvA=", "_zYa1cKFPHcCI_-="] {
        let opening = connect(id, &[("token", &viewer())]);
        assert_eq!(invoke(&stage.process(), "realtime-connect", &opening).await.unwrap(), done(), "{id}");
    }
}

#[tokio::test]
async fn a_function_that_is_started_with_the_wrong_trigger_says_so() {
    let stage = Stage::open().await;
    let (process, check, ingest) = (stage.process(), function("platform-check"), function("events-ingest"));
    let frame = event(&fixture("socket-message-ping"));
    let socket = lambda_host::ws::invoke(&process, ingest, frame).await.unwrap_err();
    let records = event(&fixture("stream-segment"));
    let records = lambda_host::records::invoke(&process, check, records).await.unwrap_err();
    let queue = event(&fixture("queue-two-messages"));
    let queue = lambda_host::jobs::invoke(&process, check, queue).await.unwrap_err();
    let tick = event(&fixture("schedule-tick"));
    let tick = lambda_host::tick::invoke(&process, ingest, tick).await.unwrap_err();
    for (error, name) in [(socket, ingest), (records, check), (queue, check), (tick, ingest)] {
        assert_eq!(error.to_string(), format!("{} is not triggered like this; see the registry", name.name));
    }
    // A request cannot get there by itself: it belongs to another function, or to none.
    let request = event(&fixture("http-get-events"));
    let answer = lambda_host::http::invoke(&process, Some(check), request).await.unwrap();
    assert_eq!(serde_json::to_value(answer).unwrap()["statusCode"], 404);
}
