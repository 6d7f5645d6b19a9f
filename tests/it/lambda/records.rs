//! Records of the table's stream.

use crate::payloads::{connect, fixture, request, sequence_number, together};
use crate::stage::{Stage, heard, invoke, viewer};
use edge::Plane;
use local::aws::{Fault, Inbox};
use serde_json::{Value, json};
use std::sync::Arc;

/// A socket of somebody of the org acme, who hears everything.
async fn listener(stage: &Stage, process: &Arc<Plane>) -> Inbox {
    let inbox = stage.socket("c-1");
    let opening = connect("c-1", &[("token", &viewer())]);
    assert_eq!(invoke(process, "realtime-connect", &opening).await.unwrap()["statusCode"], 200);
    inbox
}

fn nothing_failed() -> Value {
    json!({"batchItemFailures": []})
}

fn failed(name: &str) -> Value {
    json!({"batchItemFailures": [{"itemIdentifier": sequence_number(name)}]})
}

/// What a socket was told: the ids of events, in order.
fn told(inbox: &mut Inbox) -> Vec<Value> {
    heard(inbox).expect("the socket is open").iter().map(|frame| frame["id"].clone()).collect()
}

#[tokio::test]
async fn what_is_news_is_told_in_order_and_the_rest_is_passed_over() {
    let stage = Stage::open().await;
    let process = stage.process();
    let mut inbox = listener(&stage, &process).await;
    let all = together(&[
        "stream-head",
        "stream-segment",
        "stream-expired",
        "stream-unreadable",
        "stream-compressed",
        "stream-pulse",
    ]);
    assert_eq!(invoke(&process, "events-broadcast", &all).await.unwrap(), nothing_failed());
    let frames = heard(&mut inbox).unwrap();
    let seen: Vec<Value> = frames.iter().map(|frame| json!([frame["id"], frame["seq"]])).collect();
    assert_eq!(json!(seen), json!([["e-1", 1], ["e-2", 2], ["e-3", 3], ["e-4", null]]));
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
async fn each_record_that_is_no_news_is_passed_over_by_itself() {
    let stage = Stage::open().await;
    let process = stage.process();
    let mut inbox = listener(&stage, &process).await;
    stage.aws.meter.start();
    for name in ["stream-head", "stream-expired", "stream-unreadable"] {
        let answer = invoke(&process, "events-broadcast", &fixture(name)).await.unwrap();
        assert_eq!((answer, told(&mut inbox)), (nothing_failed(), vec![]), "{name}");
        assert_eq!(stage.aws.meter.waiting(), 0, "{name} costs nothing");
    }
}

#[tokio::test]
async fn turns_of_a_life_go_to_the_bus_and_nothing_else_does() {
    let stage = Stage::open().await;
    let process = stage.process();
    let all = together(&["stream-segment", "stream-lifecycle", "stream-expired"]);
    assert_eq!(invoke(&process, "events-publish", &all).await.unwrap(), nothing_failed());
    let published = stage.aws.published();
    assert_eq!(published.len(), 1, "{published:?}");
    let notice = &published[0];
    assert_eq!(
        (&notice["Source"], &notice["DetailType"]),
        (&json!("sunaba"), &json!("SANDBOX_AGENT_COMPLETED"))
    );
    let detail: Value = serde_json::from_str(notice["Detail"].as_str().unwrap()).unwrap();
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

/// What the store writes, as the stream brings it, is what the local host would have told.
#[tokio::test]
async fn what_was_stored_comes_through_the_stream_unchanged() {
    let mut stage = Stage::open().await;
    let (process, worker) = (stage.process(), stage.register("s-1").await);
    let mut inbox = listener(&stage, &process).await;
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
        images.push(stage.feeds.records.recv().await.unwrap().image);
    }
    let packed: Vec<bool> = images.iter().map(|image| image.contains_key("zstd")).collect();
    assert_eq!(packed, [false, true, false], "one of them is binary");

    edge::stream::broadcast(&process, &images).await.unwrap();
    let direct = heard(&mut inbox).unwrap();
    assert_eq!(direct[1]["payload"]["text"], text);
    let payload = crate::payloads::stream(&images);
    assert_eq!(invoke(&process, "events-broadcast", &payload).await.unwrap(), nothing_failed());
    assert_eq!(heard(&mut inbox).unwrap(), direct);
}

#[tokio::test]
async fn a_fault_that_passes_is_not_reported_and_everything_is_told() {
    let stage = Stage::open().await;
    let process = stage.process();
    let mut inbox = listener(&stage, &process).await;
    stage.aws.faults.inject("BatchGetItem", Fault::Unreachable);
    let both = together(&["stream-segment", "stream-compressed"]);
    assert_eq!(invoke(&process, "events-broadcast", &both).await.unwrap(), nothing_failed());
    assert_eq!(told(&mut inbox), ["e-1", "e-2", "e-3"]);
    assert_eq!(stage.aws.faults.waiting(), 0);
}

#[tokio::test]
async fn where_the_first_record_fails_lambda_comes_back_with_it() {
    let stage = Stage::open().await;
    let process = stage.process();
    let mut inbox = listener(&stage, &process).await;
    for _ in 0..2 {
        stage.aws.faults.inject("BatchGetItem", Fault::Throttled);
    }
    // What is removed counts for nothing: the first that can fail is the second.
    let all = together(&["stream-expired", "stream-segment", "stream-compressed"]);
    assert_eq!(invoke(&process, "events-broadcast", &all).await.unwrap(), failed("stream-segment"));
    assert!(told(&mut inbox).is_empty(), "what comes later waits for it");
    // Lambda repeats from there.
    assert_eq!(invoke(&process, "events-broadcast", &all).await.unwrap(), nothing_failed());
    assert_eq!(told(&mut inbox), ["e-1", "e-2", "e-3"]);
}

/// Named, it would come back with all the others behind it, again and again until all were given up together.
#[tokio::test]
async fn a_batch_whose_very_first_record_fails_is_halved_by_lambda() {
    let stage = Stage::open().await;
    let process = stage.process();
    let mut inbox = listener(&stage, &process).await;
    let fail_twice = || (0..2).for_each(|_| stage.aws.faults.inject("BatchGetItem", Fault::Throttled));
    fail_twice();
    let both = together(&["stream-segment", "stream-compressed"]);
    assert!(invoke(&process, "events-broadcast", &both).await.is_err(), "only a failed invocation is halved");
    assert!(told(&mut inbox).is_empty());
    fail_twice();
    let alone = invoke(&process, "events-broadcast", &fixture("stream-segment")).await.unwrap();
    assert_eq!(alone, failed("stream-segment"));
}

#[tokio::test]
async fn what_is_before_a_record_that_fails_is_told() {
    let stage = Stage::open().await;
    let process = stage.process();
    let mut inbox = listener(&stage, &process).await;
    // From now on this process knows who listens to messages, and need not ask. Of heartbeats it knows nothing.
    invoke(&process, "events-broadcast", &fixture("stream-compressed")).await.unwrap();
    assert_eq!(told(&mut inbox), ["e-3"]);
    // All together fails at the stamps, the second by itself where it asks who listens.
    stage.aws.faults.inject("BatchGetItem", Fault::ServerError);
    stage.aws.faults.inject("Query", Fault::ServerError);
    let both = together(&["stream-compressed", "stream-pulse"]);
    assert_eq!(invoke(&process, "events-broadcast", &both).await.unwrap(), failed("stream-pulse"));
    assert_eq!(told(&mut inbox), ["e-3"]);
    assert_eq!(stage.aws.faults.waiting(), 0);
}

#[tokio::test]
async fn what_the_bus_does_not_take_comes_again() {
    let stage = Stage::open().await;
    let process = stage.process();
    for _ in 0..2 {
        stage.aws.faults.inject("PutEvents", Fault::ServerError);
    }
    let all = together(&["stream-segment", "stream-lifecycle"]);
    assert_eq!(invoke(&process, "events-publish", &all).await.unwrap(), failed("stream-lifecycle"));
    assert!(stage.aws.published().is_empty());
    assert_eq!(invoke(&process, "events-publish", &all).await.unwrap(), nothing_failed());
    assert_eq!(stage.aws.published().len(), 1);
}
