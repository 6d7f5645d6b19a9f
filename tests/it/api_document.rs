//! The HTTP API keeps to its document: unknown parameters are refused, both spellings of a filter work, and the document
//! is served.

use crate::support::{OPERATOR, TestPlane};
use edge::registry::{FUNCTIONS, Trigger};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn every_route_refuses_unknown_parameters_with_a_hint() {
    let plane = TestPlane::start().await;
    for function in FUNCTIONS {
        let Trigger::Http(route) = &function.trigger else { continue };
        let path = route.path.replace("{seq}", "1").replace(['{', '}'], "");
        let method = Method::from_bytes(route.method.as_str().as_bytes()).unwrap();
        let response = plane.call(method, &format!("{path}?colour=red"), Some(OPERATOR), None).await;
        assert_eq!((response.status, &response.body["field"]), (422, &json!("colour")), "{}", function.name);
        let detail = response.body["detail"].as_str().unwrap();
        let hint = match route.endpoint.query.first() {
            None => "has none".to_owned(),
            Some(parameter) => format!("which has {}", parameter.name),
        };
        assert!(detail.contains(&hint), "{}: {detail}", function.name);
    }
    let response = plane.get("/api/v1/tasks?statsu=pending", OPERATOR).await;
    assert!(response.body["detail"].as_str().unwrap().contains("did you mean status?"), "{}", response.body);
    let unauthenticated = plane.call(Method::GET, "/api/v1/tasks?colour=red", None, None).await;
    assert_eq!(unauthenticated.status, 401, "authentication comes first");
}

#[tokio::test]
async fn both_spellings_of_a_filter_work_on_pages_and_sockets() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for spelling in ["event_type", "event_types"] {
        let path = format!("/api/v1/ws/events?token={OPERATOR}&{spelling}=agent.message");
        let mut socket = plane.socket(&path).await;
        for event_type in ["agent.thinking", "agent.message"] {
            plane.post_events("s-1", &worker, json!({"event_type": event_type})).await.ok();
        }
        let frame = socket.receive().await;
        assert_eq!(frame["event_type"], "SANDBOX_AGENT_MESSAGE", "{spelling}");
        let page =
            plane.get(&format!("/api/v1/sandboxes/s-1/events?{spelling}=agent.message"), OPERATOR).await.ok();
        let types = page["events"].as_array().unwrap().iter().map(|event| &event["event_type"]);
        assert!(types.clone().count() > 0 && types.clone().all(|name| name == "agent.message"), "{spelling}");
    }
}

#[tokio::test]
async fn sockets_refuse_unknown_parameters_after_authentication() {
    let plane = TestPlane::start().await;
    for (token, status, reason) in [(OPERATOR, 422, "did you mean event_types?"), ("wrong", 401, "token")] {
        let refused = plane
            .raw(Method::GET, "/api/v1/ws/events?event_tpes=a")
            .bearer_auth(token)
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let refused = refused.send().await.unwrap();
        assert_eq!(refused.status(), status);
        let body = refused.text().await.unwrap();
        assert!(body.contains(reason), "{body}");
    }
}

#[tokio::test]
async fn the_document_and_the_reference_page_are_served_and_cached() {
    let plane = TestPlane::start().await;
    for (path, media_type) in
        [("/api/v1/openapi.json", "application/json"), ("/api/v1/reference", "text/html; charset=utf-8")]
    {
        let first = plane.raw(Method::GET, path).send().await.unwrap();
        assert_eq!(
            (first.status().as_u16(), &first.headers()["content-type"]),
            (200, &media_type.parse().unwrap())
        );
        assert_eq!(first.headers()["cache-control"], "public, max-age=300");
        let etag = first.headers()["etag"].to_str().unwrap();
        for (known, expected) in [
            (etag.to_owned(), 304),
            (format!("W/{etag}"), 304),
            (format!("\"other\", {etag}"), 304),
            ("*".to_owned(), 304),
            ("\"other\"".to_owned(), 200),
        ] {
            let again = plane.raw(Method::GET, path).header("if-none-match", &known).send().await.unwrap();
            assert_eq!(again.status(), expected, "{known}");
        }
    }
    let document: Value =
        plane.raw(Method::GET, "/api/v1/openapi.json").send().await.unwrap().json().await.unwrap();
    assert_eq!(document["paths"]["/api/v1/openapi.json"]["get"]["operationId"], "api-openapi");
    let page = plane.raw(Method::GET, "/api/v1/reference").send().await.unwrap();
    assert!(page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert!(!page.text().await.unwrap().contains("<script"));
}

#[tokio::test]
async fn an_unsupported_method_is_refused_with_those_that_are_supported() {
    let plane = TestPlane::start().await;
    let response = plane.raw(Method::PUT, "/api/v1/tickets").bearer_auth(OPERATOR).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["allow"]),
        (405, &"POST, GET".parse().unwrap())
    );
}
