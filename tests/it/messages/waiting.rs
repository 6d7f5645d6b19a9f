//! Whoever waits is woken: at once, once, and later if the bell is broken.

use super::{MESSAGES, ack, ids, pull, send};
use crate::support::TestPlane;
use domain::SandboxId;
use local::aws::Fault;
use reqwest::Method;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Until the plane's calls to AWS included these, in this order. Whoever asks has started the meter before.
async fn until_called(plane: &TestPlane, wanted: &[&str]) {
    let mut wanted = wanted.iter().peekable();
    let calling = async {
        while wanted.peek().is_some() {
            for call in plane.running.aws.meter.take() {
                wanted.next_if(|wanted| **wanted == call.operation);
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), calling).await.expect("the plane calls AWS");
}

/// What a pull is handed that had looked and found nothing when it was woken, and how long that took since then.
async fn woken(
    plane: &TestPlane,
    worker: &str,
    looked: &[&str],
    wake: impl Future<Output = ()>,
) -> (Vec<Value>, Duration) {
    plane.running.aws.meter.start();
    let pulling = async {
        let handed = pull(plane, worker, "wait=20").await;
        (handed, Instant::now())
    };
    let waking = async {
        until_called(plane, looked).await;
        let began = Instant::now();
        wake.await;
        began
    };
    let ((handed, ended), began) = tokio::join!(pulling, waking);
    plane.running.aws.meter.stop();
    (handed, ended - began)
}

/// What the last look of a pull asks before it waits: the first makes the mailbox and looks again.
const FIRST: &[&str] = &["CreateQueue", "GetItem"];
const LATER: &[&str] = &["GetItem"];

/// A sandbox with a mailbox at which somebody was woken once; its worker's token.
async fn with_a_mailbox(plane: &TestPlane) -> String {
    let worker = plane.register("s-1", "acme").await;
    let wake = async {
        send(plane, "first", "hello").await.ok();
    };
    let (handed, _) = woken(plane, &worker, FIRST, wake).await;
    assert_eq!(ids(&handed), ["first"]);
    ack(plane, &worker, &[("first", "delivered")]).await;
    worker
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn a_waiting_pull_is_woken_at_once() {
    let plane = TestPlane::start().await;
    let worker = with_a_mailbox(&plane).await;
    let (mut by_a_message, mut by_a_receipt) = (Vec::new(), Vec::new());
    for n in 0..8 {
        let (one, next) = (format!("m-{n}"), format!("next-{n}"));
        let wake = async {
            send(&plane, &one, "hello").await.ok();
        };
        let (handed, took) = woken(&plane, &worker, LATER, wake).await;
        assert_eq!(ids(&handed), [&one]);
        by_a_message.push(took);
        // While one is in the worker's hands the next is held back, and let go by the receipt.
        send(&plane, &next, "and on").await.ok();
        let wake = async {
            ack(&plane, &worker, &[(&one, "delivered")]).await;
        };
        let (handed, took) = woken(&plane, &worker, LATER, wake).await;
        assert_eq!(ids(&handed), [&next]);
        by_a_receipt.push(took);
        ack(&plane, &worker, &[(&next, "delivered")]).await;
    }
    for times in [by_a_message, by_a_receipt] {
        assert!(median(times.clone()) < Duration::from_millis(300), "{times:?}");
    }
}

/// It is in the queue for a minute, and each wait at it costs a call.
#[tokio::test]
async fn a_bell_rings_once() {
    let plane = TestPlane::start().await;
    let worker = with_a_mailbox(&plane).await;
    let meter = &plane.running.aws.meter;
    meter.start();
    assert!(pull(&plane, &worker, "wait=2").await.is_empty());
    let waits = meter.take().iter().filter(|call| call.operation == "ReceiveMessage").count();
    assert_eq!(waits, 1, "whoever waits after the first is not woken by the same bell");
}

#[tokio::test]
async fn a_plane_that_stops_does_not_wait_for_those_who_wait() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    plane.running.aws.meter.start();
    let pull = plane.raw(Method::GET, &format!("{MESSAGES}?ack=manual&wait=20")).bearer_auth(&worker);
    let waiting = tokio::spawn(pull.send());
    until_called(&plane, FIRST).await;
    let began = Instant::now();
    plane.running.stop().await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200, "it is told that there is nothing");
}

/// The queue only rings. Whatever happens to it costs a moment.
#[tokio::test]
async fn a_message_needs_no_bell() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let (faults, mailboxes) = (&plane.running.aws.faults, &plane.running.aws.mailboxes);
    let sandbox = SandboxId::parse("s-1").unwrap();
    let take = async |id: &str, wait: &str| {
        let began = Instant::now();
        let handed = pull(&plane, &worker, wait).await;
        assert_eq!(ids(&handed), [id]);
        ack(&plane, &worker, &[(id, "delivered")]).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{id} took {:?}", began.elapsed());
    };
    let soon = async |id: &str| {
        sleep(Duration::from_millis(300)).await;
        send(&plane, id, "hello").await.ok();
    };
    // It does not ring.
    faults.inject("SendMessage", Fault::Unreachable);
    tokio::join!(take("unrung", "wait=20"), soon("unrung"));
    assert_eq!(faults.waiting(), 0);
    // Nobody can wait at it.
    faults.inject("ReceiveMessage", Fault::ServerError);
    tokio::join!(take("unheard", "wait=20"), soon("unheard"));
    assert_eq!(faults.waiting(), 0);
    // It is gone, while messages wait and while somebody waits for one; its name is blocked for a minute.
    send(&plane, "before", "hello").await.ok();
    mailboxes.remove(&sandbox).await.unwrap();
    take("before", "wait=20").await;
    tokio::join!(take("after", "wait=20"), soon("after"));
}
