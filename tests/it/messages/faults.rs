//! A table that fails or has conflicting writes.

use super::{MESSAGES, ack, ids, message_events, pull, send, terminate};
use crate::support::TestPlane;
use local::aws::Fault;
use serde_json::json;

#[tokio::test]
async fn failed_message_write_is_a_503_and_the_retry_sends_once() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let faults = &plane.running.aws.faults;
    for fault in [Fault::Throttled, Fault::ServerError, Fault::Unreachable] {
        faults.inject("TransactWriteItems", fault);
        let failed = send(&plane, "m-1", "hello").await;
        assert_eq!((failed.status, &failed.body["code"]), (503, &json!("unavailable")), "{fault:?}");
    }
    faults.inject("TransactWriteItems", Fault::TransactionConflict);
    send(&plane, "m-1", "hello").await.ok();
    for fault in [Fault::Throttled, Fault::Unreachable] {
        faults.inject("TransactWriteItems", fault);
        assert_eq!(plane.get(&format!("{MESSAGES}?ack=manual&wait=0"), &worker).await.status, 503);
    }
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-1"], "a failed pull delivers nothing");
    assert_eq!(message_events(&plane).await.len(), 2);
}

/// For sending, see `failed_message_write_is_a_503_and_the_retry_sends_once`.
#[tokio::test]
async fn message_write_conflicts_are_retried() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let faults = &plane.running.aws.faults;
    let conflict = || faults.inject("TransactWriteItems", Fault::TransactionConflict);
    send(&plane, "m-1", "one").await.ok();
    send(&plane, "m-2", "two").await.ok();
    conflict();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&max=1").await), ["m-1"]);
    assert_eq!(faults.pending(), 0, "the pull hit the conflict");
    conflict();
    let response = ack(&plane, &worker, &[("m-1", "delivered")]).await;
    assert_eq!((&response["receipts"][0]["changed"], &response["queue_size"]), (&json!(true), &json!(1)));
    assert_eq!(faults.pending(), 0, "the acknowledgement hit the conflict");
    // Two conflicts: one write terminates the sandbox, another cancels its queued messages.
    conflict();
    conflict();
    let terminated = terminate(&plane, "done").await;
    assert_eq!((&terminated["status"], &terminated["queue_size"]), (&json!("terminated"), &json!(0)));
    assert_eq!(faults.pending(), 0, "the termination hit both conflicts");
    let events = message_events(&plane).await;
    let events: Vec<_> = events.iter().map(|(state, id)| (state.as_str(), id.as_str())).collect();
    let expected = [("queued", "m-1"), ("queued", "m-2"), ("fetched", "m-1"), ("delivered", "m-1")];
    assert_eq!(events[..4], expected);
    assert_eq!(events[4..], [("cancelled", "m-2")]);
    let log = plane.log("s-1").await;
    assert_eq!(log.iter().filter(|event| event["event_type"] == "sandbox.terminated").count(), 1);
}
