//! The SQS queues carry the messages; the ledger decides, and delivers what the queues lose.

use super::paused_plane::PausedPlane;
use super::{Api, MESSAGES, ack, ids, pull, send, send_as, terminate};
use crate::support::OPERATOR;
use contract::messages::QueuedMessage;
use domain::SandboxId;
use local::aws::Fault;
use serde_json::{Value, json};
use std::time::Duration;
use store::mailboxes::{Incoming, Queue, Receive, Reply};
use tokio::time::{Instant, sleep};

fn sandbox() -> SandboxId {
    SandboxId::parse("s-1").unwrap()
}

/// Receives as another consumer of the queue would.
async fn receive(plane: &PausedPlane, queue: Queue, hidden_secs: i64) -> Vec<Incoming> {
    let receive = Receive { limit: 10, wait: Duration::ZERO, hidden_secs };
    match plane.aws.mailboxes.receive(&sandbox(), queue, receive).await.unwrap() {
        Reply::Done(received) => received,
        Reply::NoQueue => panic!("the queue exists"),
    }
}

/// Sends, pulls and acknowledges messages with interrupts among them; returns the ids in the order of the pulls.
async fn exchange(plane: &PausedPlane, worker: &str) -> Vec<String> {
    let mut pulled_ids = Vec::new();
    for round in 0..20 {
        for n in 0..15 {
            let (id, kind) = match n {
                7 => (format!("i-{round}-{n:02}"), "interrupt"),
                _ => (format!("m-{round:02}-{n:02}"), "user_message"),
            };
            send_as(plane, &id, "go on", kind).await.ok();
        }
        loop {
            let pulled = pull(plane, worker, "wait=0").await;
            if pulled.is_empty() {
                break;
            }
            let receipts: Vec<(&str, &str)> = ids(&pulled).into_iter().map(|id| (id, "delivered")).collect();
            ack(plane, worker, &receipts).await;
            pulled_ids.extend(ids(&pulled).into_iter().map(String::from));
        }
    }
    pulled_ids
}

fn check_exchange(pulled: &[String]) {
    assert_eq!(pulled.len(), 300, "each message once");
    for (round, pulled) in pulled.chunks(15).enumerate() {
        assert_eq!(pulled[0], format!("i-{round}-07"), "the interrupt comes first");
    }
    let regular: Vec<&String> = pulled.iter().filter(|id| id.starts_with("m-")).collect();
    assert!(regular.is_sorted(), "in the order of sending");
}

#[tokio::test(start_paused = true)]
async fn queues_alone_deliver_every_message() {
    let plane = PausedPlane::open_without_ledger_fallback().await;
    let worker = plane.register().await;
    check_exchange(&exchange(&plane, &worker).await);
    for queue in Queue::ALL {
        assert!(receive(&plane, queue, 0).await.is_empty(), "acknowledged messages are deleted");
    }
    // It really delivers only what the queues bring.
    plane.aws.faults.begin_outage("AmazonSQS");
    send(&plane, "lost", "hello").await.ok();
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
}

/// Messages are sent between the steps of a pull, so what it has read is older than what it receives.
#[tokio::test(start_paused = true)]
async fn queues_alone_deliver_what_is_sent_during_pulls() {
    const COUNT: usize = 200;
    let plane = PausedPlane::open_without_ledger_fallback().await;
    let worker = plane.register().await;
    plane.aws.faults.yield_between_calls(true);
    let sending = async {
        for n in 0..COUNT {
            send(&plane, &format!("m-{n:03}"), "go on").await.ok();
        }
    };
    let pulling = async {
        let mut received = Vec::new();
        while received.len() < COUNT {
            let pulled = pull(&plane, &worker, "wait=1&max=3").await;
            let receipts: Vec<(&str, &str)> = ids(&pulled).into_iter().map(|id| (id, "delivered")).collect();
            if !receipts.is_empty() {
                ack(&plane, &worker, &receipts).await;
            }
            received.extend(ids(&pulled).into_iter().map(String::from));
        }
        received
    };
    let ((), received) = tokio::join!(sending, pulling);
    let sent: Vec<String> = (0..COUNT).map(|n| format!("m-{n:03}")).collect();
    assert_eq!(received, sent);
}

#[tokio::test(start_paused = true)]
async fn ledger_alone_delivers_every_message() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    plane.aws.faults.begin_outage("AmazonSQS");
    check_exchange(&exchange(&plane, &worker).await);
}

#[tokio::test(start_paused = true)]
async fn queues_and_ledger_deliver_every_message_once() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    let started = Instant::now();
    check_exchange(&exchange(&plane, &worker).await);
    assert_eq!(started.elapsed(), Duration::ZERO, "no pull waits for a message that the queue has");
}

#[tokio::test(start_paused = true)]
async fn message_travels_through_its_queue() {
    let plane = PausedPlane::open().await;
    plane.register().await;
    send(&plane, "m-1", "use sqlite").await.ok();
    send_as(&plane, "m-2", "wrong file", "interrupt").await.ok();
    for (queue, id, content) in [(Queue::Regular, "m-1", "use sqlite"), (Queue::Urgent, "m-2", "wrong file")]
    {
        let received = receive(&plane, queue, 0).await;
        let message = QueuedMessage::decode(&received[0].body).unwrap();
        assert_eq!((message.id.as_str(), message.content.as_str(), message.version), (id, content, 1));
        assert_eq!(message.sender.kind, "operator");
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_the_queue_lost_keeps_its_place() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    plane.aws.faults.inject("SendMessage", Fault::Unreachable);
    for id in ["m-1", "m-2", "m-3"] {
        send(&plane, id, "go on").await.ok();
    }
    let pulled = pull(&plane, &worker, "wait=0").await;
    assert_eq!(ids(&pulled), ["m-1", "m-2", "m-3"]);
}

#[tokio::test(start_paused = true)]
async fn copies_of_messages_that_left_the_mailbox_are_deleted() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    // More than one read of the mailbox returns.
    for n in 0..80 {
        send(&plane, &format!("m-{n}"), "go on").await.ok();
    }
    for n in 0..11 {
        plane.post(&format!("{MESSAGES}/m-{n}/cancel"), OPERATOR, json!({})).await.ok();
    }
    let started = Instant::now();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&max=1").await), ["m-11"]);
    assert_eq!(started.elapsed(), Duration::ZERO, "the queue brought it, behind the cancelled ones");
    ack(&plane, &worker, &[("m-11", "delivered")]).await;
    let next = QueuedMessage::decode(&receive(&plane, Queue::Regular, 0).await[0].body).unwrap();
    assert_eq!(next.id.as_str(), "m-12", "the cancelled ones are deleted");
}

#[tokio::test(start_paused = true)]
async fn second_copy_of_a_message_is_not_delivered() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "m-1", "go on").await.ok();
    // Acknowledged, but its copy could not be deleted.
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&visibility=10").await), ["m-1"]);
    plane.aws.faults.inject("DeleteMessage", Fault::ServerError);
    ack(&plane, &worker, &[("m-1", "delivered")]).await;
    sleep(Duration::from_secs(11)).await;
    assert!(pull(&plane, &worker, "wait=1").await.is_empty());
    assert!(receive(&plane, Queue::Regular, 0).await.is_empty(), "the copy is deleted");
}

/// A pull that dies between the queue and the ledger has hidden copies that it does not deliver.
#[tokio::test(start_paused = true)]
async fn message_that_a_dead_consumer_holds_is_delivered_from_the_ledger() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "m-1", "go on").await.ok();
    assert_eq!(receive(&plane, Queue::Regular, 600).await.len(), 1);
    assert_eq!(ids(&pull(&plane, &worker, "wait=0").await), ["m-1"]);
}

#[tokio::test(start_paused = true)]
async fn failed_send_is_repaired_by_a_job() {
    let mut plane = PausedPlane::open().await;
    plane.register().await;
    plane.aws.faults.inject("SendMessage", Fault::Unreachable);
    assert_eq!(send(&plane, "m-1", "go on").await.ok()["status"], "queued", "it is stored");
    assert!(receive(&plane, Queue::Regular, 0).await.is_empty());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(plane.run_jobs().await, 1);
    assert_eq!(receive(&plane, Queue::Regular, 0).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn held_message_is_not_delivered_again() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    send(&plane, "m-1", "go on").await.ok();
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&visibility=30").await), ["m-1"]);
    for _ in 0..10 {
        sleep(Duration::from_secs(20)).await;
        assert!(pull(&plane, &worker, "wait=0&visibility=30&holding=m-1").await.is_empty());
        assert!(receive(&plane, Queue::Regular, 0).await.is_empty(), "SQS hides it as well");
    }
    // The worker does not hold it any more.
    sleep(Duration::from_secs(31)).await;
    let pulled = pull(&plane, &worker, "wait=0&visibility=30").await;
    assert_eq!((ids(&pulled), &pulled[0]["receipt"]["delivery"]), (vec!["m-1"], &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn holding_names_at_most_20_messages_and_ignores_unknown_ones() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    let many = |count: usize| (1..=count).map(|n| format!("m-{n}")).collect::<Vec<_>>().join(",");
    for wrong in ["a%20b".to_owned(), many(21)] {
        let wrong = plane.get(&format!("{MESSAGES}?ack=manual&wait=0&holding={wrong}"), &worker).await;
        assert_eq!((wrong.status, &wrong.body["field"]), (422, &json!("holding")));
    }
    send(&plane, "m-21", "go on").await.ok();
    let pulled = pull(&plane, &worker, &format!("wait=0&visibility=30&holding={}", many(20))).await;
    assert_eq!(ids(&pulled), ["m-21"], "it holds others");
    // A message that is not delivered cannot be held back.
    send(&plane, "m-22", "and this").await.ok();
    ack(&plane, &worker, &[("m-21", "delivered")]).await;
    assert_eq!(ids(&pull(&plane, &worker, "wait=0&holding=m-22").await), ["m-22"]);
}

async fn queue_names(plane: &PausedPlane) -> Vec<String> {
    plane.aws.mailboxes.queues(None).await.unwrap().urls
}

#[tokio::test(start_paused = true)]
async fn queues_are_created_and_deleted_with_their_sandbox() {
    let plane = PausedPlane::open().await;
    plane.register().await;
    assert_eq!(queue_names(&plane).await.len(), 2);
    terminate(&plane, "done").await;
    assert!(queue_names(&plane).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn queues_that_outlive_their_sandbox_are_swept() {
    let plane = PausedPlane::open().await;
    plane.register().await;
    let other = json!({"sandbox_id": "s-2", "org": "acme"});
    plane.post("/api/v1/sandboxes", OPERATOR, other).await;
    terminate(&plane, "done").await;
    sleep(Duration::from_secs(61)).await;
    // Another process creates them again at the moment when the sandbox ends.
    plane.aws.mailboxes.create(&sandbox()).await.unwrap();
    assert_eq!(queue_names(&plane).await.len(), 4);
    plane.tick(edge::schedule::SWEEP_MAILBOXES).await;
    let left = queue_names(&plane).await;
    let live: Vec<Value> = left.iter().map(|url| json!(url.contains("s-2-"))).collect();
    assert_eq!(live, [true, true], "{left:?}");
}
