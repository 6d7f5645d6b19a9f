//! A follower whose socket misses an event.

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

/// A log of at most one event, with the number of reads.
#[derive(Default)]
struct Log {
    stored: watch::Sender<bool>,
    reads: watch::Sender<u32>,
}

/// A plane that stores an event without broadcasting it, while it broadcasts heartbeats.
async fn plane_without_broadcast(log: Arc<Log>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route(
            "/api/v1/ws/events",
            get(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(send_heartbeats) }),
        )
        .route("/api/v1/sandboxes/s-1/events", get(page))
        .with_state(log);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn send_heartbeats(mut socket: WebSocket) {
    socket.recv().await;
    let mut send = async |frame: Value| socket.send(Message::Text(frame.to_string().into())).await;
    let mut open = send(json!({"status": "subscribed"})).await;
    let mut ticks = interval(Duration::from_millis(20));
    while open.is_ok() {
        ticks.tick().await;
        let heartbeat = json!({"id": "b-1", "seq": null, "event_type": "SANDBOX_AGENT_HEARTBEAT", "entity_type": "sandbox",
                          "entity_id": "s-1", "payload": {}, "timestamp": "2026-11-16T00:00:00.000000Z"});
        open = send(heartbeat).await;
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

/// No sequence number reveals that the last event of a log is missing, and heartbeats do not prove that it is not.
#[tokio::test]
async fn follower_polls_for_events_missed_by_the_socket() {
    let log = Arc::new(Log::default());
    let mut follower = Follower::new(Follow {
        plane: plane_without_broadcast(log.clone()).await,
        sockets: None,
        sandbox: SandboxId::parse("s-1").unwrap(),
        token: None,
        after_seq: 0,
        idle_timeout: Duration::from_millis(200),
    });
    let polling = async {
        let mut reads = log.reads.subscribe();
        let store_after_first_read = async {
            reads.wait_for(|reads| *reads >= 1).await.unwrap();
            log.stored.send_replace(true);
        };
        tokio::join!(follower.next(), store_after_first_read).0
    };
    let event = timeout(Duration::from_secs(60), polling).await.expect("the follower never polled");
    assert_eq!((event.seq, event.event_type.as_str()), (1, "agent.completed"));
}
