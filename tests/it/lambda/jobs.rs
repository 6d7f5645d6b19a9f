//! The queue of jobs, and the schedule.

use crate::payloads::{connect, fixture, frame, job};
use crate::stage::{Stage, heard, invoke};
use crate::support::OPERATOR;
use domain::ConnectionId;
use local::aws::Fault;
use serde_json::{Value, json};

#[tokio::test]
async fn of_two_messages_only_the_one_that_failed_comes_again() {
    let stage = Stage::open().await;
    let process = stage.process();
    let id = "XzYa1cKFPHcCIvA=";
    invoke(&process, "realtime-connect", &connect(id, &[])).await.unwrap();
    let mut inbox = stage.socket(id);
    let answer = invoke(&process, "realtime-expire", &fixture("queue-two-messages")).await.unwrap();
    // The first of the two is nonsense; the second is done all the same.
    let nonsense = json!([{"itemIdentifier": "11111111-2222-4333-8444-555555555501"}]);
    assert_eq!(answer, json!({"batchItemFailures": nonsense}));
    assert_eq!(heard(&mut inbox).unwrap()[0]["code"], "unauthorized");
    assert_eq!(heard(&mut inbox), None, "it is closed");
    assert!(stage.aws.store.connection(&ConnectionId::parse(id).unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn whoever_says_who_they_are_in_the_last_moment_may_stay() {
    let stage = Stage::open().await;
    let process = stage.process();
    let id = "XzYa1cKFPHcCIvA=";
    invoke(&process, "realtime-connect", &connect(id, &[])).await.unwrap();
    let mut inbox = stage.socket(id);
    invoke(&process, "realtime-frame", &frame(id, &json!({"type": "auth", "token": OPERATOR})))
        .await
        .unwrap();
    assert_eq!(heard(&mut inbox).unwrap().len(), 2, "authenticated and subscribed");
    let expire = json!({"job": "expire_socket", "connection_id": id}).to_string();
    let answer = invoke(&process, "realtime-expire", &job(&expire)).await.unwrap();
    assert_eq!(answer, json!({"batchItemFailures": []}));
    assert!(stage.aws.store.connection(&ConnectionId::parse(id).unwrap()).await.unwrap().is_some());
    assert_eq!(stage.aws.hub.len(), 1, "it is open");
}

#[tokio::test]
async fn a_tick_reads_the_table_and_fails_if_the_table_does() {
    let stage = Stage::open().await;
    let process = stage.process();
    stage.aws.meter.start();
    let answer = invoke(&process, "platform-check", &fixture("schedule-tick")).await.unwrap();
    assert_eq!(answer, Value::Null);
    assert_eq!(stage.aws.meter.waiting(), 1, "it has asked the table");
    stage.aws.faults.inject("BatchGetItem", Fault::ServerError);
    // Lambda counts it as an error, and an alarm waits for that.
    assert!(invoke(&process, "platform-check", &fixture("schedule-tick")).await.is_err());
}
