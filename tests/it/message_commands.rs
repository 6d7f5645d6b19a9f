//! The commands `sunaba messages`, `sunaba resend` and `sunaba cancel-message`, and undeliverable messages in
//! `sunaba send --watch`.

use crate::support::{OPERATOR, TestPlane};
use domain::ingest::Batch;
use domain::mailbox::MAX_DELIVERIES;
use domain::{SandboxId, Timestamp};
use serde_json::{Value, json};
use std::process::Output;
use store::ledger::{Change, Fetched};
use store::log::{Append, Appended};

const MESSAGES: &str = "/api/v1/sandboxes/s-1/messages";

async fn sunaba(plane: &TestPlane, arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_sunaba"));
    command.args(arguments).env("SUNABA_URL", &plane.url).env("SUNABA_TOKEN", OPERATOR);
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    command.output().await.unwrap()
}

/// Standard output of a command that succeeds.
async fn output(plane: &TestPlane, arguments: &[&str]) -> String {
    let output = sunaba(plane, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that fails.
async fn error(plane: &TestPlane, arguments: &[&str]) -> String {
    let output = sunaba(plane, arguments).await;
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

async fn send(plane: &TestPlane, id: &str, content: &str) {
    plane.post(MESSAGES, OPERATOR, json!({"content": content, "message_id": id})).await.ok();
}

async fn pull(plane: &TestPlane, worker: &str) -> Vec<Value> {
    let pulled = plane.get(&format!("{MESSAGES}?ack=manual&wait=0"), worker).await.ok();
    pulled["messages"].as_array().unwrap().clone()
}

/// Makes the only waiting message undeliverable, as if a worker had pulled it ten times. Real pulls would take a second
/// each, until the visibility timeout has passed.
async fn exhaust(plane: &TestPlane, worker: &str) {
    let store = &plane.running.aws.store;
    let sandbox = SandboxId::parse("s-1").unwrap();
    let before = store.sandbox(&sandbox).await.unwrap().unwrap();
    let mut waiting = store.waiting_messages(&sandbox, 10).await.unwrap();
    assert_eq!(waiting.len(), 1);
    let mut waiting = waiting.remove(0);
    waiting.deliveries = MAX_DELIVERIES;
    let fetched = Fetched { waiting, receipts: vec![], queue_handle: None, confirmed: false };
    let append = Append {
        before: &before,
        after: &before.with_events(&[]),
        first_seq: before.seq + 1,
        batch: &Batch::new(None, vec![], String::new()),
        now: Timestamp::from_secs(0),
        idempotency: None,
        changes: &[Change::Fetched(fetched)],
    };
    assert!(matches!(store.append(append).await.unwrap(), Appended::Stored(_)));
    assert!(pull(plane, worker).await.is_empty());
}

#[tokio::test]
async fn messages_are_listed_with_the_newest_last() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    assert_eq!(output(&plane, &["messages", "s-1"]).await, "No messages found.\n");
    send(&plane, "m-1", "one").await;
    exhaust(&plane, &worker).await;
    send(&plane, "m-2", "two\nlines").await;
    pull(&plane, &worker).await;
    send(&plane, "message-3", "three").await;
    let columns = |line: &str| {
        let columns = line.split_whitespace().map(str::to_owned);
        // Without the time.
        columns
            .enumerate()
            .filter(|(index, _)| *index != 1)
            .map(|(_, column)| column)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let listed = output(&plane, &["messages", "s-1"]).await;
    assert_eq!(
        listed.lines().map(columns).collect::<Vec<_>>(),
        [
            "m-1 undeliverable operator 10x one",
            "m-2 fetched operator 1x two lines",
            "message-3 queued operator 0x three",
        ]
    );
    let starts: Vec<_> = listed.lines().map(|line| line.find("operator")).collect();
    assert!(starts.iter().all(|start| *start == starts[0]), "the columns are aligned: {listed}");
    let newest = output(&plane, &["messages", "s-1", "--limit", "1"]).await;
    assert_eq!(newest.lines().map(columns).collect::<Vec<_>>(), ["message-3 queued operator 0x three"]);
}

#[tokio::test]
async fn resend_queues_an_undeliverable_message_again() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    send(&plane, "m-1", "one").await;
    let resend = ["resend", "s-1", "m-1"];
    assert_eq!(output(&plane, &resend).await, "Message m-1 is already waiting for delivery.\n");
    exhaust(&plane, &worker).await;
    assert_eq!(output(&plane, &resend).await, "Message m-1 is queued again.\n");
    assert_eq!(pull(&plane, &worker).await[0]["id"], "m-1");
    let receipt = json!({"receipts": [{"message_id": "m-1", "state": "delivered"}]});
    plane.post(&format!("{MESSAGES}/ack"), &worker, receipt).await.ok();
    let reason = "sunaba: Message m-1 is delivered; only an undeliverable message can be sent again.\n";
    assert_eq!(error(&plane, &resend).await, reason);
}

#[tokio::test]
async fn cancel_message_cancels_an_undeliverable_message() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    send(&plane, "m-1", "one").await;
    exhaust(&plane, &worker).await;
    for _retry in 0..2 {
        assert_eq!(output(&plane, &["cancel-message", "s-1", "m-1"]).await, "Message m-1 cancelled.\n");
    }
    assert!(output(&plane, &["messages", "s-1"]).await.contains("  cancelled "));
}

#[tokio::test]
async fn message_commands_print_the_reason_of_a_refusal() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    for (arguments, reason) in [
        (&["messages", "s-9"][..], "sunaba: Sandbox s-9 was not found.\n"),
        (&["messages", "s 9"], "sunaba: sandbox_id: may contain"),
        (&["resend", "s-1", "m-9"], "sunaba: Message m-9 was not found.\n"),
        (&["resend", "s-1", "m 9"], "sunaba: message_id: may contain"),
        (&["cancel-message", "s-1", "m-9"], "sunaba: Message m-9 was not found.\n"),
        (
            &["messages", "s-1", "--url", "http://127.0.0.1:1"],
            "sunaba: cannot connect to http://127.0.0.1:1;",
        ),
    ] {
        let stderr = error(&plane, arguments).await;
        assert!(stderr.starts_with(reason), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn send_watch_fails_if_the_message_is_undeliverable() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let watch = ["send", "s-1", "one", "--id", "m-1", "--watch"];
    send(&plane, "m-1", "one").await;
    exhaust(&plane, &worker).await;
    let stderr = error(&plane, &watch).await;
    let reason = "message m-1 is undeliverable: the worker pulled it 10 times and never acknowledged it";
    assert!(stderr.contains(reason) && stderr.contains("`sunaba resend s-1 m-1`"), "{stderr}");
}

#[tokio::test]
async fn send_watch_continues_if_the_message_was_sent_again() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    send(&plane, "m-1", "one").await;
    exhaust(&plane, &worker).await;
    plane.post(&format!("{MESSAGES}/m-1/resend"), OPERATOR, json!({})).await.ok();
    let receipt = json!({"receipts": [{"message_id": "m-1", "state": "completed"}]});
    plane.post(&format!("{MESSAGES}/ack"), &worker, receipt).await.ok();
    let watched = output(&plane, &["send", "s-1", "one", "--id", "m-1", "--watch"]).await;
    let states: Vec<&str> = watched.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(states, ["queued", "undeliverable", "queued", "completed"], "{watched}");
}
