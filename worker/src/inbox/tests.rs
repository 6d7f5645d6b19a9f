//! Messages are reported once and in order, with and without a socket.

use super::*;
use crate::fake_plane::FakePlane;
use tokio::time::timeout;

fn timing() -> Timing {
    let quick = Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(20) };
    Timing {
        retry: quick,
        reconnect: quick,
        wait_secs: 2,
        poll_interval: Duration::from_secs(60),
        ..Timing::default()
    }
}

fn open(plane: &FakePlane, sockets: &str, timing: Timing) -> (Inbox, Arc<Notify>) {
    let more_messages = Arc::new(Notify::new());
    let settings = Settings {
        api: plane.api(),
        wake_up: plane.wake_up_options(sockets),
        more_messages: more_messages.clone(),
        held: HeldMessages::default(),
        timing,
    };
    (Inbox::open(settings, [MessageId::parse("old").unwrap()]), more_messages)
}

async fn next(inbox: &mut Inbox) -> String {
    let event = timeout(Duration::from_secs(60), inbox.events.recv()).await.unwrap();
    match event.unwrap() {
        InboxEvent::Message(message) => message.id.to_string(),
        InboxEvent::Redelivered(id) => format!("redelivered {id}"),
        InboxEvent::SandboxFinished { reason } => format!("finished: {reason}"),
    }
}

#[tokio::test]
async fn long_polling_reports_messages_once_and_the_end() {
    let plane = FakePlane::start(1).await;
    let (mut inbox, _) = open(&plane, "ws://127.0.0.1:1/none", timing());
    plane.send("m-1", 1, false);
    assert_eq!(next(&mut inbox).await, "m-1");
    plane.send("m-1", 2, false);
    plane.send("old", 2, false);
    plane.send("m-2", 1, false);
    assert_eq!(next(&mut inbox).await, "redelivered m-1");
    assert_eq!(next(&mut inbox).await, "redelivered old");
    assert_eq!(next(&mut inbox).await, "m-2");
    plane.inner().finished = true;
    assert_eq!(next(&mut inbox).await, "finished: too slow");
    assert_eq!(inbox.events.recv().await, None);
    assert!(timeout(Duration::from_millis(50), inbox.next()).await.is_err(), "a regular end is no failure");
}

#[tokio::test]
async fn socket_wake_up_triggers_a_pull() {
    let plane = FakePlane::start(2).await;
    let (mut inbox, more_messages) = open(&plane, &plane.sockets.clone(), timing());
    // The second pull runs after the socket was opened.
    plane.until("two pulls", |inner| inner.pulls >= 2).await;
    plane.send("m-1", 1, true);
    assert_eq!(next(&mut inbox).await, "m-1");
    let pulls = plane.inner().pulls;
    assert!(pulls < 10, "{pulls}");
    // No wake-up for this one: the plane held it back until a receipt.
    plane.send("m-2", 1, false);
    more_messages.notify_one();
    assert_eq!(next(&mut inbox).await, "m-2");
}

#[tokio::test]
async fn lost_wake_up_delays_by_one_poll_interval() {
    let plane = FakePlane::start(3).await;
    let quick = Timing { poll_interval: Duration::from_millis(20), ..timing() };
    let (mut inbox, _) = open(&plane, &plane.sockets.clone(), quick);
    plane.until("two pulls", |inner| inner.pulls >= 2).await;
    plane.send("m-1", 1, false);
    assert_eq!(next(&mut inbox).await, "m-1");
}

#[tokio::test]
async fn refused_pull_is_retried() {
    let plane = FakePlane::start(4).await;
    plane.inner().broken.push(("/messages", 503));
    let (mut inbox, _) = open(&plane, "ws://127.0.0.1:1/none", timing());
    plane.send("m-1", 1, false);
    plane.until("a refused pull", |inner| inner.refused >= 1).await;
    plane.inner().broken.clear();
    assert_eq!(next(&mut inbox).await, "m-1");
}

#[tokio::test]
async fn panic_of_the_puller_is_reported_once() {
    let (sender, events) = mpsc::channel(1);
    let task = tokio::spawn(async move {
        let _sender = sender;
        panic!("a bug");
    });
    let mut inbox = Inbox { events, task: Some(task) };
    let failure = timeout(Duration::from_secs(60), inbox.next()).await.unwrap().unwrap_err();
    assert!(failure.to_string().starts_with("receiving messages failed: "), "{failure}");
    assert!(timeout(Duration::from_millis(50), inbox.next()).await.is_err());
}
