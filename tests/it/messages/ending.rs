//! A sandbox that ends takes no messages, and nobody waits there any longer.

use super::paused::PausedPlane;
use super::{Api, MESSAGES, ack, end, pull, send, told};
use crate::support::{OPERATOR, TestPlane};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn a_sandbox_that_ended_takes_no_messages_and_gives_up_those_it_had() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..30 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
    }
    pull(&plane, &worker, "wait=0&max=1").await;
    ack(&plane, &worker, &[("m-0", "delivered")]).await;
    // Ten more are in the worker's hands, and not confirmed.
    assert_eq!(pull(&plane, &worker, "wait=20").await.len(), 10);
    let ended = end(&plane, "too+slow").await;
    assert_eq!((&ended["status"], &ended["ended"]["reason"]), (&json!("terminated"), &json!("too slow")));
    assert_eq!(ended["queue_size"], 0);
    let refused = send(&plane, "m-31", "hello?").await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("sandbox_finished")));
    assert!(refused.body["detail"].as_str().unwrap().contains("too slow"), "{}", refused.body);
    assert_eq!(send(&plane, "m-3", "go on").await.status, 200, "a repeat is a repeat");
    assert_eq!(plane.get(&format!("{MESSAGES}?wait=0"), &worker).await.status, 409);
    let told = told(&plane).await;
    let cancelled = told.iter().filter(|(state, _)| state == "cancelled").count();
    assert_eq!(cancelled, 29, "all but the one that was confirmed");
    // Whoever ends it again changes nothing, and its worker may say its last words.
    let again = plane.call(Method::DELETE, "/api/v1/sandboxes/s-1", Some(OPERATOR), None).await.ok();
    assert_eq!(again["ended"], ended["ended"]);
    plane.post_events("s-1", &worker, json!({"event_type": "agent.shutdown"})).await.ok();
    assert_eq!(plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok()["status"], "terminated");
    let ends = plane.log("s-1").await.into_iter().filter(|event| event["event_type"] == "sandbox.terminated");
    assert_eq!(ends.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_waits_for_a_sandbox_that_ends_is_told_so() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    let path = format!("{MESSAGES}?wait=20");
    let pulling = async { (plane.get(&path, &worker).await, Instant::now()) };
    let ending = async {
        sleep(Duration::from_secs(2)).await;
        let began = Instant::now();
        end(&plane, "done").await;
        began
    };
    let ((waiting, answered), began) = tokio::join!(pulling, ending);
    assert_eq!((waiting.status, &waiting.body["code"]), (409, &json!("sandbox_finished")));
    assert_eq!(answered - began, Duration::ZERO, "at once");
}
