//! A pending pull returns as soon as a message is sent, and falls back to polling the ledger when SQS fails.

use super::paused_plane::PausedPlane;
use super::{Api, MESSAGES, ack, ids, pull, send};
use crate::support::TestPlane;
use app::messages::pull::MAX_POLL_INTERVAL;
use domain::SandboxId;
use local::aws::Fault;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// After this delay, a pull that started at the same time has polled, found nothing, and is waiting.
const DELAY: Duration = Duration::from_millis(1_500);

/// Runs `wake` while a pull is waiting. Returns the pulled messages and the time from `wake` to the response.
async fn pull_and_wake(
    plane: &PausedPlane,
    worker: &str,
    wake: impl Future<Output = ()>,
) -> (Vec<Value>, Duration) {
    let pulling = async {
        let messages = pull(plane, worker, "wait=20").await;
        (messages, Instant::now())
    };
    let wake = async {
        sleep(DELAY).await;
        let started = Instant::now();
        wake.await;
        started
    };
    let ((messages, finished), started) = tokio::join!(pulling, wake);
    (messages, finished - started)
}

/// Registers a sandbox and delivers a first message to a waiting pull. Returns the worker token.
async fn register_and_deliver(plane: &PausedPlane) -> String {
    let worker = plane.register().await;
    let wake = async {
        send(plane, "first", "hello").await.ok();
    };
    let (messages, _) = pull_and_wake(plane, &worker, wake).await;
    assert_eq!(ids(&messages), ["first"]);
    ack(plane, &worker, &[("first", "delivered")]).await;
    worker
}

#[tokio::test(start_paused = true)]
async fn long_poll_returns_as_soon_as_a_message_is_available() {
    let plane = PausedPlane::open().await;
    let worker = register_and_deliver(&plane).await;
    for n in 0..8 {
        let (first, next) = (format!("m-{n}"), format!("next-{n}"));
        let wake = async {
            send(&plane, &first, "hello").await.ok();
        };
        let (messages, took) = pull_and_wake(&plane, &worker, wake).await;
        assert_eq!((ids(&messages), took), (vec![first.as_str()], Duration::ZERO), "woken by a message");
        // The unacknowledged message holds back the next one until its receipt arrives.
        send(&plane, &next, "and on").await.ok();
        let wake = async {
            ack(&plane, &worker, &[(&first, "delivered")]).await;
        };
        let (messages, took) = pull_and_wake(&plane, &worker, wake).await;
        assert_eq!((ids(&messages), took), (vec![next.as_str()], Duration::ZERO), "woken by a receipt");
        ack(&plane, &worker, &[(&next, "delivered")]).await;
    }
}

/// An OmoiOS worker polls all the time; an empty mailbox must not cost a call to SQS.
#[tokio::test(start_paused = true)]
async fn empty_mailbox_is_polled_without_a_call_to_sqs() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    plane.aws.meter.start();
    assert!(pull(&plane, &worker, "wait=0").await.is_empty());
    let calls: Vec<String> = plane.aws.meter.take().into_iter().map(|call| call.operation).collect();
    assert_eq!(calls, ["GetItem"]);
}

/// Over real connections, because the server waits for open connections at shutdown.
#[tokio::test]
async fn shutdown_ends_pending_long_polls() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let meter = plane.running.aws.meter.clone();
    meter.start();
    let (wait, path) = (20, format!("{MESSAGES}?ack=manual&wait=20"));
    let pending = tokio::spawn(plane.raw(Method::GET, &path).bearer_auth(&worker).send());
    wait_for_calls(&plane, &["GetItem"]).await;
    plane.running.stop().await;
    // All receives of the pull ended when the plane stopped. If they had run into their timeout, the plane would have
    // aborted the request before the second one.
    let waits = meter.take().iter().filter(|call| call.operation == "ReceiveMessage").count();
    let queues = 2;
    assert_eq!(waits as u64, queues * wait / MAX_POLL_INTERVAL.as_secs());
    assert_eq!(pending.await.unwrap().unwrap().status(), 200, "the pull returns an empty list");
}

/// Waits until the plane has made these AWS calls, in this order.
async fn wait_for_calls(plane: &TestPlane, operations: &[&str]) {
    let mut expected = operations.iter().peekable();
    let calling = async {
        while expected.peek().is_some() {
            for call in plane.running.aws.meter.take() {
                expected.next_if(|operation| **operation == call.operation);
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), calling).await.expect("the plane calls AWS");
}

/// Failures of SQS delay messages, but lose none.
#[tokio::test(start_paused = true)]
async fn messages_are_delivered_although_sqs_fails() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    let (faults, mailboxes) = (&plane.aws.faults, &plane.aws.mailboxes);
    let sandbox = SandboxId::parse("s-1").unwrap();
    let pull_one = async |id: &str, at_most: Duration| {
        let started = Instant::now();
        let messages = pull(&plane, &worker, "wait=20").await;
        assert_eq!(ids(&messages), [id]);
        ack(&plane, &worker, &[(id, "delivered")]).await;
        assert!(started.elapsed() <= at_most, "{id} took {:?}", started.elapsed());
    };
    let send_later = async |id: &str| {
        sleep(DELAY).await;
        send(&plane, id, "hello").await.ok();
    };
    let (second, tolerance) = (Duration::from_secs(1), Duration::from_millis(5));
    // The message does not reach its queue.
    faults.inject("SendMessage", Fault::Unreachable);
    tokio::join!(pull_one("not-queued", MAX_POLL_INTERVAL + second + tolerance), send_later("not-queued"));
    assert_eq!(faults.pending(), 0);
    // Receiving fails, so the rest of the pull reads the ledger.
    faults.inject("ReceiveMessage", Fault::ServerError);
    tokio::join!(pull_one("receive-failed", DELAY + second + tolerance), send_later("receive-failed"));
    assert_eq!(faults.pending(), 0);
    // The queue is deleted while a message is queued and while a pull is waiting. SQS blocks its name for a minute.
    send(&plane, "before", "hello").await.ok();
    mailboxes.remove(&sandbox).await.unwrap();
    pull_one("before", Duration::ZERO).await;
    tokio::join!(pull_one("after", DELAY + second + tolerance), send_later("after"));
}
