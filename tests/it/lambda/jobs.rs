//! The job queues and the schedule.

use crate::harness::{Harness, invoke, received_frames};
use crate::payloads::{connect, fixture, frame, job};
use crate::support::OPERATOR;
use domain::ConnectionId;
use local::aws::Fault;
use serde_json::{Value, json};

#[tokio::test]
async fn only_the_failed_message_of_a_batch_is_retried() {
    let harness = Harness::open().await;
    let process = harness.process();
    let id = "XzYa1cKFPHcCIvA=";
    invoke(&process, "sockets-connect", &connect(id, &[])).await.unwrap();
    let mut inbox = harness.socket(id);
    let response = invoke(&process, "sockets-expire", &fixture("queue-two-messages")).await.unwrap();
    // The first message is malformed; the second is processed anyway.
    let failures = json!([{"itemIdentifier": "11111111-2222-4333-8444-555555555501"}]);
    assert_eq!(response, json!({"batchItemFailures": failures}));
    assert_eq!(received_frames(&mut inbox).unwrap()[0]["code"], "unauthorized");
    assert_eq!(received_frames(&mut inbox), None, "the socket is closed");
    assert!(harness.aws.store.connection(&ConnectionId::parse(id).unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn socket_that_authenticates_before_expiry_stays_open() {
    let harness = Harness::open().await;
    let process = harness.process();
    let id = "XzYa1cKFPHcCIvA=";
    invoke(&process, "sockets-connect", &connect(id, &[])).await.unwrap();
    let mut inbox = harness.socket(id);
    invoke(&process, "sockets-frame", &frame(id, &json!({"type": "auth", "token": OPERATOR}))).await.unwrap();
    assert_eq!(received_frames(&mut inbox).unwrap().len(), 2, "authenticated and subscribed");
    let expire = json!({"job": "expire_socket", "connection_id": id}).to_string();
    let response = invoke(&process, "sockets-expire", &job(&expire)).await.unwrap();
    assert_eq!(response, json!({"batchItemFailures": []}));
    assert!(harness.aws.store.connection(&ConnectionId::parse(id).unwrap()).await.unwrap().is_some());
    assert_eq!(harness.aws.hub.len(), 1, "the socket is open");
}

#[tokio::test]
async fn scheduled_check_fails_when_the_table_fails() {
    let harness = Harness::open().await;
    let process = harness.process();
    harness.aws.meter.start();
    let response = invoke(&process, "platform-check", &fixture("schedule-tick")).await.unwrap();
    assert_eq!(response, Value::Null);
    assert_eq!(harness.aws.meter.recorded(), 1, "it reads the table");
    harness.aws.faults.inject("BatchGetItem", Fault::ServerError);
    // The function error triggers an alarm.
    assert!(invoke(&process, "platform-check", &fixture("schedule-tick")).await.is_err());
}
