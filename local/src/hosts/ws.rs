//! WebSockets: passes connects, frames and disconnects to `edge::ws`; outgoing frames come from the hub.

use crate::aws::{Hub, Inbox};
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use contract::limits::MAX_FRAME_BYTES;
use contract::query::Query;
use contract::socket;
use domain::ConnectionId;
use edge::Plane;
use edge::http::SourceIp;
use edge::ws::{Opening, connect, disconnect, frame};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// A client whose socket blocks a write for longer has stopped reading.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of queued frames per flush.
const FRAMES_PER_FLUSH: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct SocketTimeouts {
    /// A socket without outgoing frames for this long is sent a ping.
    pub ping_after: Duration,
    /// API Gateway closes a socket after two hours, so the local host does too.
    pub max_age: Duration,
}

impl Default for SocketTimeouts {
    fn default() -> Self {
        Self { ping_after: Duration::from_secs(30), max_age: Duration::from_secs(2 * 3600) }
    }
}

#[derive(Debug, Clone)]
pub struct Sockets {
    pub plane: Arc<Plane>,
    pub hub: Arc<Hub>,
    /// Number of open sockets: shutdown waits for them.
    pub served: watch::Sender<usize>,
    pub socket_timeouts: SocketTimeouts,
}

/// Opens a socket, or returns the refusal.
pub async fn open(sockets: Sockets, upgrade: WebSocketUpgrade, head: Parts) -> Response {
    let connection = sockets.plane.ids.connection();
    // Registered before the plane knows of it, so that a push always finds it.
    let inbox = sockets.hub.register(&connection);
    let opening = Opening {
        connection: connection.clone(),
        path: head.uri.path().to_owned(),
        query: Query::parse(head.uri.query().unwrap_or_default()),
        headers: head.headers,
        source: head.extensions.get::<SourceIp>().copied(),
    };
    match connect(&sockets.plane, opening).await {
        Err(refusal) => {
            sockets.hub.remove(&connection);
            refusal.map(Body::from)
        }
        Ok(_) => {
            let upgrade = upgrade.max_message_size(4 * MAX_FRAME_BYTES).max_frame_size(4 * MAX_FRAME_BYTES);
            // Clients send little. The default buffer of 128 KB is allocated per socket and cleared for each read.
            let upgrade = upgrade.read_buffer_size(4 * 1024);
            let failed = Closing { sockets: sockets.clone(), connection: connection.clone() };
            upgrade
                .on_failed_upgrade(move |_| {
                    tokio::spawn(failed.close());
                })
                .on_upgrade(move |socket| serve(sockets, socket, connection, inbox))
        }
    }
}

/// Reads and writes in separate tasks, so that an outgoing frame does not wake the reader.
async fn serve(sockets: Sockets, socket: WebSocket, connection: ConnectionId, inbox: Inbox) {
    let served = sockets.served.clone();
    served.send_modify(|count| *count += 1);
    let (out, frames) = socket.split();
    let mut writing = tokio::spawn(write_frames(out, inbox, sockets.socket_timeouts.ping_after));
    let written = tokio::select! {
        () = read_frames(&sockets, &connection, frames) => false,
        _ = &mut writing => true,
    };
    // The hub drops its sender, so the writer ends after the last frame.
    Closing { sockets, connection }.close().await;
    if !written {
        let _finished = writing.await;
    }
    served.send_modify(|count| *count -= 1);
}

/// Runs until the client disconnects or the socket reaches its maximum age.
async fn read_frames(sockets: &Sockets, connection: &ConnectionId, mut frames: SplitStream<WebSocket>) {
    let expires_at = Instant::now() + sockets.socket_timeouts.max_age;
    loop {
        match timeout_at(expires_at, frames.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => {
                if let Err(error) = frame(&sockets.plane, connection, &text).await {
                    let why = app::error::chain(&error);
                    tracing::error!(connection.id = %connection, "Cannot handle a frame of socket {connection}: {why}");
                }
            }
            // The protocol has no binary frames; the library answers WebSocket pings.
            Ok(Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_)))) => {}
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return,
        }
    }
}

/// Runs until the socket is closed or the client stops reading.
async fn write_frames(mut out: SplitSink<WebSocket, Message>, mut inbox: Inbox, ping_after: Duration) {
    loop {
        let messages: Vec<Message> = match timeout(ping_after, inbox.take(FRAMES_PER_FLUSH)).await {
            Err(_) => vec![Message::Text(socket::ping().into())],
            Ok(frames) if frames.is_empty() => break,
            Ok(frames) => {
                let texts = frames.into_iter().filter_map(|frame| Utf8Bytes::try_from(frame).ok());
                texts.map(Message::Text).collect()
            }
        };
        let written = timeout(WRITE_TIMEOUT, async {
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
    // Best effort: the client may have stopped reading.
    let _undelivered = timeout(Duration::from_secs(1), out.send(Message::Close(Some(frame)))).await;
}

struct Closing {
    sockets: Sockets,
    connection: ConnectionId,
}

impl Closing {
    async fn close(self) {
        self.sockets.hub.remove(&self.connection);
        if let Err(error) = disconnect(&self.sockets.plane, &self.connection).await {
            let connection = &self.connection;
            let why = app::error::chain(&error);
            tracing::warn!(connection.id = %connection, "Cannot delete the record of socket {connection}: {why}");
        }
    }
}
