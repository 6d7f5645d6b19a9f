//! A terminated sandbox rejects messages and ends pending pulls.

use super::paused_plane::PausedPlane;
use super::{Api, MESSAGES, ack, message_events, pull, send, terminate};
use crate::support::{OPERATOR, TestPlane};
use reqwest::Method;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn terminated_sandbox_rejects_messages_and_cancels_queued_ones() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    for n in 0..30 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
    }
    pull(&plane, &worker, "wait=0&max=1").await;
    ack(&plane, &worker, &[("m-0", "delivered")]).await;
    // Ten more are fetched and not acknowledged.
    assert_eq!(pull(&plane, &worker, "wait=20").await.len(), 10);
    let terminated = terminate(&plane, "too+slow").await;
    assert_eq!(
        (&terminated["status"], &terminated["ended"]["reason"]),
        (&json!("terminated"), &json!("too slow"))
    );
    assert_eq!(terminated["queue_size"], 0);
    let rejected = send(&plane, "m-31", "hello?").await;
    assert_eq!((rejected.status, &rejected.body["code"]), (409, &json!("sandbox_finished")));
    assert!(rejected.body["detail"].as_str().unwrap().contains("too slow"), "{}", rejected.body);
    assert_eq!(send(&plane, "m-3", "go on").await.status, 200, "a retry of an earlier message is idempotent");
    assert_eq!(plane.get(&format!("{MESSAGES}?wait=0"), &worker).await.status, 409);
    let events = message_events(&plane).await;
    let cancelled = events.iter().filter(|(state, _)| state == "cancelled").count();
    assert_eq!(cancelled, 29, "all but the acknowledged one");
    // Terminating again changes nothing, and the worker may still send its final events.
    let again = plane.call(Method::DELETE, "/api/v1/sandboxes/s-1", Some(OPERATOR), None).await.ok();
    assert_eq!(again["ended"], terminated["ended"]);
    plane.post_events("s-1", &worker, json!({"event_type": "agent.shutdown"})).await.ok();
    assert_eq!(plane.get("/api/v1/sandboxes/s-1", OPERATOR).await.ok()["status"], "terminated");
    let terminations =
        plane.log("s-1").await.into_iter().filter(|event| event["event_type"] == "sandbox.terminated");
    assert_eq!(terminations.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn long_poll_ends_when_its_sandbox_is_terminated() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    let path = format!("{MESSAGES}?wait=20");
    let pull = async { (plane.get(&path, &worker).await, Instant::now()) };
    let termination = async {
        sleep(Duration::from_secs(2)).await;
        let started = Instant::now();
        terminate(&plane, "done").await;
        started
    };
    let ((pulled, finished), started) = tokio::join!(pull, termination);
    assert_eq!((pulled.status, &pulled.body["code"]), (409, &json!("sandbox_finished")));
    assert_eq!(finished - started, Duration::ZERO, "immediately");
}
