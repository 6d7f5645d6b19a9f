//! Events whose data exceeds a transaction: their pieces are stored before the event that refers to them.

use crate::harness::{Harness, body_of, invoke};
use crate::payloads::{request, request_with};
use crate::support::{OPERATOR, TestPlane};
use contract::limits::MAX_EVENT_BYTES;
use domain::SandboxId;
use edge::Plane;
use local::aws::Fault;
use serde_json::{Value, json};
use std::sync::Arc;

const EVENTS: &str = "/api/v1/sandboxes/s-1/events";

async fn post(process: &Arc<Plane>, event: &Value, key: Option<&str>) -> Value {
    let headers: Vec<(&str, &str)> = key.map(|key| ("idempotency-key", key)).into_iter().collect();
    let payload = request_with("POST", EVENTS, OPERATOR, Some(event), &headers);
    invoke(process, "events-ingest", &payload).await.unwrap()
}

async fn last_seq(harness: &Harness) -> u64 {
    harness.aws.store.sandbox(&SandboxId::parse("s-1").unwrap()).await.unwrap().unwrap().seq
}

async fn body(harness: &Harness, seq: u64) -> Value {
    let read = request("GET", &format!("{EVENTS}/{seq}/body"), OPERATOR, None);
    body_of(&invoke(&harness.process(), "events-body", &read).await.unwrap())
}

/// A report whose data does not fit into a transaction.
fn report(seed: u64) -> Value {
    json!({"event_type": "agent.completed", "event_data": {"seed": seed, "transcript_b64": noise(seed, 5_000_000)}})
}

#[tokio::test]
async fn failed_write_of_a_large_event_leaves_no_event() {
    let harness = Harness::open().await;
    harness.register("s-1").await;
    let process = harness.process();
    for (seq, operation) in (1..).zip(["PutItem", "TransactWriteItems"]) {
        harness.aws.faults.inject(operation, Fault::ServerError);
        let failed = post(&process, &report(seq), None).await;
        assert_eq!(failed["statusCode"], 503, "{operation}: {failed}");
        assert_eq!((harness.aws.faults.pending(), last_seq(&harness).await), (0, seq - 1), "{operation}");
        // The retry writes the same pieces again.
        let stored = post(&process, &report(seq), None).await;
        assert_eq!(
            (&stored["statusCode"], &body_of(&stored)["seq"]),
            (&json!(200), &json!(seq)),
            "{operation}"
        );
        assert_eq!(body(&harness, seq).await, report(seq)["event_data"], "{operation}");
    }
}

#[tokio::test]
async fn retry_of_a_large_event_with_a_key_stores_it_once() {
    let harness = Harness::open().await;
    harness.register("s-1").await;
    let process = harness.process();
    let first = post(&process, &report(1), Some("k-1")).await;
    let again = post(&process, &report(1), Some("k-1")).await;
    assert_eq!((&first["statusCode"], body_of(&first)), (&json!(200), body_of(&again)));
    let other = post(&process, &report(2), Some("k-1")).await;
    assert_eq!((&other["statusCode"], &body_of(&other)["field"]), (&json!(422), &json!("Idempotency-Key")));
    assert_eq!(last_seq(&harness).await, 1);
    assert_eq!(body(&harness, 1).await, report(1)["event_data"], "the rejected event has changed nothing");
}

/// Both processes want the same sequence number.
#[tokio::test]
async fn concurrent_large_events_do_not_mix() {
    let harness = Harness::open().await;
    harness.register("s-1").await;
    harness.aws.faults.yield_between_calls(true);
    let (first, second) = (harness.process(), harness.process());
    let (first_report, second_report) = (report(1), report(2));
    let answers = tokio::join!(post(&first, &first_report, None), post(&second, &second_report, None));
    let mut seqs: Vec<u64> = Vec::new();
    for (answer, sent) in [(answers.0, first_report), (answers.1, second_report)] {
        assert_eq!(answer["statusCode"], 200, "{answer}");
        let seq = body_of(&answer)["seq"].as_u64().unwrap();
        assert_eq!(body(&harness, seq).await, sent["event_data"]);
        seqs.push(seq);
    }
    seqs.sort_unstable();
    assert_eq!(seqs, [1, 2]);
}

/// Over HTTP: the host reads no more than the route allows.
#[tokio::test]
async fn only_final_reports_may_exceed_the_size_of_an_event() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let large =
        |name: &str, bytes: usize| json!({"event_type": name, "event_data": {"text": "x".repeat(bytes)}});
    for name in ["agent.message", "agent.started", "continuous.started"] {
        let rejected = plane.post_events("s-1", &worker, large(name, MAX_EVENT_BYTES)).await;
        assert_eq!((rejected.status, &rejected.body["field"]), (413, &json!("body")), "{name}");
        let detail = rejected.body["detail"].as_str().unwrap();
        assert!(detail.contains(&MAX_EVENT_BYTES.to_string()), "{detail}");
    }
    assert!(plane.log("s-1").await.is_empty());
    plane.post_events("s-1", &worker, large("agent.message", MAX_EVENT_BYTES - 1024)).await.ok();
    plane.post_events("s-1", &worker, large("agent.completed", MAX_EVENT_BYTES)).await.ok();
    let log = plane.log("s-1").await;
    let omitted: Vec<_> = log.iter().map(|event| &event["body"]["omitted"]).collect();
    assert_eq!(omitted, [&json!(["text"]), &Value::Null]);
    assert_eq!(log[1]["event_data"], json!({"truncated": ["text"]}));
    // Other routes keep their limit.
    let title = json!({"title": "x".repeat(5 * 1024 * 1024)});
    let rejected = plane.post("/api/v1/tickets", OPERATOR, title).await;
    assert_eq!((rejected.status, &rejected.body["field"]), (413, &json!("body")));
}

/// Text that compresses as a transcript in base64 does: to three quarters.
pub fn noise(seed: u64, length: usize) -> String {
    const SYMBOLS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = seed;
    let symbols = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(SYMBOLS[usize::try_from(state >> 58).unwrap()])
    });
    symbols.take(length).collect()
}
