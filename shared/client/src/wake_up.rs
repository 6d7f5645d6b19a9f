//! A socket that signals new messages, so that a worker pulls them without polling.

use domain::SandboxId;
use futures_util::{SinkExt, StreamExt};
use std::fmt;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Where to open a [`WakeUpSocket`].
#[derive(Clone)]
pub struct WakeUpOptions {
    /// `http://127.0.0.1:18000`.
    pub plane: String,
    /// Socket URL, if it differs from the plane's: `wss://sockets.example/live`.
    pub sockets: Option<String>,
    pub sandbox: SandboxId,
    pub token: Option<String>,
}

impl fmt::Debug for WakeUpOptions {
    /// Omits the token and the URLs, which may contain one: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeUpOptions").field("sandbox", &self.sandbox).finish_non_exhaustive()
    }
}

/// Messages, and the ends of a sandbox: then a pull is answered with `sandbox_finished`.
const EVENT_TYPES: [&str; 4] =
    ["SANDBOX_MESSAGE_QUEUED", "SANDBOX_TERMINATED", "SANDBOX_TERMINATED_IDLE", "SANDBOX_FAILED"];

/// Signals when a message is sent to the sandbox, or the plane ends it. It is a hint: signals may be spurious or missing.
#[derive(Debug)]
pub struct WakeUpSocket {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Time of a ping that no frame has followed yet.
    pinged_at: Option<Instant>,
}

/// Timeout for opening the socket, for a write, and for the response to a ping.
const DEADLINE: Duration = Duration::from_secs(10);

impl WakeUpSocket {
    /// Opens the socket. Every message sent after this returns causes a signal.
    pub async fn open(options: &WakeUpOptions) -> Result<Self, &'static str> {
        let types = format!("event_types={}", EVENT_TYPES.join(","));
        let url = match &options.sockets {
            // An AWS WebSocket API has no paths, so the query carries the sandbox id.
            Some(address) => format!("{address}?sandbox_id={}&{types}", options.sandbox),
            None => {
                let plane = options.plane.trim_end_matches('/').replacen("http", "ws", 1);
                format!("{plane}/api/v1/sandbox/{}/ws?{types}", options.sandbox)
            }
        };
        let mut request = url.into_client_request().map_err(|_| "invalid URL")?;
        if let Some(token) = &options.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| "invalid token")?;
            request.headers_mut().insert("authorization", value);
        }
        match timeout(DEADLINE, connect_async(request)).await {
            Ok(Ok((socket, _))) => Ok(Self { socket, pinged_at: None }),
            Ok(Err(Error::Http(_))) => Err("refused"),
            Ok(Err(_)) => Err("unreachable"),
            Err(_) => Err("timeout"),
        }
    }

    /// Waits for a signal; `false` if none came before the deadline. An error means that the socket is closed.
    /// Cancel-safe.
    pub async fn notified_before(&mut self, deadline: Instant) -> Result<bool, &'static str> {
        loop {
            let dead_at = self.pinged_at.map(|at| at + DEADLINE);
            let until = dead_at.map_or(deadline, |dead_at| dead_at.min(deadline));
            let Ok(frame) = timeout_at(until, self.socket.next()).await else {
                if dead_at.is_some_and(|dead_at| Instant::now() >= dead_at) {
                    return Err("silent");
                }
                return Ok(false);
            };
            self.pinged_at = None;
            match frame {
                Some(Ok(Message::Text(text))) if is_event(&text) => return Ok(true),
                Some(Ok(Message::Close(_))) | None => return Err("closed"),
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err("broken"),
            }
        }
    }

    /// Pings the plane. If no frame follows, [`WakeUpSocket::notified_before`] reports the socket as silent.
    pub async fn ping(&mut self) -> Result<(), &'static str> {
        let ping = self.socket.send(Message::text(r#"{"type":"ping"}"#));
        match timeout(DEADLINE, ping).await {
            Ok(Ok(())) => {
                self.pinged_at.get_or_insert_with(Instant::now);
                Ok(())
            }
            _ => Err("broken"),
        }
    }
}

/// Only event frames contain this field; pings and confirmations do not.
fn is_event(frame: &str) -> bool {
    frame.contains("\"event_type\"")
}
