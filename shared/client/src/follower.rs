//! Following a sandbox's log live.

use crate::resume::Resume;
use crate::{backoff, http};
use contract::events::{EventOut, EventPage};
use contract::socket::{ClientFrame, EventFrame, Subscribe};
use domain::entity::SANDBOX;
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

/// Whom to follow, and from where.
#[derive(Clone)]
pub struct Follow {
    /// `http://127.0.0.1:18000`.
    pub plane: String,
    /// The address of its sockets, if they are not at the same place: `wss://sockets.example/live`.
    pub sockets: Option<String>,
    /// Whose log.
    pub sandbox: SandboxId,
    /// A token that may read it.
    pub token: Option<String>,
    /// What the reader has already.
    pub after_seq: u64,
    /// After so long without an event the log is looked at: [`SILENCE`], unless somebody is less patient.
    pub silence: Duration,
}

impl fmt::Debug for Follow {
    /// Without the token and the addresses, which may hold one: what is shown ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Follow");
        shown.field("sandbox", &self.sandbox).field("after_seq", &self.after_seq).finish_non_exhaustive()
    }
}

/// One event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Its place.
    pub seq: u64,
    /// Its id.
    pub id: EventId,
    /// Its type, as sent.
    pub event_type: String,
    /// What it says, as far as it fits a frame or page.
    pub data: Value,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// Sees every event of a log once, in order.
#[derive(Debug)]
pub struct Follower {
    follow: Follow,
    http: reqwest::Client,
    socket: Option<Socket>,
    resume: Resume<Followed>,
    ready: VecDeque<Followed>,
    /// Whether the log must be asked for what the socket did not bring.
    behind: bool,
    /// When it is asked in any case.
    look_at: Instant,
    /// When the socket last brought something.
    heard_at: Instant,
    attempt: u32,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A good time for [`Follow::silence`]. Then the log is looked at: an event that was lost behind the last one shows no gap. And whoever
/// has not said a word after twice as long is not there, whatever TCP thinks. The local plane speaks every 30 s by itself;
/// API Gateway does not, and ends a socket that is idle for ten minutes.
pub const SILENCE: Duration = Duration::from_secs(45);
const DEADLINE: Duration = Duration::from_secs(10);

impl Follower {
    /// Starts to follow; nothing is sent before [`Follower::next`].
    pub fn new(follow: Follow) -> Self {
        let http = http::client(|| reqwest::Client::builder().timeout(DEADLINE));
        let resume = Resume::after(follow.after_seq);
        let now = Instant::now();
        let look_at = now + follow.silence;
        Self {
            follow,
            http,
            socket: None,
            resume,
            ready: VecDeque::new(),
            behind: false,
            look_at,
            heard_at: now,
            attempt: 0,
        }
    }

    /// The last event that was seen.
    pub fn last_seq(&self) -> u64 {
        self.resume.last() - self.ready.len() as u64
    }

    /// The next event, however long it takes to come. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Followed {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            let outcome = match &self.socket {
                None => self.connect().await,
                Some(_) if self.behind => self.catch_up().await,
                Some(_) => self.listen().await,
            };
            match outcome {
                Ok(()) => {}
                Err(why) => {
                    tracing::debug!(sandbox.id = %self.follow.sandbox, "Lost the plane ({why}); trying again");
                    self.socket = None;
                    let wait = backoff::wait(self.attempt);
                    self.attempt += 1;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Subscribes, and knows that it is subscribed, before anything is fetched: what is stored after this comes
    /// live, what was stored before is fetched.
    async fn connect(&mut self) -> Result<(), String> {
        let address = self.follow.sockets.clone();
        let address = address
            .unwrap_or_else(|| format!("{}/api/v1/ws/events", self.follow.plane.replacen("http", "ws", 1)));
        let url = format!("{address}?batch=true&entity_ids={}", self.follow.sandbox);
        let opening = timeout(DEADLINE, connect_async(url)).await.map_err(|_| "no answer")?;
        let (mut socket, _) = opening.map_err(|e| e.to_string())?;
        let first = match &self.follow.token {
            Some(token) => ClientFrame::Auth { token: token.clone() },
            None => ClientFrame::Subscribe(Subscribe::default()),
        };
        let first = serde_json::to_string(&first).map_err(|e| e.to_string())?;
        socket.send(Message::text(first)).await.map_err(|e| e.to_string())?;
        loop {
            let frame = timeout(DEADLINE, socket.next()).await.map_err(|_| "no answer")?;
            let Message::Text(text) = frame.ok_or("closed")?.map_err(|e| e.to_string())? else { continue };
            let value: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if let Some(error) = value.get("error") {
                return Err(error.to_string());
            }
            if value.get("status").is_some_and(|status| status == "subscribed") {
                break;
            }
            // Events may overtake the confirmation.
            self.hear(value)?;
        }
        self.socket = Some(socket);
        self.heard_at = Instant::now();
        self.behind = true;
        Ok(())
    }

    async fn catch_up(&mut self) -> Result<(), String> {
        let Follow { plane, sandbox, token, .. } = &self.follow;
        let after = self.resume.last();
        let url =
            format!("{plane}/api/v1/sandboxes/{sandbox}/events?order=oldest&limit=500&after_seq={after}");
        let mut request = self.http.get(url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        let page: EventPage = answer.map_err(|e| e.to_string())?.json().await.map_err(|e| e.to_string())?;
        let more = page.has_more;
        if page.events.is_empty() && self.resume.has_gap() {
            return Err("the log is shorter than what was seen of it".into());
        }
        for event in page.events {
            self.ready.extend(self.resume.take(event.seq, Followed::from_page(event)));
        }
        self.behind = more || self.resume.has_gap();
        self.look_at = Instant::now() + self.follow.silence;
        self.attempt = 0;
        Ok(())
    }

    async fn listen(&mut self) -> Result<(), String> {
        let socket = self.socket.as_mut().ok_or("not connected")?;
        let gone_at = self.heard_at + 2 * self.follow.silence;
        let Ok(frame) = timeout_at(self.look_at.min(gone_at), socket.next()).await else {
            if Instant::now() >= gone_at {
                return Err("silent for too long".into());
            }
            // Its answer shows that somebody is there.
            socket.send(Message::text(r#"{"type":"ping"}"#)).await.map_err(|e| e.to_string())?;
            self.behind = true;
            return Ok(());
        };
        self.heard_at = Instant::now();
        if let Message::Text(text) = frame.ok_or("closed")?.map_err(|e| e.to_string())? {
            let value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            self.hear(value)?;
            self.behind |= self.resume.has_gap();
        }
        Ok(())
    }

    fn hear(&mut self, frame: Value) -> Result<(), String> {
        let frames = match frame.get("type").and_then(Value::as_str) {
            Some("events") => frame["events"].as_array().cloned().unwrap_or_default(),
            Some(_) => return Ok(()),
            None if frame.get("event_type").is_some() => vec![frame],
            None => return Ok(()),
        };
        for frame in frames {
            // Raw parts cannot be read from a parsed value.
            let frame: EventFrame = serde_json::from_str(&frame.to_string()).map_err(|e| e.to_string())?;
            // A task or ticket may have the sandbox's id, and a log of its own.
            if frame.entity_type != SANDBOX {
                continue;
            }
            // What is ephemeral is not part of the log.
            let Some(seq) = frame.seq else { continue };
            self.ready.extend(self.resume.take(seq, Followed::from_frame(seq, frame)));
            self.look_at = Instant::now() + self.follow.silence;
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
            // The overlay of the socket is not part of what was sent.
            fields.remove("source");
            fields.remove("body_ref");
            if let Some(Value::String(original)) = fields.remove("original_event_type") {
                event_type = original;
            }
        }
        Self { seq, id: frame.id, event_type, data, created_at: frame.timestamp }
    }
}
