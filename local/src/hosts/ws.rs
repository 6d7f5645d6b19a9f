//! Sockets: opening, frames and closing to `edge::ws`; frames for them come out of the hub.

use crate::aws::{Hub, Inbox};
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use contract::limits::MAX_FRAME_BYTES;
use contract::socket;
use domain::ConnectionId;
use edge::Plane;
use edge::ws::{Next, Opening, connect, disconnect, frame};
use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// After this long without a frame to it, a socket gets a ping.
pub const PING_AFTER: Duration = Duration::from_secs(30);
/// A write that takes longer than this goes to somebody who does not read.
const WRITE_DEADLINE: Duration = Duration::from_secs(20);
/// Whoever has not said who they are by then has nothing to say.
const AUTH_DEADLINE: Duration = Duration::from_secs(10);
/// API Gateway ends a socket after two hours; so do we, so that clients meet it at home first.
const LONGEST: Duration = Duration::from_secs(2 * 3600);

/// Where sockets go.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// The plane.
    pub plane: Arc<Plane>,
    /// The open ones.
    pub hub: Arc<Hub>,
}

/// Opens a socket, or answers why not.
pub async fn open(sockets: Sockets, upgrade: WebSocketUpgrade, head: Parts) -> Response {
    let connection = app::ids::connection();
    // Before anybody can know of it: whoever is told of it must be able to reach it.
    let inbox = sockets.hub.register(&connection);
    let opening = Opening {
        connection: connection.clone(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
    };
    match connect(&sockets.plane, opening).await {
        Err(refusal) => {
            sockets.hub.remove(&connection);
            refusal.map(Body::from)
        }
        Ok(opened) => {
            let known = opened.principal.is_some();
            let upgrade = upgrade.max_message_size(4 * MAX_FRAME_BYTES).max_frame_size(4 * MAX_FRAME_BYTES);
            let failed = Leaving { sockets: sockets.clone(), connection: connection.clone() };
            upgrade
                .on_failed_upgrade(move |_| {
                    tokio::spawn(failed.leave());
                })
                .on_upgrade(move |socket| serve(sockets, socket, connection, inbox, known))
        }
    }
}

async fn serve(sockets: Sockets, socket: WebSocket, connection: ConnectionId, mut inbox: Inbox, known: bool) {
    let (mut out, mut frames) = socket.split();
    let ends_at = Instant::now() + LONGEST;
    let mut ping_at = Instant::now() + PING_AFTER;
    let mut auth_by = (!known).then(|| Instant::now() + AUTH_DEADLINE);
    loop {
        let wake_at = auth_by.unwrap_or(ends_at).min(ping_at).min(ends_at);
        let event = tokio::select! {
            waiting = inbox.recv() => Event::Send(waiting),
            received = frames.next() => Event::Receive(received),
            () = tokio::time::sleep_until(wake_at) => Event::Wake,
        };
        match event {
            Event::Send(None) => break close(&mut out, 1008, "closed by the server").await,
            Event::Send(Some(frame)) => {
                let Ok(text) = Utf8Bytes::try_from(frame) else { continue };
                if !write(&mut out, Message::Text(text)).await {
                    break;
                }
                ping_at = Instant::now() + PING_AFTER;
            }
            Event::Receive(Some(Ok(Message::Text(text)))) => {
                // Whoever was let in need not be watched any more; whoever was not is closed.
                if frame(&sockets.plane, &connection, &text).await == Next::Continue && auth_by.is_some() {
                    auth_by = if is_known(&sockets, &connection).await { None } else { auth_by };
                }
            }
            Event::Receive(Some(Ok(Message::Close(_)) | Err(_)) | None) => break,
            // Binary frames are not ours; pings of the protocol are answered below us.
            Event::Receive(Some(Ok(_))) => {}
            Event::Wake if Instant::now() >= ends_at => {
                break close(&mut out, 1001, "two hours are over").await;
            }
            Event::Wake if auth_by.is_some_and(|by| Instant::now() >= by) => {
                let told = socket::error("unauthorized", "Nobody said who they are; closing.");
                write(&mut out, Message::Text(told.into())).await;
                break close(&mut out, 1008, "unauthorized").await;
            }
            Event::Wake => {
                if !write(&mut out, Message::Text(socket::ping().into())).await {
                    break;
                }
                ping_at = Instant::now() + PING_AFTER;
            }
        }
    }
    Leaving { sockets, connection }.leave().await;
}

enum Event {
    Send(Option<bytes::Bytes>),
    Receive(Option<Result<Message, axum::Error>>),
    Wake,
}

struct Leaving {
    sockets: Sockets,
    connection: ConnectionId,
}

impl Leaving {
    async fn leave(self) {
        self.sockets.hub.remove(&self.connection);
        if let Err(error) = disconnect(&self.sockets.plane, &self.connection).await {
            let connection = &self.connection;
            tracing::warn!(connection.id = %connection, %error, "Could not forget socket {connection}");
        }
    }
}

async fn is_known(sockets: &Sockets, connection: &ConnectionId) -> bool {
    let stored = sockets.plane.store.connection(connection).await;
    stored.is_ok_and(|stored| stored.is_some_and(|stored| stored.principal.is_some()))
}

async fn write(out: &mut SplitSink<WebSocket, Message>, message: Message) -> bool {
    matches!(timeout(WRITE_DEADLINE, out.send(message)).await, Ok(Ok(())))
}

async fn close(out: &mut SplitSink<WebSocket, Message>, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
    // The other side may be the reason why we close; it gets a moment, not more.
    let deadline = Instant::now() + Duration::from_secs(1);
    let _unheard = timeout_at(deadline, out.send(Message::Close(Some(frame)))).await;
}
