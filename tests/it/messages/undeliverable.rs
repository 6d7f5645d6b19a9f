//! A message that is pulled too often without an acknowledgement: it makes way for the others, and can be sent again.

use super::paused_plane::PausedPlane;
use super::{Api, MESSAGES, ack, ids, pull, send};
use crate::support::{ApiResponse, OPERATOR};
use domain::mailbox::MAX_DELIVERIES;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const DEAD_LETTERS: &str = "http://sqs.local/sunaba-local-dead-letters.fifo";

/// Pulls messages until the first is undeliverable. Returns what the last pull got.
async fn exhaust(plane: &PausedPlane, worker: &str, id: &str) -> Vec<Value> {
    for delivery in 1..=MAX_DELIVERIES {
        let pulled = pull(plane, worker, "wait=0&max=1&visibility=1").await;
        assert_eq!((ids(&pulled), &pulled[0]["receipt"]["delivery"]), (vec![id], &json!(delivery)));
        sleep(Duration::from_secs(2)).await;
    }
    pull(plane, worker, "wait=0&visibility=30").await
}

async fn record(plane: &PausedPlane, id: &str) -> Value {
    let history = plane.get(&format!("{MESSAGES}/history"), OPERATOR).await.ok();
    history["messages"].as_array().unwrap().iter().find(|message| message["id"] == id).unwrap().clone()
}

async fn resend(plane: &PausedPlane, id: &str) -> ApiResponse {
    plane.post(&format!("{MESSAGES}/{id}/resend"), OPERATOR, json!({})).await
}

async fn events(plane: &PausedPlane, state: &str) -> Vec<Value> {
    let path = format!("/api/v1/sandboxes/s-1/events?event_type=message.{state}");
    plane.get(&path, OPERATOR).await.ok()["events"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn message_that_is_never_acknowledged_makes_way_and_ends_in_the_dead_letter_queue() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "poison", "crash").await.ok();
    send(&plane, "next", "go on").await.ok();
    assert_eq!(ids(&exhaust(&plane, &worker, "poison").await), ["next"]);
    assert_eq!(record(&plane, "poison").await["state"], "undeliverable");
    let undeliverable = events(&plane, "undeliverable").await;
    assert_eq!(undeliverable.len(), 1);
    assert_eq!(undeliverable[0]["event_data"]["message_id"], "poison");
    assert_eq!(undeliverable[0]["event_data"]["deliveries"], MAX_DELIVERIES);
    let dead = plane.aws.sqs_client().receive_message().queue_url(DEAD_LETTERS).send().await.unwrap();
    assert!(dead.messages()[0].body().unwrap().contains("\"poison\""), "{dead:?}");
    let sandbox = plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok();
    assert_eq!(sandbox["queue_size"], 1);
}

#[tokio::test(start_paused = true)]
async fn undeliverable_message_can_be_sent_again() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "m-1", "one").await.ok();
    assert_eq!(resend(&plane, "m-1").await.ok()["version"], 1, "a waiting message stays as it is");
    exhaust(&plane, &worker, "m-1").await;
    send(&plane, "m-2", "two").await.ok();
    let sent = resend(&plane, "m-1").await.ok();
    assert_eq!((&sent["state"], &sent["version"], &sent["seq"]), (&json!("queued"), &json!(2), &json!(1)));
    assert_eq!(resend(&plane, "m-1").await.ok(), sent, "a retry changes nothing");
    let pulled = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&pulled), ["m-2", "m-1"], "it is at the end");
    assert_eq!(pulled[1]["receipt"]["delivery"], 1);
    ack(&plane, &worker, &[("m-1", "delivered"), ("m-2", "delivered")]).await;
    let refused = resend(&plane, "m-1").await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("message_not_undeliverable")));
    assert_eq!(resend(&plane, "m-9").await.status, 404);
    let queued = events(&plane, "queued").await;
    let again = queued.iter().find(|event| event["event_data"]["version"] == 2).unwrap();
    assert_eq!(again["event_data"]["message_id"], "m-1");
}

#[tokio::test(start_paused = true)]
async fn undeliverable_message_can_be_cancelled() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "m-1", "one").await.ok();
    exhaust(&plane, &worker, "m-1").await;
    let cancelled = plane.post(&format!("{MESSAGES}/m-1/cancel"), OPERATOR, json!({})).await.ok();
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(resend(&plane, "m-1").await.status, 409);
    assert_eq!(plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok()["queue_size"], 0);
}

/// The worker had it all the time.
#[tokio::test(start_paused = true)]
async fn late_receipt_of_an_undeliverable_message_counts() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "m-1", "one").await.ok();
    exhaust(&plane, &worker, "m-1").await;
    let response = ack(&plane, &worker, &[("m-1", "delivered")]).await;
    assert_eq!((&response["receipts"][0]["changed"], &response["queue_size"]), (&json!(true), &json!(0)));
    assert_eq!(record(&plane, "m-1").await["state"], "delivered");
}
