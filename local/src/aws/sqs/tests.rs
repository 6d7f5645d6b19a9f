//! Through the real SDK, on a clock that stands still unless everybody waits.

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

/// A queue, and the AWS that it is in.
struct Stage {
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

impl Stage {
    async fn new() -> Self {
        let data = TempDir::new().unwrap();
        let (aws, feeds) = Aws::open(data.path(), Durability::Process).await.unwrap();
        let sqs = aws.sqs_client();
        let url = create(&sqs, NAME, &ATTRIBUTES).await.unwrap();
        Self { aws, feeds, sqs, url, _data: data }
    }

    /// The body is also what a repeat is known by.
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

    /// Somebody who waits, as long as one can, by the time this returns: the bodies and how long it took.
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

    /// How many can be seen, and how many are in somebody's hands.
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
async fn a_job_comes_by_itself_when_its_time_has_come() {
    let mut stage = Stage::new().await;
    let started = Instant::now();
    stage.aws.jobs.send("later", Duration::from_secs(10)).await.unwrap();
    stage.aws.jobs.send("now", Duration::ZERO).await.unwrap();
    assert_eq!(stage.feeds.jobs.recv().await.unwrap(), "now");
    assert_eq!(stage.feeds.jobs.recv().await.unwrap(), "later");
    assert_eq!(started.elapsed().as_secs(), 10);
    let received = stage.sqs.receive_message().queue_url("http://sqs.local/jobs").send().await;
    assert!(received.unwrap_err().into_service_error().is_unsupported_operation());
}

#[tokio::test(start_paused = true)]
async fn a_message_is_what_was_sent() {
    let stage = Stage::new().await;
    assert_eq!(stage.url, "http://sqs.local/sandbox-1.fifo");
    let send = stage.sqs.send_message().queue_url(&stage.url).message_body("hello");
    let sent = send.message_group_id("g").message_deduplication_id("1").send().await.unwrap();
    let md5 = "5d41402abc4b2a76b9719d911017c592";
    assert_eq!((sent.md5_of_message_body(), sent.sequence_number().unwrap().len()), (Some(md5), 20));
    assert_eq!(stage.count().await, ("1".into(), "0".into()));
    let message = stage.receive_one().await;
    assert_eq!((message.body(), message.md5_of_body()), (Some("hello"), Some(md5)));
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(stage.count().await, ("0".into(), "1".into()));
    stage.delete(&message).await.unwrap();
    assert_eq!(stage.count().await, ("0".into(), "0".into()));
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_made_once() {
    let stage = Stage::new().await;
    stage.send("g", "kept").await;
    for same in [&ATTRIBUTES[..], &ATTRIBUTES[..1]] {
        assert_eq!(create(&stage.sqs, NAME, same).await.unwrap(), stage.url);
    }
    let other = [("FifoQueue", "true"), ("VisibilityTimeout", "31")];
    let refused = create(&stage.sqs, NAME, &other).await.unwrap_err().into_service_error();
    assert!(refused.is_queue_name_exists(), "{refused:?}");
    assert_eq!(bodies(&stage.receive().await), ["kept"]);
    let get = stage.sqs.get_queue_attributes().queue_url(&stage.url);
    let got = get.attribute_names(QueueAttributeName::All).send().await.unwrap().attributes.unwrap();
    for (name, value) in ATTRIBUTES {
        assert_eq!(got[&QueueAttributeName::from(name)], value);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_was_deleted_is_gone_and_its_name_rests() {
    let stage = Stage::new().await;
    stage.send("g", "lost").await;
    let delete = || stage.sqs.delete_queue().queue_url(&stage.url).send();
    delete().await.unwrap();
    assert!(delete().await.unwrap_err().into_service_error().is_queue_does_not_exist());
    assert!(stage.try_receive(0).await.unwrap_err().into_service_error().is_queue_does_not_exist());
    let send = stage.sqs.send_message().queue_url(&stage.url).message_body("x");
    let sent = send.message_group_id("g").message_deduplication_id("x").send().await;
    assert!(sent.unwrap_err().into_service_error().is_queue_does_not_exist());

    sleep(Duration::from_secs(59)).await;
    let early = create(&stage.sqs, NAME, &ATTRIBUTES).await.unwrap_err().into_service_error();
    assert!(early.is_queue_deleted_recently(), "{early:?}");
    sleep(SECOND).await;
    create(&stage.sqs, NAME, &ATTRIBUTES).await.unwrap();
    assert!(stage.receive().await.is_empty(), "a new queue, not the old one");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_receive_wakes_at_once() {
    let stage = Stage::new().await;
    let waiting = stage.waiting().await;
    stage.send("g", "hello").await;
    assert_eq!(waiting.await.unwrap(), (Ok(vec!["hello".into()]), SECOND));
}

#[tokio::test(start_paused = true)]
async fn of_two_who_wait_one_is_given_a_message() {
    let stage = Stage::new().await;
    let (one, other) = (stage.waiting().await, stage.waiting().await);
    stage.send("g", "hello").await;
    let received = [one.await.unwrap().0.unwrap(), other.await.unwrap().0.unwrap()].concat();
    assert_eq!(received, ["hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_receive_waits_no_longer_than_it_said() {
    let stage = Stage::new().await;
    let (received, took) = stage.waiting().await.await.unwrap();
    assert_eq!((received, took.as_secs()), (Ok(Vec::new()), 20));
    let started = Instant::now();
    assert!(stage.receive().await.is_empty());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_queue_says_how_long_a_receive_waits_that_does_not() {
    let stage = Stage::new().await;
    let attributes = [("FifoQueue", "true"), ("ReceiveMessageWaitTimeSeconds", "7")];
    let url = create(&stage.sqs, "patient.fifo", &attributes).await.unwrap();
    let started = Instant::now();
    assert!(stage.sqs.receive_message().queue_url(url).send().await.unwrap().messages().is_empty());
    assert_eq!(started.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_receive_ends_with_its_queue() {
    let stage = Stage::new().await;
    let waiting = stage.waiting().await;
    stage.sqs.delete_queue().queue_url(&stage.url).send().await.unwrap();
    let gone = "AWS.SimpleQueueService.NonExistentQueue".to_owned();
    assert_eq!(waiting.await.unwrap(), (Err(gone), SECOND));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_once_the_process_stops() {
    let stage = Stage::new().await;
    let waiting = stage.waiting().await;
    stage.aws.stop_waiting();
    assert_eq!(waiting.await.unwrap(), (Ok(Vec::new()), SECOND));
    let (received, took) = stage.waiting().await.await.unwrap();
    assert_eq!((received, took), (Ok(Vec::new()), Duration::ZERO));
    stage.send("g", "hello").await;
    assert_eq!(bodies(&stage.try_receive(20).await.unwrap()), ["hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_in_flight_holds_its_later_messages_back() {
    let stage = Stage::new().await;
    for body in ["a-1", "a-2"] {
        stage.send("a", body).await;
    }
    let first = stage.receive_one().await;
    assert_eq!(first.body(), Some("a-1"));
    stage.send("b", "b-1").await;
    assert_eq!(bodies(&stage.receive().await), ["b-1"]);
    let waiting = stage.waiting().await;
    stage.delete(&first).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (Ok(vec!["a-2".into()]), SECOND));
}

#[tokio::test(start_paused = true)]
async fn one_receive_takes_several_of_a_group_in_order() {
    let stage = Stage::new().await;
    for body in ["a-1", "b-1", "a-2", "a-3"] {
        stage.send(&body[..1], body).await;
    }
    let received = stage.receive().await;
    assert_eq!(bodies(&received), ["a-1", "b-1", "a-2", "a-3"]);
    // Those after it wait for it, also if it is only given back.
    stage.hide(&received[0], 0).await.unwrap();
    assert!(stage.receive().await.is_empty());
    for message in &received[2..] {
        stage.hide(message, 0).await.unwrap();
    }
    assert_eq!(bodies(&stage.receive().await), ["a-1", "a-2", "a-3"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_deduplication_id_is_queued_once() {
    let stage = Stage::new().await;
    let first = stage.send("g", "hello").await;
    assert_eq!(stage.send("g", "hello").await, first);
    let received = stage.receive().await;
    assert_eq!(received.len(), 1);
    stage.delete(&received[0]).await.unwrap();
    // It is remembered after the message is gone, for five minutes from the first.
    sleep(Duration::from_secs(299)).await;
    assert_eq!(stage.send("g", "hello").await, first);
    assert!(stage.receive().await.is_empty());
    sleep(SECOND).await;
    assert_ne!(stage.send("g", "hello").await, first);
    assert_eq!(stage.receive().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_stands_for_its_deduplication_id_where_the_queue_says_so() {
    let stage = Stage::new().await;
    let attributes = [("FifoQueue", "true"), ("ContentBasedDeduplication", "true")];
    let url = create(&stage.sqs, "content.fifo", &attributes).await.unwrap();
    let send =
        |body| stage.sqs.send_message().queue_url(&url).message_body(body).message_group_id("g").send();
    for body in ["a", "a", "b"] {
        send(body).await.unwrap();
    }
    let receive = stage.sqs.receive_message().queue_url(&url).max_number_of_messages(10);
    assert_eq!(bodies(receive.send().await.unwrap().messages()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_deleted_comes_back() {
    let stage = Stage::new().await;
    stage.send("g", "hello").await;
    stage.receive_one().await;
    sleep(VISIBILITY - Duration::from_secs(5)).await;
    let (received, took) = stage.waiting().await.await.unwrap();
    assert_eq!((received.unwrap(), took.as_secs()), (vec!["hello".to_owned()], 5));
}

#[tokio::test(start_paused = true)]
async fn whoever_needs_longer_says_so_and_whoever_gives_up_too() {
    let stage = Stage::new().await;
    stage.send("g", "hello").await;
    let message = stage.receive_one().await;
    sleep(VISIBILITY - SECOND).await;
    stage.hide(&message, 60).await.unwrap();
    sleep(VISIBILITY).await;
    assert!(stage.receive().await.is_empty());
    // Twelve hours are all that one receive gets, and some of them is over.
    assert_eq!(stage.hide(&message, 12 * 60 * 60).await.unwrap_err(), "InvalidParameterValue");
    let waiting = stage.waiting().await;
    stage.hide(&message, 0).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (Ok(vec!["hello".into()]), SECOND));
}

#[tokio::test(start_paused = true)]
async fn only_the_last_receivers_handle_is_good_and_only_while_they_have_the_message() {
    let stage = Stage::new().await;
    stage.send("g", "hello").await;
    let stale = stage.receive_one().await;
    let expired = "InvalidParameterValue";
    sleep(VISIBILITY).await;
    assert_eq!(stage.delete(&stale).await.unwrap_err(), expired);
    assert_eq!(stage.hide(&stale, 10).await.unwrap_err(), expired);
    let message = stage.receive_one().await;
    assert_eq!(stage.delete(&stale).await.unwrap_err(), expired);
    assert_eq!(stage.hide(&stale, 10).await.unwrap_err(), expired);
    for _repeat in 0..2 {
        stage.delete(&message).await.unwrap();
    }
    assert_eq!(stage.hide(&message, 10).await.unwrap_err(), expired);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_nobody_was_given_is_refused() {
    let stage = Stage::new().await;
    stage.send("g", "hello").await;
    let handle = stage.receive_one().await.receipt_handle.unwrap();
    let other = create(&stage.sqs, "sandbox-2.fifo", &ATTRIBUTES).await.unwrap();
    let unsent = handle.replace("-1-", "-2-");
    for (url, handle) in [(&stage.url, "nonsense"), (&stage.url, &unsent), (&other, &handle)] {
        let delete = stage.sqs.delete_message().queue_url(url).receipt_handle(handle);
        let refused = delete.send().await.unwrap_err().into_service_error();
        assert!(refused.is_receipt_handle_is_invalid(), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_is_gone_and_holds_nobody_back() {
    let stage = Stage::new().await;
    stage.send("g", "old").await;
    sleep(RETENTION - Duration::from_secs(5)).await;
    stage.send("g", "young").await;
    let old = stage.receive_one().await;
    assert_eq!(old.body(), Some("old"));
    let (received, took) = stage.waiting().await.await.unwrap();
    assert_eq!((received.unwrap(), took.as_secs()), (vec!["young".to_owned()], 5));
    stage.delete(&old).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_says_its_group_and_what_a_repeat_is_known_by() {
    let stage = Stage::new().await;
    let send = || stage.sqs.send_message().queue_url(&stage.url);
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
async fn a_body_is_what_sqs_can_carry() {
    let stage = Stage::new().await;
    let most = 1024 * 1024;
    for (body, code) in [
        (String::new(), Some("MissingParameter")),
        ("x".repeat(most), None),
        ("x".repeat(most + 1), Some("InvalidParameterValue")),
        ("tab\t, line\r\n, \u{1f600}".into(), None),
        ("\u{0}".into(), Some("InvalidMessageContents")),
        ("\u{ffff}".into(), Some("InvalidMessageContents")),
    ] {
        let send = stage.sqs.send_message().queue_url(&stage.url).message_body(&body);
        let sent = send.message_group_id("g").message_deduplication_id(body.len().to_string()).send().await;
        assert_eq!(sent.err().and_then(|error| error.code().map(str::to_owned)).as_deref(), code);
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_out_of_range_are_refused() {
    let stage = Stage::new().await;
    stage.send("g", "hello").await;
    let receive = || stage.sqs.receive_message().queue_url(&stage.url);
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
    let message = stage.receive_one().await;
    assert_eq!(stage.hide(&message, -1).await.unwrap_err(), "InvalidParameterValue");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_sqs_would_not_make_is_refused() {
    let stage = Stage::new().await;
    let long = format!("{}.fifo", "x".repeat(76));
    for (name, attributes, code) in [
        ("standard", &ATTRIBUTES[..], "AWS.SimpleQueueService.UnsupportedOperation"),
        ("a b.fifo", &ATTRIBUTES[..], "InvalidParameterValue"),
        (&long, &ATTRIBUTES[..], "InvalidParameterValue"),
        ("new.fifo", &[][..], "InvalidParameterValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("VisibilityTimeout", "43201")][..], "InvalidAttributeValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("MessageRetentionPeriod", "59")][..], "InvalidAttributeValue"),
        ("new.fifo", &[("FifoQueue", "true"), ("RedrivePolicy", "{}")][..], "InvalidAttributeName"),
    ] {
        let refused = create(&stage.sqs, name, attributes).await.unwrap_err();
        assert_eq!(refused.code(), Some(code), "{name} {attributes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_is_refused_by_name() {
    let stage = Stage::new().await;
    let purged = stage.sqs.purge_queue().queue_url(&stage.url).send().await.unwrap_err();
    assert!(purged.message().unwrap().starts_with("PurgeQueue is not"), "{purged:?}");
    let receive = stage.sqs.receive_message().queue_url(&stage.url).receive_request_attempt_id("1");
    let refused = receive.send().await.unwrap_err();
    assert!(refused.message().unwrap().contains("ReceiveRequestAttemptId"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_says_which_queue_it_is_about() {
    let stage = Stage::new().await;
    stage.aws.meter.start();
    stage.receive().await;
    create(&stage.sqs, NAME, &ATTRIBUTES).await.unwrap();
    stage.aws.jobs.send("now", Duration::ZERO).await.unwrap();
    let calls = stage.aws.meter.take();
    let about: Vec<_> = calls.iter().map(|call| (&*call.actions[0], &*call.resource)).collect();
    let queue = "queue/sandbox-1.fifo";
    let expected =
        [("sqs:ReceiveMessage", queue), ("sqs:CreateQueue", queue), ("sqs:SendMessage", "queue/jobs")];
    assert_eq!(about, expected);
}
