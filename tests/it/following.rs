//! A follower where the plane fails it.

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use client::{Follow, Follower};
use domain::SandboxId;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{interval, timeout};

/// The log of a plane that has one event or none, and how often it was read.
#[derive(Default)]
struct Log {
    stored: watch::Sender<bool>,
    reads: watch::Sender<u32>,
}

/// A plane that stores an event and never tells of it. It tells of heartbeats all the time.
async fn forgetful_plane(log: Arc<Log>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/api/v1/ws/events", get(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(chatter) }))
        .route("/api/v1/sandboxes/s-1/events", get(page))
        .with_state(log);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn chatter(mut socket: WebSocket) {
    socket.recv().await;
    let mut say = async |frame: Value| socket.send(Message::Text(frame.to_string().into())).await;
    let mut open = say(json!({"status": "subscribed"})).await;
    let mut beats = interval(Duration::from_millis(20));
    while open.is_ok() {
        beats.tick().await;
        let beat = json!({"id": "b-1", "seq": null, "event_type": "SANDBOX_AGENT_HEARTBEAT", "entity_type": "sandbox",
                          "entity_id": "s-1", "payload": {}, "timestamp": "2026-11-16T00:00:00.000000Z"});
        open = say(beat).await;
    }
}

async fn page(State(log): State<Arc<Log>>) -> Response {
    let event = json!({"id": "e-1", "seq": 1, "sandbox_id": "s-1", "event_type": "agent.completed", "event_data": {},
                       "source": "agent", "created_at": "2026-11-16T00:00:00.000000Z", "emitted_at": null});
    let events: Vec<Value> = log.stored.borrow().then_some(event).into_iter().collect();
    log.reads.send_modify(|reads| *reads += 1);
    let last = events.len();
    let page = json!({"sandbox_id": "s-1", "events": events, "total_count": last, "last_seq": last, "has_more": false,
                      "next_after_seq": last, "next_before_seq": null});
    Response::new(page.to_string().into())
}

/// Behind the last event of a log no number shows a hole, and heartbeats are no sign that there is none.
#[tokio::test]
async fn an_event_that_nobody_tells_of_is_found_by_looking() {
    let log = Arc::new(Log::default());
    let mut follower = Follower::new(Follow {
        plane: forgetful_plane(log.clone()).await,
        sockets: None,
        sandbox: SandboxId::parse("s-1").unwrap(),
        token: None,
        after_seq: 0,
        silence: Duration::from_millis(200),
    });
    let looking = async {
        let mut reads = log.reads.subscribe();
        let reads_empty_log = async {
            reads.wait_for(|reads| *reads >= 1).await.unwrap();
            log.stored.send_replace(true);
        };
        tokio::join!(follower.next(), reads_empty_log).0
    };
    let found = timeout(Duration::from_secs(60), looking).await.expect("it never looked");
    assert_eq!((found.seq, found.event_type.as_str()), (1, "agent.completed"));
}
