//! Invalid requests are rejected with a 4xx that names the field, and store nothing.

use crate::support::{ApiResponse, OPERATOR, TestPlane, batch, now_secs, user, user_with};
use domain::access::Scope;
use edge::registry::{FUNCTIONS, Trigger};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn invalid_event_names_the_field_and_stores_nothing() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let deep =
        format!(r#"{{"event_type":"a","event_data":{{"a":{}1{}}}}}"#, "[".repeat(3_000), "]".repeat(3_000));
    let huge = format!(r#"{{"event_type":"a","event_data":{{"a":"{}"}}}}"#, "x".repeat(10 * 1024 * 1024));
    let wide_batch = batch(1, 1, 1, 101).to_string();
    let long_type = format!(r#"{{"event_type":"{}"}}"#, "x".repeat(101));
    let cases: Vec<(&[u8], u16, Option<&str>)> = vec![
        (b"", 400, None),
        (b"{", 400, None),
        (b"{\"event_type\":\"\xff\xfe\"}", 400, None),
        (b"[]", 422, Some("body")),
        (b"\"agent.message\"", 422, Some("body")),
        (b"{}", 422, Some("event_type")),
        (br#"{"event_type":""}"#, 422, Some("event_type")),
        (br#"{"event_type":"agent tool"}"#, 422, Some("event_type")),
        (br#"{"event_type":"agent/../x"}"#, 422, Some("event_type")),
        (br#"{"event_type":5}"#, 422, Some("event_type")),
        (long_type.as_bytes(), 422, Some("event_type")),
        (br#"{"event_type":"a","source":"robot"}"#, 422, Some("source")),
        (br#"{"event_type":"a","source":"user"}"#, 422, Some("source")),
        (br#"{"event_type":"a","source":"guardian"}"#, 422, Some("source")),
        (br#"{"event_type":"a","source":"system"}"#, 422, Some("source")),
        (
            br#"{"epoch":1,"batch":1,"events":[{"event_type":"a"},{"event_type":"a","source":"user"}]}"#,
            422,
            Some("events[1].source"),
        ),
        (br#"{"event_type":"a","event_data":"text"}"#, 422, Some("event_data")),
        (br#"{"event_type":"a","event_data":[1]}"#, 422, Some("event_data")),
        (deep.as_bytes(), 422, Some("event_data")),
        (huge.as_bytes(), 413, Some("body")),
        (br#"{"epoch":1,"batch":1,"events":[]}"#, 422, Some("events")),
        (br#"{"epoch":1,"events":[{"event_type":"a"}]}"#, 422, Some("batch")),
        (br#"{"epoch":-1,"batch":1,"events":[{"event_type":"a"}]}"#, 422, Some("epoch")),
        (
            br#"{"epoch":1,"batch":1,"events":[{"event_type":"a"},{"event_type":" "}]}"#,
            422,
            Some("events[1].event_type"),
        ),
        (wide_batch.as_bytes(), 422, Some("events")),
    ];
    for (body, status, field) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let request = plane.raw(Method::POST, "/api/v1/sandboxes/s-1/events").bearer_auth(&worker);
        // The server may close the connection before a huge body is sent. Both a response and a broken connection are
        // rejections, and the check below shows that nothing was stored.
        let Ok(response) = request.body(body.to_vec()).send().await else {
            assert_eq!(status, 413, "{shown}");
            continue;
        };
        let response = ApiResponse::of(response).await;
        assert_eq!(response.status, status, "{shown}: {}", response.body);
        assert_eq!(response.headers["content-type"], "application/problem+json", "{shown}");
        assert_eq!(response.body["field"].as_str(), field, "{shown}: {}", response.body);
        assert!(
            response.body["detail"].as_str().unwrap().len() > 10 && response.body["request_id"].is_string()
        );
    }
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!((&sandbox["last_seq"], &sandbox["status"]), (&json!(0), &json!("registered")));
}

#[tokio::test]
async fn invalid_message_request_names_the_field() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let long = json!({"content": "x".repeat(10_001)}).to_string();
    let many: Vec<Value> =
        (0..26).map(|n| json!({"message_id": format!("m-{n}"), "state": "started"})).collect();
    let many = json!({"receipts": many}).to_string();
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    for (method, path, body, status, field) in [
        (&post, "/messages", "{", 400, None),
        (&post, "/messages", "[]", 422, Some("body")),
        (&post, "/messages", "{}", 422, Some("content")),
        (&post, "/messages", r#"{"content":""}"#, 422, Some("content")),
        (&post, "/messages", r#"{"content":"\u0007\n"}"#, 422, Some("content")),
        (&post, "/messages", &long, 422, Some("content")),
        (&post, "/messages", r#"{"content":"a","message_type":"unknown"}"#, 422, Some("message_type")),
        (&post, "/messages", r#"{"content":"a","message_id":"a b"}"#, 422, Some("message_id")),
        (&get, "/messages?wait=21", "", 422, Some("wait")),
        (&get, "/messages?wait=-1", "", 422, Some("wait")),
        (&get, "/messages?max=0", "", 422, Some("max")),
        (&get, "/messages?max=11", "", 422, Some("max")),
        (&get, "/messages?visibility=0", "", 422, Some("visibility")),
        (&get, "/messages?visibility=601", "", 422, Some("visibility")),
        (&get, "/messages?ack=perhaps", "", 422, Some("ack")),
        (&get, "/messages/history?limit=101", "", 422, Some("limit")),
        (&get, "/messages/history?before=0", "", 422, Some("before")),
        (&post, "/messages/ack", r#"{"receipts":[]}"#, 422, Some("receipts")),
        (&post, "/messages/ack", &many, 422, Some("receipts")),
        (&delete, "?reason=%07", "", 422, Some("reason")),
    ] {
        let request = plane.raw(method.clone(), &format!("/api/v1/sandboxes/s-1{path}"));
        let response =
            ApiResponse::of(request.bearer_auth(OPERATOR).body(body.to_owned()).send().await.unwrap()).await;
        assert_eq!((response.status, response.body["field"].as_str()), (status, field), "{path} {body}");
    }
    let forged = json!({"event_type": "message.completed", "event_data": {"message_id": "m-1"}});
    let forged = plane.post_events("s-1", &worker, forged).await;
    assert_eq!((forged.status, &forged.body["field"]), (422, &json!("event_type")));
    let unknown = plane.post("/api/v1/sandboxes/s-9/messages", OPERATOR, json!({"content": "hello"})).await;
    assert_eq!(unknown.status, 404);
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    let untouched = (&sandbox["last_seq"], &sandbox["status"], &sandbox["queue_size"]);
    assert_eq!(untouched, (&json!(0), &json!("registered"), &json!(0)));
}

#[tokio::test]
async fn invalid_session_entries_name_the_field() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let many = json!({"first": 1, "entries": vec![json!({}); 501]}).to_string();
    let (get, post) = (Method::GET, Method::POST);
    for (method, path, body, status, field) in [
        (&post, "/c0ffee/entries", "{", 400, None),
        (&post, "/c0ffee/entries", "[]", 422, Some("body")),
        (&post, "/c0ffee/entries", r#"{"entries":[{}]}"#, 422, Some("first")),
        (&post, "/c0ffee/entries", r#"{"first":0,"entries":[{}]}"#, 422, Some("first")),
        (&post, "/c0ffee/entries", r#"{"first":1,"entries":[]}"#, 422, Some("entries")),
        (&post, "/c0ffee/entries", r#"{"first":1,"entries":[{},"x"]}"#, 422, Some("entries[1]")),
        (&post, "/c0ffee/entries", &many, 422, Some("entries")),
        (&post, "/a%20b/entries", r#"{"first":1,"entries":[{}]}"#, 422, Some("session_id")),
        (&get, "/a%20b/entries", "", 422, Some("session_id")),
        (&get, "/c0ffee/entries?limit=501", "", 422, Some("limit")),
        (&get, "/c0ffee/entries?after=-1", "", 422, Some("after")),
    ] {
        let request = plane.raw(method.clone(), &format!("/api/v1/sandboxes/s-1/sessions{path}"));
        let response =
            ApiResponse::of(request.bearer_auth(OPERATOR).body(body.to_owned()).send().await.unwrap()).await;
        assert_eq!((response.status, response.body["field"].as_str()), (status, field), "{path} {body}");
    }
    assert_eq!(plane.get("/api/v1/sandboxes/s-1/sessions/c0ffee/entries", OPERATOR).await.status, 404);
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let single = json!({"event_type": "agent.message", "color": "red", "nested": {"x": [1]}});
    plane.post_events("s-1", &worker, single).await.ok();
    let mut many = batch(1, 1, 1, 1);
    many["extra"] = json!(1);
    many["events"][0]["extra"] = json!(null);
    plane.post_events("s-1", &worker, many).await.ok();
    assert_eq!(plane.log("s-1").await.len(), 2);
}

#[tokio::test]
async fn invalid_tokens_store_nothing() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let other = plane.register("s-2", "acme").await;
    let expired = user_with(json!({"sub": "u", "org": "acme", "role": "admin", "exp": now_secs() - 1}));
    let mut forged = worker.clone();
    forged.replace_range(forged.len() - 4.., "AAAA");
    for (token, status, reason) in [
        (None, 401, "no token"),
        (Some("nonsense"), 401, "malformed"),
        (Some(""), 401, "empty"),
        (Some(forged.as_str()), 401, "forged"),
        (Some(other.as_str()), 403, "of another sandbox"),
        (Some(expired.as_str()), 401, "expired"),
        (Some(user("rival", "admin").as_str()), 403, "a user of another org"),
        (Some(user("acme", "admin").as_str()), 403, "a user"),
    ] {
        let event = Some(json!({"event_type": "agent.message"}));
        let response = plane.call(Method::POST, "/api/v1/sandboxes/s-1/events", token, event).await;
        assert_eq!(response.status, status, "{reason}: {}", response.body);
    }
    plane.post("/api/v1/sandboxes/s-1/token", OPERATOR, Value::Null).await.ok();
    let revoked = plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await;
    assert_eq!(revoked.status, 401, "a replaced token: {}", revoked.body);
    let unknown = plane.post_events("s-9", OPERATOR, json!({"event_type": "agent.message"})).await;
    assert_eq!(unknown.status, 404);
    let log = plane.log("s-1").await;
    let types: Vec<&Value> = log.iter().map(|event| &event["event_type"]).collect();
    assert_eq!(types, ["sandbox.token_rotated"]);
}

/// The plane caches sandboxes, but must reject a replaced token nevertheless.
#[tokio::test]
async fn replaced_token_is_rejected_immediately() {
    let plane = TestPlane::start().await;
    let old = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &old, batch(1, 1, 1, 1)).await.ok();
    let new = plane.post("/api/v1/sandboxes/s-1/token", OPERATOR, Value::Null).await.ok();
    assert_eq!(plane.post_events("s-1", &old, batch(1, 2, 2, 1)).await.status, 401);
    plane.post_events("s-1", new["worker_token"].as_str().unwrap(), batch(1, 2, 2, 1)).await.ok();
    let log = plane.log("s-1").await;
    let types: Vec<&Value> = log.iter().map(|event| &event["event_type"]).collect();
    assert_eq!(types, ["agent.message", "sandbox.token_rotated", "agent.message"]);
}

#[tokio::test]
async fn unknown_hosts_and_origins_are_rejected() {
    let plane = TestPlane::start().await;
    let health = || plane.raw(Method::GET, "/api/v1/sandboxes/health");
    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
    assert_eq!(status(health()).await, 200);
    assert_eq!(status(health().header("Host", "evil.example")).await, 421);
    assert_eq!(status(health().header("Origin", "http://evil.example")).await, 403);
    assert_eq!(status(health().header("Origin", "null")).await, 403);
    let allowed = health().header("Origin", "https://console.example").send().await.unwrap();
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://console.example");
    let preflight =
        plane.raw(Method::OPTIONS, "/api/v1/sandboxes").header("Origin", "https://console.example");
    let preflight = preflight.send().await.unwrap();
    assert_eq!(preflight.status(), 204);
    assert!(
        preflight.headers()["access-control-allow-headers"].to_str().unwrap().contains("Idempotency-Key")
    );
}

/// A page can request an image from any address. The browser sends no `Origin` then, and without authentication the request
/// needs no token.
#[tokio::test]
async fn page_of_another_site_cannot_use_the_api_without_authentication() {
    let plane = TestPlane::start_with(|dev| dev.no_auth = true).await;
    let event = json!({"event_type": "agent.started"});
    plane.call(Method::POST, "/api/v1/sandboxes/s-1/events", None, Some(event)).await.ok();
    let message = json!({"message_id": "m-1", "content": "Go on"});
    plane.call(Method::POST, "/api/v1/sandboxes/s-1/messages", None, Some(message)).await.ok();
    let send = async |method: &Method, path: &str, site: &str| {
        let request = plane.raw(method.clone(), path).header("Sec-Fetch-Site", site);
        ApiResponse::of(request.send().await.unwrap()).await
    };
    for site in ["cross-site", "same-site"] {
        for function in FUNCTIONS {
            let Trigger::Http(route) = &function.trigger else { continue };
            let path = route.path.replace("{id}", "s-1").replace("{message_id}", "m-1").replace("{seq}", "1");
            let path = path.replace("{session_id}", "x-1").replace("{dependency_id}", "t-2");
            let answer = send(&route.method, &path, site).await;
            if route.scope == Scope::Public {
                assert_eq!(answer.status, 200, "{path}: links of other sites lead to documents");
            } else {
                assert_eq!(
                    (answer.status, &answer.body["code"]),
                    (403, &json!("origin_not_allowed")),
                    "{path}"
                );
            }
        }
        let handshake = plane.raw(Method::GET, "/api/v1/ws/events").header("Sec-Fetch-Site", site);
        let handshake = handshake.header("Connection", "Upgrade").header("Upgrade", "websocket");
        let handshake = handshake
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "c3VuYWJhIHRlc3QgMDAwMQ==");
        assert_eq!(handshake.send().await.unwrap().status(), 403, "socket, {site}");
        let console = send(&Method::GET, "/sandboxes", site).await;
        assert!(
            console.headers.contains_key("content-security-policy"),
            "the console is not part of the API"
        );
    }
    let own = send(&Method::GET, "/api/v1/sandboxes/s-1/messages?wait=0", "same-origin").await.ok();
    assert_eq!(own[0]["id"], "m-1", "no page has consumed it: {own}");
}

#[tokio::test]
async fn valid_request_id_is_echoed() {
    let plane = TestPlane::start().await;
    let get_with_id = async |id: &str| {
        let request = plane.raw(Method::GET, "/api/v1/nothing").header("X-Request-ID", id);
        ApiResponse::of(request.send().await.unwrap()).await
    };
    let echoed = get_with_id("abc-123").await;
    assert_eq!((echoed.status, &echoed.body["request_id"]), (404, &json!("abc-123")));
    assert_eq!(echoed.headers["x-request-id"], "abc-123");
    assert_ne!(get_with_id(&"x".repeat(200)).await.headers["x-request-id"].len(), 200);
}

/// An unauthorized client must not make the plane buffer a body.
#[tokio::test]
async fn unauthorized_request_is_rejected_before_its_body_is_read() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    for (host, status) in [("127.0.0.1", "401"), ("evil.example", "421")] {
        let mut connection = TcpStream::connect(plane.running.address).await.unwrap();
        let path = "/api/v1/sandboxes/s-1/events";
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 4000000\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut status_line = [0; 12];
        let read = timeout(Duration::from_secs(60), connection.read_exact(&mut status_line)).await;
        read.expect("a response before the body").unwrap();
        assert_eq!(&String::from_utf8_lossy(&status_line)[9..], status);
    }
}
