//! Events are stored exactly once, and acknowledged only after they are stored.

use crate::support::{ApiResponse, OPERATOR, TestPlane, batch};
use app::clock::SystemClock;
use app::ids::RandomIds;
use domain::SandboxId;
use edge::auth::{Authenticator, Keys};
use edge::{Plane, Settings};
use local::aws::Fault;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn single_event_gets_the_omoios_response_and_a_sequence_number() {
    let plane = TestPlane::start().await;
    let worker = plane.register("S", "acme").await;
    let event =
        json!({"event_type": "agent.tool_use", "source": "agent", "event_data": {"turn": 3, "tool": "Bash"}});
    for (alias, seq) in [("/api/v1/sandboxes/S/events", 1), ("/api/v1/sandbox/S/events", 2)] {
        let body = plane.post(alias, &worker, event.clone()).await.ok();
        assert_eq!((&body["status"], &body["sandbox_id"]), (&json!("received"), &json!("S")));
        assert_eq!((&body["event_type"], &body["seq"]), (&json!("agent.tool_use"), &json!(seq)));
        assert!(body["event_id"].is_string() && body["timestamp"].as_str().unwrap().ends_with('Z'));
    }
}

#[tokio::test]
async fn retried_batch_is_stored_once_and_gets_its_original_receipt() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let first = plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    let mut again = plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    again["repeated"] = json!(false);
    assert_eq!(first, again);
    plane.post_events("s-1", &worker, batch(1, 2, 4, 2)).await.ok();
    let mut late = plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    late["repeated"] = json!(false);
    assert_eq!(late, first, "a late retry gets its own receipt");
    // A worker that lost its state reuses batch numbers. It must not get a receipt for events that are not stored.
    let restarted = plane.post_events("s-1", &worker, batch(1, 1, 100, 3)).await;
    assert_eq!((restarted.status, &restarted.body["code"]), (409, &json!("batch_changed")));
    let seqs: Vec<_> = plane.log("s-1").await.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn stale_epoch_gap_and_changed_batch_are_conflicts() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &worker, batch(2, 1, 1, 1)).await.ok();
    for (body, code, field) in [
        (batch(1, 2, 9, 1), "stale_epoch", Some(("current_epoch", 2))),
        (batch(2, 3, 9, 1), "batch_gap", Some(("expected_batch", 2))),
        (batch(2, 1, 9, 1), "batch_changed", None),
    ] {
        let response = plane.post_events("s-1", &worker, body).await;
        assert_eq!((response.status, &response.body["code"]), (409, &json!(code)));
        if let Some((name, value)) = field {
            assert_eq!(response.body[name], value);
        }
    }
    assert_eq!(plane.log("s-1").await.len(), 1);
}

/// A worker that is compromised must not end the log for its successors.
#[tokio::test]
async fn one_batch_cannot_exclude_later_runs() {
    let plane = TestPlane::start().await;
    let first = plane.register("s-1", "acme").await;
    plane.post_events("s-1", &first, batch(1, 1, 1, 1)).await.ok();
    for epoch in [(1 << 53) - 1, 1_002] {
        let refused = plane.post_events("s-1", &first, batch(epoch, 1, 2, 1)).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (409, &json!("epoch_too_high")),
            "{}",
            refused.body
        );
        assert_eq!((&refused.body["current_epoch"], &refused.body["max_epoch"]), (&json!(1), &json!(1_001)));
    }
    plane.post_events("s-1", &first, batch(1_001, 1, 2, 1)).await.ok();
    let rotated = plane.post("/api/v1/sandboxes/s-1/token", OPERATOR, json!({})).await.ok();
    let second = rotated["worker_token"].as_str().unwrap();
    let epoch = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok()["epoch"].as_u64().unwrap() + 1;
    plane.post_events("s-1", second, batch(epoch, 1, 3, 1)).await.ok();
    assert_eq!(
        plane.log("s-1").await.len(),
        4,
        "three batches and the rotation: refused batches store nothing"
    );
}

#[tokio::test]
async fn idempotency_key_deduplicates_a_single_event() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let post = async |key: &str, data: Value| {
        let request = plane.raw(Method::POST, "/api/v1/sandboxes/s-1/events").bearer_auth(&worker);
        let body = json!({"event_type": "agent.completed", "event_data": data}).to_string();
        ApiResponse::of(request.header("Idempotency-Key", key).body(body).send().await.unwrap()).await
    };
    let first = post("k-1", json!({"cost": 1})).await.ok();
    assert_eq!(first, post("k-1", json!({"cost": 1})).await.ok());
    assert_eq!(post("k-2", json!({"cost": 1})).await.ok()["seq"], 2);
    let changed = post("k-1", json!({"cost": 2})).await;
    assert_eq!((changed.status, &changed.body["field"]), (422, &json!("Idempotency-Key")));
    assert_eq!(post("", json!({})).await.status, 422);
    assert_eq!(plane.log("s-1").await.len(), 2);
}

#[tokio::test]
async fn heartbeats_are_counted_but_not_logged() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let heartbeat =
        json!({"event_type": "agent.heartbeat", "event_data": {"status": "working"}, "source": "worker"});
    let response = plane.post_events("s-1", &worker, heartbeat.clone()).await.ok();
    assert!(response["seq"].is_null() && response["event_id"].is_string());
    plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    plane.post_events("s-1", &worker, json!({"event_type": "spec.heartbeat"})).await.ok();
    plane.post_events("s-1", &worker, heartbeat).await.ok();
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!((&sandbox["heartbeats"]["count"], &sandbox["last_seq"]), (&json!(3), &json!(1)));
    assert_eq!((&sandbox["heartbeat_status"], &sandbox["status"]), (&json!("working"), &json!("running")));
}

#[tokio::test]
async fn concurrent_senders_leave_no_gap_in_the_log() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let posts = (0..200).map(|n| {
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message", "event_data": {"n": n}}))
    });
    let responses = futures_util::future::join_all(posts).await;
    let mut seqs: Vec<_> =
        responses.into_iter().map(|response| response.ok()["seq"].as_u64().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
    assert_eq!(plane.log("s-1").await.len(), 200);
}

/// A failed write is a 503, never a 200, and a retry is safe.
#[tokio::test]
async fn failed_write_is_a_503_and_the_retry_stores_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for (number, fault) in [Fault::Throttled, Fault::ServerError, Fault::Unreachable].into_iter().enumerate()
    {
        let number = number as u64 + 1;
        plane.running.aws.faults.inject("TransactWriteItems", fault);
        let failed = plane.post_events("s-1", &worker, batch(1, number, number, 1)).await;
        assert_eq!((failed.status, &failed.body["code"]), (503, &json!("unavailable")), "{fault:?}");
        assert!(failed.headers.contains_key("retry-after"));
        plane.post_events("s-1", &worker, batch(1, number, number, 1)).await.ok();
    }
    assert_eq!(plane.running.aws.faults.pending(), 0);
    assert_eq!(plane.log("s-1").await.len(), 3);
}

#[tokio::test]
async fn transaction_conflict_is_retried_internally() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.running.aws.faults.inject("TransactWriteItems", Fault::TransactionConflict);
    plane.running.aws.faults.inject("TransactWriteItems", Fault::TransactionConflict);
    plane.post_events("s-1", &worker, batch(1, 1, 1, 2)).await.ok();
    assert_eq!(plane.running.aws.faults.pending(), 0);
    assert_eq!(plane.log("s-1").await.len(), 2);
}

#[tokio::test]
async fn failed_read_is_a_503_instead_of_an_empty_list() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    // Wait for the broadcast: it reads too, and would consume the injected faults.
    let mut socket = plane.subscribed(OPERATOR, "").await;
    plane.post_events("s-1", OPERATOR, batch(1, 1, 1, 1)).await.ok();
    socket.receive().await;
    for (path, operation) in [
        ("/api/v1/sandboxes/s-1/events", "GetItem"),
        ("/api/v1/sandboxes/s-1/events", "Query"),
        ("/api/v1/sandboxes/s-1/trajectory", "Query"),
        ("/api/v1/sandboxes/s-1/events/1/body", "Query"),
        ("/api/v1/sandboxes", "Query"),
        ("/api/v1/sandboxes", "BatchGetItem"),
    ] {
        plane.running.aws.faults.inject(operation, Fault::Throttled);
        assert_eq!(plane.get(path, OPERATOR).await.status, 503, "{path} without {operation}");
        assert_eq!(plane.get(path, OPERATOR).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn rate_limited_batch_is_a_429_with_retry_after() {
    let plane = TestPlane::start_with(|dev| dev.sandbox_quota.events = 10).await;
    let worker = plane.register("s-1", "acme").await;
    // If a new minute starts between two posts, the third one is still accepted.
    for number in 1.. {
        let response = plane.post_events("s-1", &worker, batch(1, number, number * 8, 8)).await;
        if response.status == 429 {
            let secs: u64 = response.headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&secs));
            let stored = plane.log("s-1").await.len() as u64;
            assert_eq!(stored, (number - 1) * 8, "no event of the rejected batch is stored");
            return;
        }
        assert!(number < 5, "the rate limit never applied");
    }
}

#[tokio::test]
async fn large_event_body_is_stored_separately_and_readable_in_full() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    // Compresses badly, as a transcript in base64 does.
    let mut state = 7u64;
    let noise: String = (0..2_000_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'A' + u8::try_from(state >> 60).unwrap())
        })
        .collect();
    let data = json!({"session_id": "x", "transcript_b64": noise, "turns": 3});
    plane
        .post_events("s-1", &worker, json!({"event_type": "agent.completed", "event_data": data}))
        .await
        .ok();
    let event = plane.log("s-1").await.remove(0);
    assert_eq!(event["event_data"], json!({"session_id": "x", "turns": 3}));
    assert_eq!(event["body"]["omitted"], json!(["transcript_b64"]));
    assert_eq!(event["body"]["size_bytes"], data.to_string().len());
    let href = event["body"]["href"].as_str().unwrap();
    assert_eq!(plane.get(href, OPERATOR).await.ok(), data);
}

/// A batch of the maximum size, of events that each stay inline and do not compress.
#[tokio::test]
async fn batch_larger_than_one_item_is_stored_atomically() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let mut state = 1u64;
    let events: Vec<Value> = (0..5)
        .map(|n| {
            let noise: String = (0..190_000)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b' ' + u8::try_from((state >> 40) % 90).unwrap())
                })
                .filter(|c| !matches!(c, '"' | '\\'))
                .collect();
            json!({"event_id": format!("e-{n}"), "event_type": "agent.message", "event_data": {"n": n, "text": noise}})
        })
        .collect();
    let body = json!({"epoch": 1, "batch": 1, "events": events});
    plane.post_events("s-1", &worker, body.clone()).await.ok();
    plane.post_events("s-1", &worker, batch(1, 2, 6, 1)).await.ok();
    let log = plane.log("s-1").await;
    assert_eq!(log.len(), 6);
    for (event, sent) in log.iter().zip(body["events"].as_array().unwrap()) {
        assert_eq!(event["event_data"], sent["event_data"]);
    }
    for start in 0..6 {
        let path = format!("/api/v1/sandboxes/s-1/events?after_seq={start}&limit=1");
        assert_eq!(plane.get(&path, OPERATOR).await.ok()["events"][0]["seq"], start + 1);
    }
}

#[tokio::test]
async fn event_data_is_returned_byte_for_byte() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let data = r#"{"z":1.10,"big":123456789012345678901234567890,"a":"\u00e9 é 砂場"}"#;
    let request = plane.raw(Method::POST, "/api/v1/sandboxes/s-1/events").bearer_auth(&worker);
    let sent = request.body(format!(r#"{{"event_type":"agent.message","event_data":{data}}}"#)).send().await;
    assert_eq!(sent.unwrap().status(), 200);
    let body = plane.raw(Method::GET, "/api/v1/sandboxes/s-1/events/1/body").bearer_auth(&worker);
    assert_eq!(body.send().await.unwrap().text().await.unwrap(), data);
}

/// On Lambda each request may run in another process, with its own cached version of the sandbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_processes_leave_no_gap_and_no_duplicate() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let aws = &plane.running.aws;
    let new_process = || {
        let keys = Keys { open: true, ..Keys::none() };
        let authenticator = Authenticator::new(&keys, Arc::new(SystemClock));
        let clock = Arc::new(SystemClock);
        Arc::new(Plane::new(
            aws.store.clone(),
            aws.bindings(),
            authenticator,
            clock,
            Arc::new(RandomIds),
            Settings::default(),
        ))
    };
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..3 {
        let process = new_process();
        senders.spawn(async move {
            for n in 0..30 {
                // All three send the same numbered batch, and each sends an event of its own.
                let own = json!({"event_type": "agent.message", "event_data": {"sender": sender, "n": n}});
                for body in [batch(1, n + 1, n, 1), own] {
                    let path = "/api/v1/sandboxes/s-1/events";
                    let mut response;
                    loop {
                        let request = http::Request::post(path).body(body.to_string().into()).unwrap();
                        response = edge::http::dispatch(&process, request).await;
                        // After too many conflicts nothing is stored, and the client retries.
                        if response.status() != 503 {
                            break;
                        }
                    }
                    // 409: this sender is too far behind or ahead of the others.
                    assert!([200, 409].contains(&response.status().as_u16()), "{response:?}");
                }
            }
        });
    }
    while let Some(finished) = senders.join_next().await {
        finished.unwrap();
    }
    let log = plane.log("s-1").await;
    let seqs: Vec<_> = log.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>());
    let numbered: Vec<_> = log
        .iter()
        .filter_map(|event| {
            event["event_data"]["n"].as_u64().filter(|_| event["id"].as_str().unwrap().starts_with("e-"))
        })
        .collect();
    assert_eq!(numbered, (0..30).collect::<Vec<_>>(), "each numbered batch is stored once, in order");
    assert_eq!(log.len(), 30 + 3 * 30, "every unnumbered event is stored once");
}

/// During a deployment two versions run side by side, and a rollback may follow.
#[tokio::test]
async fn unknown_status_of_a_newer_version_is_preserved() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let key = store::keys::sandbox(&SandboxId::parse("s-1").unwrap());
    let key = json!({"PK": {"S": key.pk}, "SK": {"S": key.sk}});
    let table = async |operation: &str, mut request: Value| -> Value {
        request["TableName"] = json!(local::aws::TABLE);
        request["Key"] = key.clone();
        let target = format!("DynamoDB_20120810.{operation}");
        let body = request.to_string();
        let reply = plane.running.aws.call(Some(&target), "POST", "/", body.as_bytes()).await.unwrap();
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        serde_json::from_slice(&reply.body).unwrap()
    };
    let hibernate = json!({
        "UpdateExpression": "SET #status = :status",
        "ExpressionAttributeNames": {"#status": "status"},
        "ExpressionAttributeValues": {":status": {"S": "hibernating"}},
    });
    table("UpdateItem", hibernate).await;
    plane.post_events("s-1", &worker, batch(1, 1, 1, 3)).await.ok();
    assert_eq!(plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok()["status"], "unknown");
    let stored = table("GetItem", json!({"ConsistentRead": true})).await;
    assert_eq!(
        (&stored["Item"]["status"], &stored["Item"]["seq"]),
        (&json!({"S": "hibernating"}), &json!({"N": "3"}))
    );
}
