//! Sockets: opening, frames and closing to `edge::ws`; frames for them come out of the hub.

use crate::aws::{Hub, Inbox};
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use contract::limits::MAX_FRAME_BYTES;
use contract::query::Query;
use contract::socket;
use domain::ConnectionId;
use edge::Plane;
use edge::ws::{Opening, connect, disconnect, frame};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// A write that takes longer than this goes to somebody who does not read.
const WRITE_DEADLINE: Duration = Duration::from_secs(20);
/// How many waiting frames are written before the wire is told to send them.
const AT_ONCE: usize = 64;

/// How long a socket may be silent, and open.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// After this long without a frame to it, a socket gets a ping.
    pub ping_after: Duration,
    /// API Gateway ends a socket after two hours; so do we, so that clients meet it at home first.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { ping_after: Duration::from_secs(30), longest: Duration::from_secs(2 * 3600) }
    }
}

/// Where sockets go.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// The plane.
    pub plane: Arc<Plane>,
    /// The open ones.
    pub hub: Arc<Hub>,
    /// How many are being served: the process waits for them when it ends.
    pub served: watch::Sender<usize>,
    /// How long they may stay.
    pub patience: Patience,
}

/// Opens a socket, or answers why not.
pub async fn open(sockets: Sockets, upgrade: WebSocketUpgrade, head: Parts) -> Response {
    let connection = sockets.plane.ids.connection();
    // Before anybody can know of it: whoever is told of it must be able to reach it.
    let inbox = sockets.hub.register(&connection);
    let opening = Opening {
        connection: connection.clone(),
        path: head.uri.path().to_owned(),
        query: Query::parse(head.uri.query().unwrap_or_default()),
        headers: head.headers,
    };
    match connect(&sockets.plane, opening).await {
        Err(refusal) => {
            sockets.hub.remove(&connection);
            refusal.map(Body::from)
        }
        Ok(_) => {
            let upgrade = upgrade.max_message_size(4 * MAX_FRAME_BYTES).max_frame_size(4 * MAX_FRAME_BYTES);
            // Clients say little. The default of 128 KB is allocated for each, and cleared for each read.
            let upgrade = upgrade.read_buffer_size(4 * 1024);
            let failed = Leaving { sockets: sockets.clone(), connection: connection.clone() };
            upgrade
                .on_failed_upgrade(move |_| {
                    tokio::spawn(failed.leave());
                })
                .on_upgrade(move |socket| serve(sockets, socket, connection, inbox))
        }
    }
}

/// Each half is a task of its own: a frame that goes out does not make anybody look whether one comes in.
async fn serve(sockets: Sockets, socket: WebSocket, connection: ConnectionId, inbox: Inbox) {
    let served = sockets.served.clone();
    served.send_modify(|count| *count += 1);
    let (out, frames) = socket.split();
    let mut writing = tokio::spawn(write_frames(out, inbox, sockets.patience.ping_after));
    let written = tokio::select! {
        () = read_frames(&sockets, &connection, frames) => false,
        _ = &mut writing => true,
    };
    // The hub lets go of the inbox, and with its last frame the writer ends.
    Leaving { sockets, connection }.leave().await;
    if !written {
        let _ended = writing.await;
    }
    served.send_modify(|count| *count -= 1);
}

/// Until the client is gone or its time is over.
async fn read_frames(sockets: &Sockets, connection: &ConnectionId, mut frames: SplitStream<WebSocket>) {
    let ends_at = Instant::now() + sockets.patience.longest;
    loop {
        match timeout_at(ends_at, frames.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => {
                if let Err(error) = frame(&sockets.plane, connection, &text).await {
                    let why = app::error::chain(&error);
                    tracing::error!(connection.id = %connection, "A frame was not answered: {why}");
                }
            }
            // Binary frames are not ours; pings of the protocol are answered below us.
            Ok(Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_)))) => {}
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return,
        }
    }
}

/// Until the inbox ends or the client does not read.
async fn write_frames(mut out: SplitSink<WebSocket, Message>, mut inbox: Inbox, ping_after: Duration) {
    loop {
        let messages: Vec<Message> = match timeout(ping_after, inbox.take(AT_ONCE)).await {
            Err(_) => vec![Message::Text(socket::ping().into())],
            Ok(frames) if frames.is_empty() => break,
            Ok(frames) => {
                let texts = frames.into_iter().filter_map(|frame| Utf8Bytes::try_from(frame).ok());
                texts.map(Message::Text).collect()
            }
        };
        let written = timeout(WRITE_DEADLINE, async {
            for message in messages {
                out.feed(message).await?;
            }
            out.flush().await
        });
        if !matches!(written.await, Ok(Ok(()))) {
            return;
        }
    }
    let frame = CloseFrame { code: 1008, reason: Utf8Bytes::from_static("closed by the server") };
    // The other side may be the reason why we close; it gets a moment, not more.
    let _unheard = timeout(Duration::from_secs(1), out.send(Message::Close(Some(frame)))).await;
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
            let why = app::error::chain(&error);
            tracing::warn!(connection.id = %connection, "Could not forget socket {connection}: {why}");
        }
    }
}
