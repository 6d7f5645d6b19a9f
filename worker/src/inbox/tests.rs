//! Messages come once, in order, with and without a bell.

use super::*;
use crate::fake_plane::FakePlane;

fn pace() -> Pace {
    let quick = Backoff { first: Duration::from_millis(1), most: Duration::from_millis(20) };
    Pace { retry: quick, reopen: quick, wait_secs: 2, look: Duration::from_secs(60), ..Pace::default() }
}

fn open(plane: &FakePlane, sockets: &str, pace: Pace) -> (Inbox, Arc<Notify>) {
    let again = Arc::new(Notify::new());
    let settings = Settings { once: plane.once(), hang: plane.hang(sockets), again: again.clone(), pace };
    (Inbox::open(settings, [MessageId::parse("old").unwrap()]), again)
}

async fn next(inbox: &mut Inbox) -> String {
    let arrival = tokio::time::timeout(Duration::from_secs(60), inbox.arrivals.recv()).await.unwrap();
    match arrival.unwrap() {
        Arrival::Message(message) => message.id.to_string(),
        Arrival::Again(id) => format!("again {id}"),
        Arrival::Finished { reason } => format!("finished: {reason}"),
    }
}

#[tokio::test]
async fn without_a_socket_messages_come_once_and_the_end_is_told() {
    let plane = FakePlane::start(1).await;
    let (mut inbox, _) = open(&plane, "ws://127.0.0.1:1/none", pace());
    plane.send("m-1", 1, false);
    assert_eq!(next(&mut inbox).await, "m-1");
    plane.send("m-1", 2, false);
    plane.send("old", 2, false);
    plane.send("m-2", 1, false);
    assert_eq!(next(&mut inbox).await, "again m-1");
    assert_eq!(next(&mut inbox).await, "again old");
    assert_eq!(next(&mut inbox).await, "m-2");
    plane.inner().finished = true;
    assert_eq!(next(&mut inbox).await, "finished: too slow");
    assert_eq!(inbox.arrivals.recv().await, None);
}

#[tokio::test]
async fn with_a_socket_it_asks_when_it_rings_and_not_otherwise() {
    let plane = FakePlane::start(2).await;
    let (mut inbox, again) = open(&plane, &plane.sockets.clone(), pace());
    // Once the first pull is over, the socket is open, and it has looked.
    plane.until("two pulls", |inner| inner.pulls >= 2).await;
    plane.send("m-1", 1, true);
    assert_eq!(next(&mut inbox).await, "m-1");
    let pulls = plane.inner().pulls;
    assert!(pulls < 10, "{pulls}");
    // No bell for this one: it was held back until a receipt.
    plane.send("m-2", 1, false);
    again.notify_one();
    assert_eq!(next(&mut inbox).await, "m-2");
}

#[tokio::test]
async fn a_lost_bell_costs_one_look() {
    let plane = FakePlane::start(3).await;
    let quick = Pace { look: Duration::from_millis(20), ..pace() };
    let (mut inbox, _) = open(&plane, &plane.sockets.clone(), quick);
    plane.until("two pulls", |inner| inner.pulls >= 2).await;
    plane.send("m-1", 1, false);
    assert_eq!(next(&mut inbox).await, "m-1");
}

#[tokio::test]
async fn every_message_comes_through_a_network_that_breaks() {
    let plane = FakePlane::start(4).await;
    plane.inner().broken.push(("/messages", 503));
    let (mut inbox, _) = open(&plane, "ws://127.0.0.1:1/none", pace());
    plane.send("m-1", 1, false);
    plane.until("a pull is refused", |inner| inner.refused >= 1).await;
    plane.inner().broken.clear();
    assert_eq!(next(&mut inbox).await, "m-1");
}
