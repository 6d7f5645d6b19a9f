//! The largest of everything.

use super::{MESSAGES, end, ids, pull, send_as, told};
use crate::support::{OPERATOR, TestPlane};
use contract::messages::{MAX_PULL, MAX_RECEIPTS};
use domain::message::{MAX_CONTENT_CHARS, MAX_DETAIL_CHARS};
use serde_json::{Value, json};

/// Characters are counted, and each of these has four bytes.
fn longest(chars: usize) -> String {
    "\u{1f3d6}".repeat(chars)
}

/// As many as one transaction takes, in one: DynamoDB has limits for an item, a transaction and an answer.
#[tokio::test]
async fn the_longest_messages_fit_everywhere() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let (content, detail) = (longest(MAX_CONTENT_CHARS), longest(MAX_DETAIL_CHARS));
    // Interrupts, since nothing else can be in the worker's hands by more than one pull.
    let sent: Vec<String> = (0..MAX_RECEIPTS).map(|n| format!("m-{n}")).collect();
    for id in &sent {
        send_as(&plane, id, &content, "interrupt").await.ok();
    }
    let mut handed = Vec::new();
    while handed.len() < sent.len() {
        let messages = pull(&plane, &worker, "wait=0").await;
        assert_eq!(messages.len(), MAX_PULL.min(sent.len() - handed.len()));
        handed.extend(messages);
    }
    assert_eq!(ids(&handed), sent);
    assert!(handed.iter().all(|message| message["content"] == content));

    let receipt = |id: &String| json!({"message_id": id, "state": "completed", "detail": detail});
    let receipts: Vec<Value> = sent.iter().map(receipt).collect();
    let answer = plane.post(&format!("{MESSAGES}/ack"), &worker, json!({"receipts": receipts})).await.ok();
    assert_eq!(answer["queue_size"], 0);
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
    assert_eq!(end(&plane, "done").await["queue_size"], 0);
    let told = told(&plane).await;
    let count = |wanted: &str| told.iter().filter(|(state, _)| state == wanted).count();
    assert_eq!((count("queued"), count("fetched"), count("completed"), count("cancelled")), (37, 25, 25, 12));
}
