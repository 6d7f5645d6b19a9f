//! Requests of the HTTP API.

use super::check;
use crate::harness::{Harness, body_of, invoke, viewer};
use crate::payloads::{connect, fixture, fixture_with_worker, request, request_with};
use crate::support::OPERATOR;
use aws_smithy_types::base64;
use serde_json::{Value, json};

#[tokio::test]
async fn base64_encoded_batch_is_stored_and_readable() {
    let harness = Harness::open().await;
    let (process, worker) = (harness.process(), harness.register("s-1").await);
    let stored =
        invoke(&process, "events-ingest", &fixture_with_worker("http-ingest-base64", &worker)).await.unwrap();
    check("http-ingest-base64", &stored);
    // Another function runs in another process.
    let page = invoke(&harness.process(), "events-list", &fixture("http-get-events")).await.unwrap();
    check("http-get-events", &page);
}

#[tokio::test]
async fn path_alias_reaches_the_same_function() {
    let harness = Harness::open().await;
    let (process, worker) = (harness.process(), harness.register("s-1").await);
    let stored =
        invoke(&process, "events-ingest", &fixture_with_worker("http-ingest-alias", &worker)).await.unwrap();
    check("http-ingest-alias", &stored);
    let read = request("GET", "/api/v1/sandbox/s-1/events/1/body", &viewer(), None);
    let read = invoke(&process, "events-body", &read).await.unwrap();
    assert_eq!(body_of(&read), json!({"text": "Grüße, 世界 👋"}));
}

#[tokio::test]
async fn registering_a_sandbox_returns_a_valid_worker_token() {
    let harness = Harness::open().await;
    let process = harness.process();
    let response = invoke(&process, "sandboxes-register", &fixture("http-register")).await.unwrap();
    let body = body_of(&response);
    let sandbox = &body["sandbox"];
    assert_eq!(response["statusCode"], 201, "{response}");
    assert_eq!(
        (&sandbox["sandbox_id"], &sandbox["org"], &sandbox["name"]),
        (&json!("s-7"), &json!("acme"), &json!("Fix the build"))
    );
    let event = json!({"event_type": "agent.message", "event_data": {}});
    let worker = body["worker_token"].as_str().unwrap();
    let event = request("POST", "/api/v1/sandboxes/s-7/events", worker, Some(&event));
    let stored = invoke(&process, "events-ingest", &event).await.unwrap();
    assert_eq!(stored["statusCode"], 200, "{stored}");
}

/// Even if API Gateway is misconfigured: a function has only the permissions of its own registry entry.
#[tokio::test]
async fn function_rejects_requests_of_other_routes() {
    let harness = Harness::open().await;
    let (process, _worker) = (harness.process(), harness.register("s-1").await);
    let request = fixture("http-get-sandbox");
    let rejected = invoke(&process, "events-list", &request).await.unwrap();
    check("http-get-sandbox", &rejected);
    let accepted = invoke(&process, "sandboxes-get", &request).await.unwrap();
    assert_eq!(accepted["statusCode"], 200, "{accepted}");
}

#[tokio::test]
async fn page_of_another_site_is_rejected() {
    let harness = Harness::open().await;
    let process = harness.process();
    let headers = [("sec-fetch-site", "cross-site")];
    let list = request_with("GET", "/api/v1/sandboxes", OPERATOR, None, &headers);
    let answer = invoke(&process, "sandboxes-list", &list).await.unwrap();
    assert_eq!(
        (&answer["statusCode"], &body_of(&answer)["code"]),
        (&json!(403), &json!("origin_not_allowed"))
    );
    let connect = connect("c-1", &[("token", &viewer())]);
    let mut handshake: Value = serde_json::from_str(&connect).unwrap();
    handshake["headers"]["Sec-Fetch-Site"] = json!("cross-site");
    handshake["multiValueHeaders"]["Sec-Fetch-Site"] = json!(["cross-site"]);
    let answer = invoke(&process, "sockets-connect", &handshake.to_string()).await.unwrap();
    assert_eq!(answer["statusCode"], 403, "{answer}");
}

#[tokio::test]
async fn request_without_a_token_is_unauthorized() {
    let harness = Harness::open().await;
    let rejected = invoke(&harness.process(), "events-list", &fixture("http-without-token")).await.unwrap();
    check("http-without-token", &rejected);
}

/// A cursor contains a `#`. Parsed as part of one URL, it would start a fragment.
#[tokio::test]
async fn cursor_with_reserved_characters_returns_the_next_page() {
    let harness = Harness::open().await;
    for id in ["s-1", "s-2"] {
        harness.register(id).await;
    }
    let process = harness.process();
    let mut seen = Vec::new();
    let mut path = "/api/v1/sandboxes?limit=1".to_owned();
    for _ in 0..2 {
        let page = invoke(&process, "sandboxes-list", &request("GET", &path, OPERATOR, None)).await.unwrap();
        let page = body_of(&page);
        seen.push(page["sandboxes"][0]["sandbox_id"].clone());
        let cursor = page["next_cursor"].as_str().unwrap_or_default();
        assert!(cursor.contains('#') || seen.len() == 2, "{page}");
        path = format!("/api/v1/sandboxes?limit=1&cursor={}", cursor.replace('#', "%23").replace(':', "%3A"));
    }
    assert_eq!(seen, ["s-2", "s-1"]);
}

/// JSON escaping would double the size of a body that is full of quotation marks.
#[tokio::test]
async fn response_that_escaping_would_double_is_sent_as_base64() {
    let harness = Harness::open().await;
    let (process, worker) = (harness.process(), harness.register("s-1").await);
    let data = json!({"text": "\"".repeat(10_000)});
    let event = json!({"event_type": "agent.message", "event_data": data});
    let event = request("POST", "/api/v1/sandboxes/s-1/events", &worker, Some(&event));
    assert_eq!(invoke(&process, "events-ingest", &event).await.unwrap()["statusCode"], 200);
    let read = request("GET", "/api/v1/sandboxes/s-1/events/1/body", &viewer(), None);
    let response = invoke(&process, "events-body", &read).await.unwrap();
    assert_eq!(response["isBase64Encoded"], true);
    let body = base64::decode(response["body"].as_str().unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), data);
}
