//! A table that fails, or that somebody else writes to at the same time.

use super::{MESSAGES, ack, end, ids, pull, send, told};
use crate::support::TestPlane;
use local::aws::Fault;
use serde_json::json;

#[tokio::test]
async fn a_table_that_fails_is_a_503_and_the_repeat_sends_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let faults = &plane.running.aws.faults;
    for fault in [Fault::Throttled, Fault::ServerError, Fault::Unreachable] {
        faults.inject("TransactWriteItems", fault);
        let refused = send(&plane, "m-1", "hello").await;
        assert_eq!((refused.status, &refused.body["code"]), (503, &json!("unavailable")), "{fault:?}");
    }
    faults.inject("TransactWriteItems", Fault::TransactionConflict);
    send(&plane, "m-1", "hello").await.ok();
    for fault in [Fault::Throttled, Fault::Unreachable] {
        faults.inject("TransactWriteItems", fault);
        assert_eq!(plane.get(&format!("{MESSAGES}?ack=manual&wait=0"), &worker).await.status, 503);
    }
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-1"], "what was not noted was not handed out");
    assert_eq!(told(&plane).await.len(), 2);
}

/// Of a message that is sent, `a_table_that_fails_is_a_503_and_the_repeat_sends_once` says the same.
#[tokio::test]
async fn a_conflict_is_tried_again() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let faults = &plane.running.aws.faults;
    let conflict = || faults.inject("TransactWriteItems", Fault::TransactionConflict);
    send(&plane, "m-1", "one").await.ok();
    send(&plane, "m-2", "two").await.ok();
    conflict();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&max=1").await), ["m-1"]);
    assert_eq!(faults.waiting(), 0, "the pull met it");
    conflict();
    let answer = ack(&plane, &worker, &[("m-1", "delivered")]).await;
    assert_eq!((&answer["receipts"][0]["changed"], &answer["queue_size"]), (&json!(true), &json!(1)));
    assert_eq!(faults.waiting(), 0, "the receipt met it");
    // Twice, because it is ended by one write and what waits is given up by another.
    conflict();
    conflict();
    let ended = end(&plane, "done").await;
    assert_eq!((&ended["status"], &ended["queue_size"]), (&json!("terminated"), &json!(0)));
    assert_eq!(faults.waiting(), 0, "the end met both");
    let told = told(&plane).await;
    let told: Vec<_> = told.iter().map(|(state, id)| (state.as_str(), id.as_str())).collect();
    let once = [("queued", "m-1"), ("queued", "m-2"), ("fetched", "m-1"), ("delivered", "m-1")];
    assert_eq!(told[..4], once);
    assert_eq!(told[4..], [("cancelled", "m-2")]);
    let log = plane.log("s-1").await;
    assert_eq!(log.iter().filter(|event| event["event_type"] == "sandbox.terminated").count(), 1);
}
