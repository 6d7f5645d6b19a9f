//! Sending, cancelling and the history of messages.

use super::{MESSAGES, ack, ids, message_events, pull, send};
use crate::support::{OPERATOR, TestPlane, user};
use serde_json::{Value, json};

#[tokio::test]
async fn retried_message_is_sent_once_and_gets_its_original_response() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let first = send(&plane, "m-1", "one").await.ok();
    send(&plane, "m-2", "two").await.ok();
    assert_eq!(send(&plane, "m-1", "one").await.ok(), first);
    let changed = send(&plane, "m-1", "something else").await;
    assert_eq!((changed.status, &changed.body["code"]), (409, &json!("message_changed")));
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-1", "m-2"]);
    ack(&plane, &worker, &[("m-1", "delivered"), ("m-2", "delivered")]).await;
    assert_eq!(send(&plane, "m-1", "one").await.ok(), first, "a retry after the acknowledgement");
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
    let without_id = plane.post(MESSAGES, OPERATOR, json!({"content": "three"})).await.ok();
    assert!(without_id["message_id"].as_str().unwrap().starts_with("msg-"));
}

#[tokio::test]
async fn message_history_is_paged_newest_first() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 1..=7 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
        plane.post_events("s-1", &worker, json!({"event_type": "agent.message"})).await.ok();
    }
    let (mut messages, mut before) = (Vec::new(), String::new());
    loop {
        let page = plane.get(&format!("{MESSAGES}/history?limit=3{before}"), OPERATOR).await.ok();
        messages.extend(page["messages"].as_array().unwrap().clone());
        match page["next_before"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(ids(&messages), ["m-7", "m-6", "m-5", "m-4", "m-3", "m-2", "m-1"]);
}

#[tokio::test]
async fn queued_messages_do_not_count_as_sandbox_activity() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    send(&plane, "m-1", "are you there?").await.ok();
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!((&sandbox["status"], &sandbox["queue_size"]), (&json!("registered"), &json!(1)));
    assert_eq!((&sandbox["last_event_at"], &sandbox["last_work_at"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn message_can_be_cancelled_until_it_is_delivered() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let cancel = async |id: &str| {
        let member = user("acme", "member");
        plane.post(&format!("{MESSAGES}/{id}/cancel"), &member, Value::Null).await
    };
    for id in ["m-1", "m-2", "m-3"] {
        send(&plane, id, "go on").await.ok();
    }
    assert_eq!(cancel("m-2").await.ok()["state"], "cancelled");
    assert_eq!(cancel("m-2").await.ok()["receipts"][1]["detail"], "cancelled by the sender");
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&max=1").await), ["m-1"]);
    // Cancelling a fetched, unacknowledged message releases the messages behind it.
    cancel("m-1").await.ok();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-3"]);
    let response = ack(&plane, &worker, &[("m-1", "delivered"), ("m-3", "delivered")]).await;
    assert_eq!(response["receipts"][0], json!({"message_id": "m-1", "state": "cancelled", "changed": false}));
    let late = cancel("m-3").await;
    assert_eq!((late.status, &late.body["code"]), (409, &json!("message_delivered")));
    assert_eq!(cancel("m-9").await.status, 404);
    let cancelled = message_events(&plane).await.into_iter().filter(|(state, _)| state == "cancelled");
    assert_eq!(
        cancelled.map(|(_, id)| id).collect::<Vec<_>>(),
        ["m-2", "m-1"],
        "each cancellation is logged once"
    );
    assert_eq!(response["queue_size"], 0);
}

#[tokio::test]
async fn message_source_comes_from_the_token() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let notice = json!({"content": "maintenance", "message_type": "system"});
    plane.post(MESSAGES, &user("acme", "member"), notice.clone()).await.ok();
    plane.post(MESSAGES, OPERATOR, notice).await.ok();
    let sources: Vec<Value> =
        plane.log("s-1").await.into_iter().map(|event| event["source"].clone()).collect();
    assert_eq!(sources, ["user", "system"]);
}
