//! Tests through the real SDK, with a paused clock.

use super::super::{Aws, Durability, Feeds};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::create_queue::CreateQueueError;
use aws_sdk_sqs::operation::receive_message::ReceiveMessageError;
use aws_sdk_sqs::types::{Message, QueueAttributeName};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A queue in an in-process AWS.
struct Harness {
    aws: Aws,
    feeds: Feeds,
    sqs: Client,
    url: String,
    _data: TempDir,
}

const NAME: &str = "sandbox-1.fifo";
const VISIBILITY: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(600);
const ATTRIBUTES: [(&str, &str); 3] =
    [("FifoQueue", "true"), ("VisibilityTimeout", "30"), ("MessageRetentionPeriod", "600")];

async fn create(
    sqs: &Client,
    name: &str,
    attributes: &[(&str, &str)],
) -> Result<String, SdkError<CreateQueueError>> {
    let mut create = sqs.create_queue().queue_name(name);
    for (name, value) in attributes {
        create = create.attributes(QueueAttributeName::from(*name), *value);
    }
    Ok(create.send().await?.queue_url.unwrap())
}

impl Harness {
    async fn new() -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let sqs = aws.sqs_client();
        let url = create(&sqs, NAME, &ATTRIBUTES).await.unwrap();
        Self { aws, feeds, sqs, url, _data: data }
    }

    /// The body is also the deduplication id.
    async fn send(&self, group: &str, body: &str) -> String {
        let send = self.sqs.send_message().queue_url(&self.url).message_body(body);
        let sent = send.message_group_id(group).message_deduplication_id(body).send().await.unwrap();
        sent.message_id.unwrap()
    }

    async fn try_receive(&self, wait_s: i32) -> Result<Vec<Message>, SdkError<ReceiveMessageError>> {
        let receive = self.sqs.receive_message().queue_url(&self.url).max_number_of_messages(10);
        Ok(receive.wait_time_seconds(wait_s).send().await?.messages.unwrap_or_default())
    }

    async fn receive(&self) -> Vec<Message> {
        self.try_receive(0).await.unwrap()
    }

    async fn receive_one(&self) -> Message {
        let receive = self.sqs.receive_message().queue_url(&self.url);
        receive.send().await.unwrap().messages.unwrap().remove(0)
    }

    /// A long poll that is waiting when this returns. It yields the bodies and how long it took.
    async fn waiting(&self) -> JoinHandle<(Result<Vec<String>, String>, Duration)> {
        let receive = self.sqs.receive_message().queue_url(&self.url).max_number_of_messages(10);
        let waiting = tokio::spawn(async move {
            let started = Instant::now();
            let received = receive.wait_time_seconds(20).send().await;
            let received = received.map(|received| bodies(received.messages()));
            (received.map_err(|error| error.code().unwrap_or_default().to_owned()), started.elapsed())
        });
        sleep(SECOND).await;
        waiting
    }

    async fn delete(&self, message: &Message) -> Result<(), String> {
        let delete = self.sqs.delete_message().queue_url(&self.url);
        let deleted = delete.receipt_handle(message.receipt_handle().unwrap()).send().await;
        deleted.map(drop).map_err(|error| error.code().unwrap_or_default().to_owned())
    }

    async fn hide(&self, message: &Message, visibility_s: i32) -> Result<(), String> {
        let change = self.sqs.change_message_visibility().queue_url(&self.url);
        let change = change.receipt_handle(message.receipt_handle().unwrap());
        let changed = change.visibility_timeout(visibility_s).send().await;
        changed.map(drop).map_err(|error| error.code().unwrap_or_default().to_owned())
    }

    /// Number of visible messages, and of those in flight.
    async fn count(&self) -> (String, String) {
        let (visible, in_flight) = (
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        );
        let get = self.sqs.get_queue_attributes().queue_url(&self.url);
        let got = get.attribute_names(visible.clone()).attribute_names(in_flight.clone()).send().await;
        let mut attributes = got.unwrap().attributes.unwrap();
        (attributes.remove(&visible).unwrap(), attributes.remove(&in_flight).unwrap())
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn bodies(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.body().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn job_is_delivered_after_its_delay() {
    let mut harness = Harness::new().await;
    let started = Instant::now();
    harness.aws.socket_jobs.send("later", Duration::from_secs(10)).await.unwrap();
    harness.aws.socket_jobs.send("now", Duration::ZERO).await.unwrap();
    assert_eq!(harness.feeds.jobs.recv().await.unwrap().body, "now");
    assert_eq!(harness.feeds.jobs.recv().await.unwrap().body, "later");
    assert_eq!(started.elapsed().as_secs(), 10);
    let received = harness.sqs.receive_message().queue_url("http://sqs.local/socket-jobs").send().await;
    assert!(received.unwrap_err().into_service_error().is_unsupported_operation());
}

#[tokio::test(start_paused = true)]
async fn received_message_equals_the_sent_one() {
    let harness = Harness::new().await;
    assert_eq!(harness.url, "http://sqs.local/sandbox-1.fifo");
    let send = harness.sqs.send_message().queue_url(&harness.url).message_body("hello");
    let sent = send.message_group_id("g").message_deduplication_id("1").send().await.unwrap();
    let md5 = "5d41402abc4b2a76b9719d911017c592";
    assert_eq!((sent.md5_of_message_body(), sent.sequence_number().unwrap().len()), (Some(md5), 20));
    assert_eq!(harness.count().await, ("1".into(), "0".into()));
    let message = harness.receive_one().await;
    assert_eq!((message.body(), message.md5_of_body()), (Some("hello"), Some(md5)));
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(harness.count().await, ("0".into(), "1".into()));
    harness.delete(&message).await.unwrap();
    assert_eq!(harness.count().await, ("0".into(), "0".into()));
}

#[tokio::test(start_paused = true)]
async fn create_queue_is_idempotent() {
    let harness = Harness::new().await;
    harness.send("g", "kept").await;
    for same in [&ATTRIBUTES[..], &ATTRIBUTES[..1]] {
        assert_eq!(create(&harness.sqs, NAME, same).await.unwrap(), harness.url);
    }
    let other = [("FifoQueue", "true"), ("VisibilityTimeout", "31")];
    let refused = create(&harness.sqs, NAME, &other).await.unwrap_err().into_service_error();
    assert!(refused.is_queue_name_exists(), "{refused:?}");
    assert_eq!(bodies(&harness.receive().await), ["kept"]);
    let get = harness.sqs.get_queue_attributes().queue_url(&harness.url);
    let got = get.attribute_names(QueueAttributeName::All).send().await.unwrap().attributes.unwrap();
    for (name, value) in ATTRIBUTES {
        assert_eq!(got[&QueueAttributeName::from(name)], value);
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_queue_does_not_exist_and_its_name_is_blocked() {
    let harness = Harness::new().await;
    harness.send("g", "lost").await;
    let delete = || harness.sqs.delete_queue().queue_url(&harness.url).send();
    delete().await.unwrap();
    assert!(delete().await.unwrap_err().into_service_error().is_queue_does_not_exist());
    assert!(harness.try_receive(0).await.unwrap_err().into_service_error().is_queue_does_not_exist());
    let send = harness.sqs.send_message().queue_url(&harness.url).message_body("x");
    let sent = send.message_group_id("g").message_deduplication_id("x").send().await;
    assert!(sent.unwrap_err().into_service_error().is_queue_does_not_exist());

    sleep(Duration::from_secs(59)).await;
    let early = create(&harness.sqs, NAME, &ATTRIBUTES).await.unwrap_err().into_service_error();
    assert!(early.is_queue_deleted_recently(), "{early:?}");
    sleep(SECOND).await;
    create(&harness.sqs, NAME, &ATTRIBUTES).await.unwrap();
    assert!(harness.receive().await.is_empty(), "a new queue, not the old one");
}

#[tokio::test(start_paused = true)]
async fn long_poll_wakes_on_a_message() {
    let harness = Harness::new().await;
    let waiting = harness.waiting().await;
    harness.send("g", "hello").await;
    assert_eq!(waiting.await.unwrap(), (Ok(vec!["hello".into()]), SECOND));
}

#[tokio::test(start_paused = true)]
async fn one_of_two_long_polls_receives_the_message() {
    let harness = Harness::new().await;
    let (first, second) = (harness.waiting().await, harness.waiting().await);
    harness.send("g", "hello").await;
    let received = [first.await.unwrap().0.unwrap(), second.await.unwrap().0.unwrap()].concat();
    assert_eq!(received, ["hello"]);
}

#[tokio::test(start_paused = true)]
async fn long_poll_ends_after_its_wait_time() {
    let harness = Harness::new().await;
    let (received, took) = harness.waiting().await.await.unwrap();
    assert_eq!((received, took.as_secs()), (Ok(Vec::new()), 20));
    let started = Instant::now();
    assert!(harness.receive().await.is_empty());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn queue_attribute_is_the_default_wait_time() {
    let harness = Harness::new().await;
    let attributes = [("FifoQueue", "true"), ("ReceiveMessageWaitTimeSeconds", "7")];
    let url = create(&harness.sqs, "long-poll.fifo", &attributes).await.unwrap();
    let started = Instant::now();
    assert!(harness.sqs.receive_message().queue_url(url).send().await.unwrap().messages().is_empty());
    assert_eq!(started.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_queue_ends_its_long_polls() {
    let harness = Harness::new().await;
    let waiting = harness.waiting().await;
    harness.sqs.delete_queue().queue_url(&harness.url).send().await.unwrap();
    let missing = "AWS.SimpleQueueService.NonExistentQueue".to_owned();
    assert_eq!(waiting.await.unwrap(), (Err(missing), SECOND));
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_long_polls() {
    let harness = Harness::new().await;
    let waiting = harness.waiting().await;
    harness.aws.end_long_polls();
    assert_eq!(waiting.await.unwrap(), (Ok(Vec::new()), SECOND));
    let (received, took) = harness.waiting().await.await.unwrap();
    assert_eq!((received, took), (Ok(Vec::new()), Duration::ZERO));
    harness.send("g", "hello").await;
    assert_eq!(bodies(&harness.try_receive(20).await.unwrap()), ["hello"]);
}

#[tokio::test(start_paused = true)]
async fn message_in_flight_blocks_its_group() {
    let harness = Harness::new().await;
    for body in ["a-1", "a-2"] {
        harness.send("a", body).await;
    }
    let first = harness.receive_one().await;
    assert_eq!(first.body(), Some("a-1"));
    harness.send("b", "b-1").await;
    assert_eq!(bodies(&harness.receive().await), ["b-1"]);
    let waiting = harness.waiting().await;
    harness.delete(&first).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (Ok(vec!["a-2".into()]), SECOND));
}

#[tokio::test(start_paused = true)]
async fn one_receive_returns_several_of_a_group_in_order() {
    let harness = Harness::new().await;
    for body in ["a-1", "b-1", "a-2", "a-3"] {
        harness.send(&body[..1], body).await;
    }
    let received = harness.receive().await;
    assert_eq!(bodies(&received), ["a-1", "b-1", "a-2", "a-3"]);
    // The first blocks the others of its group, even when it is visible again.
    harness.hide(&received[0], 0).await.unwrap();
    assert!(harness.receive().await.is_empty());
    for message in &received[2..] {
        harness.hide(message, 0).await.unwrap();
    }
    assert_eq!(bodies(&harness.receive().await), ["a-1", "a-2", "a-3"]);
}

#[tokio::test(start_paused = true)]
async fn duplicate_message_is_queued_once() {
    let harness = Harness::new().await;
    let first = harness.send("g", "hello").await;
    assert_eq!(harness.send("g", "hello").await, first);
    let received = harness.receive().await;
    assert_eq!(received.len(), 1);
    harness.delete(&received[0]).await.unwrap();
    // The id is remembered for five minutes, even after the message is deleted.
    sleep(Duration::from_secs(299)).await;
    assert_eq!(harness.send("g", "hello").await, first);
    assert!(harness.receive().await.is_empty());
    sleep(SECOND).await;
    assert_ne!(harness.send("g", "hello").await, first);
    assert_eq!(harness.receive().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn content_based_deduplication_uses_the_body() {
    let harness = Harness::new().await;
    let attributes = [("FifoQueue", "true"), ("ContentBasedDeduplication", "true")];
    let url = create(&harness.sqs, "content.fifo", &attributes).await.unwrap();
    let send =
        |body| harness.sqs.send_message().queue_url(&url).message_body(body).message_group_id("g").send();
    for body in ["a", "a", "b"] {
        send(body).await.unwrap();
    }
    let receive = harness.sqs.receive_message().queue_url(&url).max_number_of_messages(10);
    assert_eq!(bodies(receive.send().await.unwrap().messages()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn undeleted_message_is_delivered_again() {
    let harness = Harness::new().await;
    harness.send("g", "hello").await;
    harness.receive_one().await;
    sleep(VISIBILITY - Duration::from_secs(5)).await;
    let (received, took) = harness.waiting().await.await.unwrap();
    assert_eq!((received.unwrap(), took.as_secs()), (vec!["hello".to_owned()], 5));
}

#[tokio::test(start_paused = true)]
async fn visibility_timeout_can_be_extended_and_ended() {
    let harness = Harness::new().await;
    harness.send("g", "hello").await;
    let message = harness.receive_one().await;
    sleep(VISIBILITY - SECOND).await;
    harness.hide(&message, 60).await.unwrap();
    sleep(VISIBILITY).await;
    assert!(harness.receive().await.is_empty());
    // The limit is twelve hours from the receive, part of which has passed.
    assert_eq!(harness.hide(&message, 12 * 60 * 60).await.unwrap_err(), "InvalidParameterValue");
    let waiting = harness.waiting().await;
    harness.hide(&message, 0).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (Ok(vec!["hello".into()]), SECOND));
}

#[tokio::test(start_paused = true)]
async fn only_the_last_receipt_handle_is_valid_while_in_flight() {
    let harness = Harness::new().await;
    harness.send("g", "hello").await;
    let stale = harness.receive_one().await;
    let expired = "InvalidParameterValue";
    sleep(VISIBILITY).await;
    assert_eq!(harness.delete(&stale).await.unwrap_err(), expired);
    assert_eq!(harness.hide(&stale, 10).await.unwrap_err(), expired);
    let message = harness.receive_one().await;
    assert_eq!(harness.delete(&stale).await.unwrap_err(), expired);
    assert_eq!(harness.hide(&stale, 10).await.unwrap_err(), expired);
    for _ in 0..2 {
        harness.delete(&message).await.unwrap();
    }
    assert_eq!(harness.hide(&message, 10).await.unwrap_err(), expired);
}

#[tokio::test(start_paused = true)]
async fn unknown_receipt_handle_is_rejected() {
    let harness = Harness::new().await;
    harness.send("g", "hello").await;
    let handle = harness.receive_one().await.receipt_handle.unwrap();
    let other = create(&harness.sqs, "sandbox-2.fifo", &ATTRIBUTES).await.unwrap();
    let unsent = handle.replace("-1-", "-2-");
    for (url, handle) in [(&harness.url, "nonsense"), (&harness.url, &unsent), (&other, &handle)] {
        let delete = harness.sqs.delete_message().queue_url(url).receipt_handle(handle);
        let refused = delete.send().await.unwrap_err().into_service_error();
        assert!(refused.is_receipt_handle_is_invalid(), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_message_does_not_block_its_group() {
    let harness = Harness::new().await;
    harness.send("g", "old").await;
    sleep(RETENTION - Duration::from_secs(5)).await;
    harness.send("g", "young").await;
    let old = harness.receive_one().await;
    assert_eq!(old.body(), Some("old"));
    let (received, took) = harness.waiting().await.await.unwrap();
    assert_eq!((received.unwrap(), took.as_secs()), (vec!["young".to_owned()], 5));
    harness.delete(&old).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_requires_group_and_deduplication_id() {
    let harness = Harness::new().await;
    let send = || harness.sqs.send_message().queue_url(&harness.url);
    let long = "x".repeat(129);
    for (send, code) in [
        (send().message_body("x").message_deduplication_id("x"), "MissingParameter"),
        (send().message_body("x").message_group_id("g"), "InvalidParameterValue"),
        (
            send().message_body("x").message_group_id("a b").message_deduplication_id("x"),
            "InvalidParameterValue",
        ),
        (
            send().message_body("x").message_group_id("g").message_deduplication_id(long),
            "InvalidParameterValue",
        ),
    ] {
        assert_eq!(send.send().await.unwrap_err().code(), Some(code));
    }
}

#[tokio::test(start_paused = true)]
async fn body_must_be_valid_for_sqs() {
    let harness = Harness::new().await;
    let max = 1024 * 1024;
    for (body, code) in [
        (String::new(), Some("MissingParameter")),
        ("x".repeat(max), None),
        ("x".repeat(max + 1), Some("InvalidParameterValue")),
        ("tab\t, line\r\n, \u{1f600}".into(), None),
        ("\u{0}".into(), Some("InvalidMessageContents")),
        ("\u{ffff}".into(), Some("InvalidMessageContents")),
    ] {
        let send = harness.sqs.send_message().queue_url(&harness.url).message_body(&body);
        let sent = send.message_group_id("g").message_deduplication_id(body.len().to_string()).send().await;
        assert_eq!(sent.err().and_then(|error| error.code().map(str::to_owned)).as_deref(), code);
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_out_of_range_are_rejected() {
    let harness = Harness::new().await;
    harness.send("g", "hello").await;
    let receive = || harness.sqs.receive_message().queue_url(&harness.url);
    for receive in [
        receive().max_number_of_messages(0),
        receive().max_number_of_messages(11),
        receive().wait_time_seconds(-1),
        receive().wait_time_seconds(21),
        receive().visibility_timeout(-1),
        receive().visibility_timeout(43_201),
    ] {
        assert_eq!(receive.send().await.unwrap_err().code(), Some("InvalidParameterValue"));
    }
    let message = harness.receive_one().await;
    assert_eq!(harness.hide(&message, -1).await.unwrap_err(), "InvalidParameterValue");
}

#[tokio::test(start_paused = true)]
async fn invalid_queue_is_rejected() {
    let harness = Harness::new().await;
    let long = format!("{}.fifo", "x".repeat(76));
    for (name, attributes, code) in [
        ("standard", &ATTRIBUTES[..], "AWS.SimpleQueueService.UnsupportedOperation"),
        ("a b.fifo", &ATTRIBUTES[..], "InvalidParameterValue"),
        (&long, &ATTRIBUTES[..], "InvalidParameterValue"),
        ("new.fifo", &[][..], "InvalidParameterValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("VisibilityTimeout", "43201")][..], "InvalidAttributeValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("MessageRetentionPeriod", "59")][..], "InvalidAttributeValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("RedrivePolicy", "{}")][..], "InvalidAttributeValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("KmsMasterKeyId", "x")][..], "InvalidAttributeName"),
    ] {
        let refused = create(&harness.sqs, name, attributes).await.unwrap_err();
        assert_eq!(refused.code(), Some(code), "{name} {attributes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unsupported_operations_and_fields_are_rejected_by_name() {
    let harness = Harness::new().await;
    let purged = harness.sqs.purge_queue().queue_url(&harness.url).send().await.unwrap_err();
    assert!(purged.message().unwrap().starts_with("PurgeQueue is not supported"), "{purged:?}");
    let receive = harness.sqs.receive_message().queue_url(&harness.url).receive_request_attempt_id("1");
    let refused = receive.send().await.unwrap_err();
    assert!(refused.message().unwrap().contains("ReceiveRequestAttemptId"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn metered_call_names_its_queue() {
    let harness = Harness::new().await;
    harness.aws.meter.start();
    harness.receive().await;
    create(&harness.sqs, NAME, &ATTRIBUTES).await.unwrap();
    harness.aws.socket_jobs.send("now", Duration::ZERO).await.unwrap();
    let calls = harness.aws.meter.take();
    let about: Vec<_> = calls.iter().map(|call| (&*call.actions[0], &*call.resource)).collect();
    let queue = "queue/sandbox-1.fifo";
    let expected =
        [("sqs:ReceiveMessage", queue), ("sqs:CreateQueue", queue), ("sqs:SendMessage", "queue/socket-jobs")];
    assert_eq!(about, expected);
}
