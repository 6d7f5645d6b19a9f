//! Whoever waits is woken: at once, once, and later if the bell is broken.

use super::paused::PausedPlane;
use super::{Api, MESSAGES, ack, ids, pull, send};
use crate::support::TestPlane;
use app::messages::pull::LONGEST_SILENCE;
use domain::SandboxId;
use local::aws::Fault;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// By then a pull that began at the same time has looked, found nothing, and waits.
const LATER: Duration = Duration::from_millis(1_500);

/// What a pull is handed that waits when it is woken, and how long after that.
async fn woken(plane: &PausedPlane, worker: &str, wake: impl Future<Output = ()>) -> (Vec<Value>, Duration) {
    let pulling = async {
        let handed = pull(plane, worker, "wait=20").await;
        (handed, Instant::now())
    };
    let waking = async {
        sleep(LATER).await;
        let began = Instant::now();
        wake.await;
        began
    };
    let ((handed, ended), began) = tokio::join!(pulling, waking);
    (handed, ended - began)
}

/// A sandbox with a mailbox at which somebody was woken once; its worker's token.
async fn with_a_mailbox(plane: &PausedPlane) -> String {
    let worker = plane.register().await;
    let wake = async {
        send(plane, "first", "hello").await.ok();
    };
    let (handed, _) = woken(plane, &worker, wake).await;
    assert_eq!(ids(&handed), ["first"]);
    ack(plane, &worker, &[("first", "delivered")]).await;
    worker
}

#[tokio::test(start_paused = true)]
async fn a_waiting_pull_is_woken_at_once() {
    let plane = PausedPlane::open().await;
    let worker = with_a_mailbox(&plane).await;
    for n in 0..8 {
        let (one, next) = (format!("m-{n}"), format!("next-{n}"));
        let wake = async {
            send(&plane, &one, "hello").await.ok();
        };
        let (handed, took) = woken(&plane, &worker, wake).await;
        assert_eq!((ids(&handed), took), (vec![one.as_str()], Duration::ZERO), "by a message");
        // While one is in the worker's hands the next is held back, and let go by the receipt.
        send(&plane, &next, "and on").await.ok();
        let wake = async {
            ack(&plane, &worker, &[(&one, "delivered")]).await;
        };
        let (handed, took) = woken(&plane, &worker, wake).await;
        assert_eq!((ids(&handed), took), (vec![next.as_str()], Duration::ZERO), "by a receipt");
        ack(&plane, &worker, &[(&next, "delivered")]).await;
    }
}

/// It is in the queue for a minute, and each wait at it costs a call.
#[tokio::test(start_paused = true)]
async fn a_bell_rings_once() {
    let plane = PausedPlane::open().await;
    let worker = with_a_mailbox(&plane).await;
    let meter = &plane.aws.meter;
    meter.start();
    assert!(pull(&plane, &worker, "wait=2").await.is_empty());
    let waits = meter.take().iter().filter(|call| call.operation == "ReceiveMessage").count();
    assert_eq!(waits, 1, "whoever waits after the first is not woken by the same bell");
}

/// On real sockets, because it is the server that waits for its connections.
#[tokio::test]
async fn a_plane_that_stops_does_not_wait_for_those_who_wait() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let meter = plane.running.aws.meter.clone();
    meter.start();
    let (wait, path) = (20, format!("{MESSAGES}?ack=manual&wait=20"));
    let waiting = tokio::spawn(plane.raw(Method::GET, &path).bearer_auth(&worker).send());
    until_called(&plane, &["CreateQueue", "GetItem"]).await;
    plane.running.stop().await;
    // All waits of the pull had ended when the plane stopped. If they had to time out, the plane would have given up on
    // the request before the second of them.
    let waits = meter.take().iter().filter(|call| call.operation == "ReceiveMessage").count();
    assert_eq!(waits as u64, wait / LONGEST_SILENCE.as_secs());
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200, "it is told that there is nothing");
}

/// Until the plane's calls to AWS included these, in this order.
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

/// The queue only rings. Whatever happens to it costs a moment.
#[tokio::test(start_paused = true)]
async fn a_message_needs_no_bell() {
    let plane = PausedPlane::open().await;
    let worker = plane.register().await;
    let (faults, mailboxes) = (&plane.aws.faults, &plane.aws.mailboxes);
    let sandbox = SandboxId::parse("s-1").unwrap();
    let take = async |id: &str, at_most: Duration| {
        let began = Instant::now();
        let handed = pull(&plane, &worker, "wait=20").await;
        assert_eq!(ids(&handed), [id]);
        ack(&plane, &worker, &[(id, "delivered")]).await;
        assert!(began.elapsed() <= at_most, "{id} took {:?}", began.elapsed());
    };
    let soon = async |id: &str| {
        sleep(LATER).await;
        send(&plane, id, "hello").await.ok();
    };
    let (second, moment) = (Duration::from_secs(1), Duration::from_millis(5));
    // It does not ring.
    faults.inject("SendMessage", Fault::Unreachable);
    tokio::join!(take("unrung", LONGEST_SILENCE + moment), soon("unrung"));
    assert_eq!(faults.waiting(), 0);
    // Waiting at it fails until the message is sent.
    faults.inject("ReceiveMessage", Fault::ServerError);
    faults.inject("ReceiveMessage", Fault::ServerError);
    tokio::join!(take("unheard", LATER + second + moment), soon("unheard"));
    assert_eq!(faults.waiting(), 0);
    // It is gone, while messages wait and while somebody waits for one; its name is blocked for a minute.
    send(&plane, "before", "hello").await.ok();
    mailboxes.remove(&sandbox).await.unwrap();
    take("before", Duration::ZERO).await;
    tokio::join!(take("after", LATER + second + moment), soon("after"));
}
