//! Requests of an HTTP API.

use super::check;
use crate::payloads::{fixture, fixture_by, request};
use crate::stage::{Stage, body_of, invoke, viewer};
use crate::support::OPERATOR;
use aws_smithy_types::base64;
use serde_json::{Value, json};

#[tokio::test]
async fn a_batch_in_base64_is_stored_and_a_page_of_it_is_answered() {
    let stage = Stage::open().await;
    let (process, worker) = (stage.process(), stage.register("s-1").await);
    let stored = invoke(&process, "events-ingest", &fixture_by("http-ingest-base64", &worker)).await.unwrap();
    check("http-ingest-base64", &stored);
    // By another function, which is another process.
    let page = invoke(&stage.process(), "events-list", &fixture("http-get-events")).await.unwrap();
    check("http-get-events", &page);
}

#[tokio::test]
async fn an_alias_of_a_path_is_the_same_function_and_text_comes_back_as_it_was() {
    let stage = Stage::open().await;
    let (process, worker) = (stage.process(), stage.register("s-1").await);
    let stored = invoke(&process, "events-ingest", &fixture_by("http-ingest-alias", &worker)).await.unwrap();
    check("http-ingest-alias", &stored);
    let read = request("GET", "/api/v1/sandbox/s-1/events/1/body", &viewer(), None);
    let read = invoke(&process, "events-body", &read).await.unwrap();
    assert_eq!(body_of(&read), json!({"text": "Grüße, 世界 👋"}));
}

#[tokio::test]
async fn a_registered_sandbox_comes_with_a_token_that_works() {
    let stage = Stage::open().await;
    let process = stage.process();
    let answer = invoke(&process, "sandboxes-register", &fixture("http-register")).await.unwrap();
    let body = body_of(&answer);
    let sandbox = &body["sandbox"];
    assert_eq!(answer["statusCode"], 201, "{answer}");
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

/// Whatever API Gateway is told to send where: a function has the permissions of its own row only.
#[tokio::test]
async fn a_request_that_belongs_to_another_function_is_not_answered() {
    let stage = Stage::open().await;
    let (process, _worker) = (stage.process(), stage.register("s-1").await);
    let request = fixture("http-another-functions");
    let refused = invoke(&process, "events-list", &request).await.unwrap();
    check("http-another-functions", &refused);
    let answered = invoke(&process, "sandboxes-get", &request).await.unwrap();
    assert_eq!(answered["statusCode"], 200, "{answered}");
}

#[tokio::test]
async fn a_request_without_a_token_is_told_so() {
    let stage = Stage::open().await;
    let refused = invoke(&stage.process(), "events-list", &fixture("http-without-token")).await.unwrap();
    check("http-without-token", &refused);
}

/// A cursor holds a `#`. Whoever reads the path and the query as one text would lose what follows it.
#[tokio::test]
async fn a_cursor_leads_to_the_next_page() {
    let stage = Stage::open().await;
    for id in ["s-1", "s-2"] {
        stage.register(id).await;
    }
    let process = stage.process();
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

/// As a text within Lambda's answer each of them would take two bytes.
#[tokio::test]
async fn an_answer_full_of_quotation_marks_goes_as_base64() {
    let stage = Stage::open().await;
    let (process, worker) = (stage.process(), stage.register("s-1").await);
    let data = json!({"text": "\"".repeat(10_000)});
    let event = json!({"event_type": "agent.message", "event_data": data});
    let event = request("POST", "/api/v1/sandboxes/s-1/events", &worker, Some(&event));
    assert_eq!(invoke(&process, "events-ingest", &event).await.unwrap()["statusCode"], 200);
    let read = request("GET", "/api/v1/sandboxes/s-1/events/1/body", &viewer(), None);
    let answer = invoke(&process, "events-body", &read).await.unwrap();
    assert_eq!(answer["isBase64Encoded"], true);
    let body = base64::decode(answer["body"].as_str().unwrap()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), data);
}
