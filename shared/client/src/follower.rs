//! Follows a sandbox's log live.

use crate::reorder_buffer::ReorderBuffer;
use crate::{backoff, http};
use contract::events::{EventOut, EventPage};
use contract::socket::{ClientFrame, EventFrame, Subscribe};
use domain::entity::SANDBOX;
use domain::filter::FilterChange;
use domain::{EventId, SandboxId, Timestamp};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Which log to follow, and from where.
#[derive(Clone)]
pub struct Follow {
    /// `http://127.0.0.1:18000`.
    pub plane: String,
    /// Socket URL, if it differs from the plane's: `wss://sockets.example/live`.
    pub sockets: Option<String>,
    pub sandbox: SandboxId,
    pub token: Option<String>,
    /// Sequence number of the last event that the reader has.
    pub after_seq: u64,
    /// After this long without an event the log is polled; after twice as long without any frame the socket is reopened.
    /// Usually [`IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
}

impl fmt::Debug for Follow {
    /// Omits the token and the URLs, which may contain one: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Follow");
        shown.field("sandbox", &self.sandbox).field("after_seq", &self.after_seq).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    pub seq: u64,
    pub id: EventId,
    pub event_type: String,
    /// Truncated to what fits into a frame or page.
    pub data: Value,
    pub created_at: Timestamp,
}

/// Receives every event of a log exactly once, in order.
#[derive(Debug)]
pub struct Follower {
    follow: Follow,
    http: reqwest::Client,
    socket: Option<Socket>,
    buffer: ReorderBuffer<Followed>,
    ready: VecDeque<Followed>,
    /// Whether events are missing that must be fetched from the log.
    behind: bool,
    /// When the log is polled even if nothing seems to be missing.
    poll_at: Instant,
    /// Time of the last frame.
    received_at: Instant,
    attempt: u32,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Default of [`Follow::idle_timeout`].
///
/// A lost frame after the last received one leaves no visible gap, so the log is polled. A connection that stays silent
/// for twice as long is considered dead, whatever TCP reports. The local plane pings every 30 s; API Gateway does not, and
/// closes a socket that is idle for ten minutes.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(45);
const DEADLINE: Duration = Duration::from_secs(10);

impl Follower {
    /// Connects lazily: nothing is sent before [`Follower::next`].
    pub fn new(follow: Follow) -> Self {
        let http = http::client(|| reqwest::Client::builder().timeout(DEADLINE));
        let buffer = ReorderBuffer::after(follow.after_seq);
        let now = Instant::now();
        let poll_at = now + follow.idle_timeout;
        Self {
            follow,
            http,
            socket: None,
            buffer,
            ready: VecDeque::new(),
            behind: false,
            poll_at,
            received_at: now,
            attempt: 0,
        }
    }

    /// Sequence number of the last event that [`Follower::next`] returned.
    pub fn last_seq(&self) -> u64 {
        self.buffer.last() - self.ready.len() as u64
    }

    /// Waits for the next event. Cancel-safe: no event is lost.
    pub async fn next(&mut self) -> Followed {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            let outcome = match &self.socket {
                None => self.connect().await,
                Some(_) if self.behind => self.catch_up().await,
                Some(_) => self.receive().await,
            };
            match outcome {
                Ok(()) => {}
                Err(why) => {
                    tracing::debug!(sandbox.id = %self.follow.sandbox, "Connection to the plane lost ({why}); retrying");
                    self.socket = None;
                    let wait = backoff::wait(self.attempt);
                    self.attempt += 1;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Waits for the confirmed subscription before it fetches: events stored after that arrive live, earlier ones are
    /// fetched, so none is missed.
    async fn connect(&mut self) -> Result<(), String> {
        let address = self.follow.sockets.clone();
        let address = address
            .unwrap_or_else(|| format!("{}/api/v1/ws/events", self.follow.plane.replacen("http", "ws", 1)));
        let (url, first) = match &self.follow.token {
            Some(token) => {
                let entity_ids = Some(vec![self.follow.sandbox.to_string()]);
                let filters = FilterChange { entity_ids, ..FilterChange::default() };
                let subscribe = Subscribe { filters, batch: Some(true) };
                (address, ClientFrame::Auth { token: token.clone(), subscribe })
            }
            // The plane needs no token, so the handshake subscribes; nothing of other sandboxes may arrive before the frame.
            None => {
                let url = format!("{address}?batch=true&entity_ids={}", self.follow.sandbox);
                (url, ClientFrame::Subscribe(Subscribe::default()))
            }
        };
        let opening = timeout(DEADLINE, connect_async(url)).await.map_err(|_| "timeout")?;
        let (mut socket, _) = opening.map_err(|e| e.to_string())?;
        let first = serde_json::to_string(&first).map_err(|e| e.to_string())?;
        socket.send(Message::text(first)).await.map_err(|e| e.to_string())?;
        loop {
            let frame = timeout(DEADLINE, socket.next()).await.map_err(|_| "timeout")?;
            let Message::Text(text) = frame.ok_or("closed")?.map_err(|e| e.to_string())? else { continue };
            let value: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if let Some(error) = value.get("error") {
                return Err(error.to_string());
            }
            if value.get("status").is_some_and(|status| status == "subscribed") {
                break;
            }
            // Events may overtake the confirmation.
            self.handle_frame(value)?;
        }
        self.socket = Some(socket);
        self.received_at = Instant::now();
        self.behind = true;
        Ok(())
    }

    async fn catch_up(&mut self) -> Result<(), String> {
        let Follow { plane, sandbox, token, .. } = &self.follow;
        let after = self.buffer.last();
        let url =
            format!("{plane}/api/v1/sandboxes/{sandbox}/events?order=oldest&limit=500&after_seq={after}");
        let mut request = self.http.get(url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.and_then(reqwest::Response::error_for_status);
        let page: EventPage = response.map_err(|e| e.to_string())?.json().await.map_err(|e| e.to_string())?;
        let more = page.has_more;
        if page.events.is_empty() && self.buffer.has_gap() {
            return Err("the log is shorter than the events received from it".into());
        }
        for event in page.events {
            self.ready.extend(self.buffer.take(event.seq, Followed::from_page(event)));
        }
        self.behind = more || self.buffer.has_gap();
        self.poll_at = Instant::now() + self.follow.idle_timeout;
        self.attempt = 0;
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), String> {
        let socket = self.socket.as_mut().ok_or("not connected")?;
        let dead_at = self.received_at + 2 * self.follow.idle_timeout;
        let Ok(frame) = timeout_at(self.poll_at.min(dead_at), socket.next()).await else {
            if Instant::now() >= dead_at {
                return Err("silent for too long".into());
            }
            // The pong shows that the connection is alive.
            socket.send(Message::text(r#"{"type":"ping"}"#)).await.map_err(|e| e.to_string())?;
            self.behind = true;
            return Ok(());
        };
        self.received_at = Instant::now();
        if let Message::Text(text) = frame.ok_or("closed")?.map_err(|e| e.to_string())? {
            let value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            self.handle_frame(value)?;
            self.behind |= self.buffer.has_gap();
        }
        Ok(())
    }

    fn handle_frame(&mut self, frame: Value) -> Result<(), String> {
        let frames = match frame.get("type").and_then(Value::as_str) {
            Some("events") => frame["events"].as_array().cloned().unwrap_or_default(),
            Some(_) => return Ok(()),
            None if frame.get("event_type").is_some() => vec![frame],
            None => return Ok(()),
        };
        for frame in frames {
            // `EventFrame` holds raw JSON, which cannot be deserialized from a `Value`.
            let frame: EventFrame = serde_json::from_str(&frame.to_string()).map_err(|e| e.to_string())?;
            // A task or ticket may have the same id as the sandbox, and has its own log.
            if frame.entity_type != SANDBOX {
                continue;
            }
            // Ephemeral events are not part of the log.
            let Some(seq) = frame.seq else { continue };
            self.ready.extend(self.buffer.take(seq, Followed::from_frame(seq, frame)));
            self.poll_at = Instant::now() + self.follow.idle_timeout;
        }
        Ok(())
    }
}

impl Followed {
    fn from_page(event: EventOut) -> Self {
        Self {
            seq: event.seq,
            id: event.id,
            event_type: event.event_type.to_string(),
            data: serde_json::from_str(event.event_data.text()).unwrap_or_default(),
            created_at: event.created_at,
        }
    }

    fn from_frame(seq: u64, frame: EventFrame) -> Self {
        let mut data: Value = serde_json::from_str(frame.payload.text()).unwrap_or_default();
        let mut event_type = frame.event_type;
        if let Some(fields) = data.as_object_mut() {
            // The socket adds these fields; they are not part of the event.
            fields.remove("source");
            fields.remove("body_ref");
            if let Some(Value::String(original)) = fields.remove("original_event_type") {
                event_type = original;
            }
        }
        Self { seq, id: frame.id, event_type, data, created_at: frame.timestamp }
    }
}
