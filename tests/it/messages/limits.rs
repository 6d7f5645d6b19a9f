//! Messages of the maximum size.

use super::{MESSAGES, ids, message_events, pull, send_as, terminate};
use crate::support::{OPERATOR, TestPlane};
use contract::messages::{MAX_PULL, MAX_RECEIPTS};
use domain::message::{MAX_CONTENT_CHARS, MAX_DETAIL_CHARS};
use serde_json::{Value, json};

/// Limits count characters, and each of these has four bytes.
fn text_of(chars: usize) -> String {
    "\u{1f3d6}".repeat(chars)
}

/// As many messages as one transaction may have: DynamoDB limits items, transactions and responses.
#[tokio::test]
async fn maximum_size_messages_fit_every_limit() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let (content, detail) = (text_of(MAX_CONTENT_CHARS), text_of(MAX_DETAIL_CHARS));
    // Interrupts, because no other messages can be fetched by more than one pull before they are acknowledged.
    let sent: Vec<String> = (0..MAX_RECEIPTS).map(|n| format!("m-{n}")).collect();
    for id in &sent {
        send_as(&plane, id, &content, "interrupt").await.ok();
    }
    let mut pulled = Vec::new();
    while pulled.len() < sent.len() {
        let messages = pull(&plane, &worker, "wait=0").await;
        assert_eq!(messages.len(), MAX_PULL.min(sent.len() - pulled.len()));
        pulled.extend(messages);
    }
    assert_eq!(ids(&pulled), sent);
    assert!(pulled.iter().all(|message| message["content"] == content));

    let receipt = |id: &String| json!({"message_id": id, "state": "completed", "detail": detail});
    let receipts: Vec<Value> = sent.iter().map(receipt).collect();
    let response = plane.post(&format!("{MESSAGES}/ack"), &worker, json!({"receipts": receipts})).await.ok();
    assert_eq!(response["queue_size"], 0);
    let history = plane.get(&format!("{MESSAGES}/history"), OPERATOR).await.ok();
    let messages = history["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &history["next_before"]), (sent.len(), &Value::Null));
    for message in messages {
        assert_eq!(message["content"], content);
        assert_eq!(message["receipts"].as_array().unwrap().last().unwrap()["detail"], detail);
    }

    for n in 0..12 {
        send_as(&plane, &format!("late-{n}"), &content, "user_message").await.ok();
    }
    assert_eq!(terminate(&plane, "done").await["queue_size"], 0);
    let events = message_events(&plane).await;
    let count = |expected: &str| events.iter().filter(|(state, _)| state == expected).count();
    assert_eq!((count("queued"), count("fetched"), count("completed"), count("cancelled")), (37, 25, 25, 12));
}
