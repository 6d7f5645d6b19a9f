//! Records of the table stream.

use crate::harness::{Harness, invoke, received_frames, viewer};
use crate::payloads::{combined, connect, fixture, request, sequence_number};
use edge::Plane;
use local::aws::{Fault, Inbox};
use serde_json::{Value, json};
use std::sync::Arc;

/// A socket of a viewer of the org acme, without filters.
async fn subscriber(harness: &Harness, process: &Arc<Plane>) -> Inbox {
    let inbox = harness.socket("c-1");
    let payload = connect("c-1", &[("token", &viewer())]);
    assert_eq!(invoke(process, "sockets-connect", &payload).await.unwrap()["statusCode"], 200);
    inbox
}

fn no_failures() -> Value {
    json!({"batchItemFailures": []})
}

fn failed(name: &str) -> Value {
    json!({"batchItemFailures": [{"itemIdentifier": sequence_number(name)}]})
}

/// Ids of the events that a socket received, in order.
fn received_ids(inbox: &mut Inbox) -> Vec<Value> {
    received_frames(inbox).expect("the socket is open").iter().map(|frame| frame["id"].clone()).collect()
}

#[tokio::test]
async fn events_are_broadcast_in_order_and_other_records_are_skipped() {
    let harness = Harness::open().await;
    let process = harness.process();
    let mut inbox = subscriber(&harness, &process).await;
    let all = combined(&[
        "stream-state",
        "stream-segment",
        "stream-expired",
        "stream-undecodable",
        "stream-compressed",
        "stream-ephemeral",
    ]);
    assert_eq!(invoke(&process, "events-broadcast", &all).await.unwrap(), no_failures());
    let frames = received_frames(&mut inbox).unwrap();
    let summary: Vec<Value> = frames.iter().map(|frame| json!([frame["id"], frame["seq"]])).collect();
    assert_eq!(json!(summary), json!([["e-1", 1], ["e-2", 2], ["e-3", 3], ["e-4", null]]));
    assert_eq!(
        frames[0],
        json!({
            "id": "e-1", "seq": 1, "event_type": "SANDBOX_AGENT_MESSAGE", "entity_type": "sandbox", "entity_id": "s-1",
            "payload": {"text": "I will look at the \"tests\" first.", "source": "agent",
                        "original_event_type": "agent.message"},
            "timestamp": "2026-01-05T12:00:00.000000Z",
        })
    );
    let long = frames[2]["payload"]["text"].as_str().unwrap();
    assert!(long.starts_with("Line 1 of") && long.ends_with("Line 100 of a long answer."), "{long}");
}

#[tokio::test]
async fn records_without_events_make_no_aws_calls() {
    let harness = Harness::open().await;
    let process = harness.process();
    let mut inbox = subscriber(&harness, &process).await;
    harness.aws.meter.start();
    for name in ["stream-state", "stream-expired", "stream-undecodable"] {
        let response = invoke(&process, "events-broadcast", &fixture(name)).await.unwrap();
        assert_eq!((response, received_ids(&mut inbox)), (no_failures(), vec![]), "{name}");
        assert_eq!(harness.aws.meter.recorded(), 0, "{name} makes no AWS call");
    }
}

#[tokio::test]
async fn only_lifecycle_events_are_sent_to_eventbridge() {
    let harness = Harness::open().await;
    let process = harness.process();
    let all = combined(&["stream-segment", "stream-lifecycle", "stream-expired"]);
    assert_eq!(invoke(&process, "events-publish", &all).await.unwrap(), no_failures());
    let published = harness.aws.published();
    assert_eq!(published.len(), 1, "{published:?}");
    let entry = &published[0];
    assert_eq!(
        (&entry["Source"], &entry["DetailType"]),
        (&json!("sunaba"), &json!("SANDBOX_AGENT_COMPLETED"))
    );
    let detail: Value = serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap();
    assert_eq!(
        detail,
        json!({
            "org": "acme", "id": "e-7", "seq": 6, "event_type": "SANDBOX_AGENT_COMPLETED", "entity_type": "sandbox",
            "entity_id": "s-1",
            "payload": {"success": true, "source": "agent", "original_event_type": "agent.completed"},
            "timestamp": "2026-01-05T12:00:00.000000Z",
        })
    );
}

/// A stored item that passes through a Lambda payload is broadcast exactly as the local host broadcasts it.
#[tokio::test]
async fn stored_events_pass_through_the_stream_unchanged() {
    let mut harness = Harness::open().await;
    let (process, worker) = (harness.process(), harness.register("s-1").await);
    let mut inbox = subscriber(&harness, &process).await;
    let text = "Grüße, \"Welt\"\n".repeat(200);
    let events = [
        json!({"event_id": "e-1", "event_type": "agent.message", "event_data": {"text": "short"}}),
        json!({"event_id": "e-2", "event_type": "agent.message", "event_data": {"text": text}}),
        json!({"event_id": "e-3", "event_type": "agent.heartbeat", "event_data": {"status": "idle"}}),
    ];
    let mut images = Vec::new();
    for event in events {
        let event = request("POST", "/api/v1/sandboxes/s-1/events", &worker, Some(&event));
        assert_eq!(invoke(&process, "events-ingest", &event).await.unwrap()["statusCode"], 200);
        images.push(harness.feeds.records.recv().await.unwrap().image);
    }
    let compressed: Vec<bool> = images.iter().map(|image| image.contains_key("zstd")).collect();
    assert_eq!(compressed, [false, true, false], "one record is binary");

    edge::stream::broadcast(&process, "1", &images).await.unwrap();
    let direct = received_frames(&mut inbox).unwrap();
    assert_eq!(direct[1]["payload"]["text"], text);
    let payload = crate::payloads::stream(&images);
    assert_eq!(invoke(&process, "events-broadcast", &payload).await.unwrap(), no_failures());
    assert_eq!(received_frames(&mut inbox).unwrap(), direct);
}

#[tokio::test]
async fn transient_fault_is_retried_within_the_invocation() {
    let harness = Harness::open().await;
    let process = harness.process();
    let mut inbox = subscriber(&harness, &process).await;
    harness.aws.faults.inject("BatchGetItem", Fault::Unreachable);
    let both = combined(&["stream-segment", "stream-compressed"]);
    assert_eq!(invoke(&process, "events-broadcast", &both).await.unwrap(), no_failures());
    assert_eq!(received_ids(&mut inbox), ["e-1", "e-2", "e-3"]);
    assert_eq!(harness.aws.faults.pending(), 0);
}

#[tokio::test]
async fn failed_record_is_reported_for_retry() {
    let harness = Harness::open().await;
    let process = harness.process();
    let mut inbox = subscriber(&harness, &process).await;
    for _ in 0..2 {
        harness.aws.faults.inject("BatchGetItem", Fault::Throttled);
    }
    // The record of an expired item is skipped, so the second record is the first that can fail.
    let all = combined(&["stream-expired", "stream-segment", "stream-compressed"]);
    assert_eq!(invoke(&process, "events-broadcast", &all).await.unwrap(), failed("stream-segment"));
    assert!(received_ids(&mut inbox).is_empty(), "later records wait");
    // Lambda retries from the failed record.
    assert_eq!(invoke(&process, "events-broadcast", &all).await.unwrap(), no_failures());
    assert_eq!(received_ids(&mut inbox), ["e-1", "e-2", "e-3"]);
}

/// Reported as a partial failure, it would make Lambda retry the whole batch until all records are discarded. After a
/// failed invocation, Lambda splits the batch instead.
#[tokio::test]
async fn failure_of_the_first_record_fails_the_invocation() {
    let harness = Harness::open().await;
    let process = harness.process();
    let mut inbox = subscriber(&harness, &process).await;
    let fail_twice = || (0..2).for_each(|_| harness.aws.faults.inject("BatchGetItem", Fault::Throttled));
    fail_twice();
    let both = combined(&["stream-segment", "stream-compressed"]);
    assert!(invoke(&process, "events-broadcast", &both).await.is_err(), "only a failed invocation is split");
    assert!(received_ids(&mut inbox).is_empty());
    fail_twice();
    let alone = invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert_eq!(alone, failed("stream-segment"));
}

#[tokio::test]
async fn records_before_a_failed_one_are_delivered() {
    let harness = Harness::open().await;
    let process = harness.process();
    let mut inbox = subscriber(&harness, &process).await;
    // This process now caches the subscribers of messages, but not those of heartbeats.
    invoke(&process, "events-broadcast", &fixture("stream-compressed")).await.unwrap();
    assert_eq!(received_ids(&mut inbox), ["e-3"]);
    // The batch fails when it reads the subscription versions; alone, the second record fails at its subscriber query.
    harness.aws.faults.inject("BatchGetItem", Fault::ServerError);
    harness.aws.faults.inject("Query", Fault::ServerError);
    let both = combined(&["stream-compressed", "stream-ephemeral"]);
    assert_eq!(invoke(&process, "events-broadcast", &both).await.unwrap(), failed("stream-ephemeral"));
    assert_eq!(received_ids(&mut inbox), ["e-3"]);
    assert_eq!(harness.aws.faults.pending(), 0);
}

#[tokio::test]
async fn events_rejected_by_eventbridge_are_retried() {
    let harness = Harness::open().await;
    let process = harness.process();
    for _ in 0..2 {
        harness.aws.faults.inject("PutEvents", Fault::ServerError);
    }
    let all = combined(&["stream-segment", "stream-lifecycle"]);
    assert_eq!(invoke(&process, "events-publish", &all).await.unwrap(), failed("stream-lifecycle"));
    assert!(harness.aws.published().is_empty());
    assert_eq!(invoke(&process, "events-publish", &all).await.unwrap(), no_failures());
    assert_eq!(harness.aws.published().len(), 1);
}
