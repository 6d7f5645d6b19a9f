//! A socket that only rings: something waits, go and fetch it.

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

/// Where to hang a bell.
#[derive(Clone)]
pub struct Hang {
    /// `http://127.0.0.1:18000`.
    pub plane: String,
    /// The address of its sockets, if they are not at the same place: `wss://sockets.example/live`.
    pub sockets: Option<String>,
    /// Whose messages.
    pub sandbox: SandboxId,
    /// The worker's token.
    pub token: Option<String>,
}

impl fmt::Debug for Hang {
    /// Without the token and the addresses, which may hold one: what is shown ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hang").field("sandbox", &self.sandbox).finish_non_exhaustive()
    }
}

/// Rings when a message is sent to the sandbox. It may ring for nothing and may fail to ring: it is a hint.
#[derive(Debug)]
pub struct Bell {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// When a ping was sent that nothing came after yet.
    pinged_at: Option<Instant>,
}

/// An opening, a write or a pong that takes longer is given up.
const DEADLINE: Duration = Duration::from_secs(10);

impl Bell {
    /// Opens the socket. Once it is open, whatever is sent to the agent rings.
    pub async fn hang(hang: &Hang) -> Result<Self, &'static str> {
        let types = "event_types=SANDBOX_MESSAGE_QUEUED";
        let url = match &hang.sockets {
            // A WebSocket API of AWS has no paths: the query stands for it.
            Some(address) => format!("{address}?sandbox_id={}&{types}", hang.sandbox),
            None => {
                let plane = hang.plane.trim_end_matches('/').replacen("http", "ws", 1);
                format!("{plane}/api/v1/sandbox/{}/ws?{types}", hang.sandbox)
            }
        };
        let mut request = url.into_client_request().map_err(|_| "a wrong address")?;
        if let Some(token) = &hang.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| "a wrong token")?;
            request.headers_mut().insert("authorization", value);
        }
        match timeout(DEADLINE, connect_async(request)).await {
            Ok(Ok((socket, _))) => Ok(Self { socket, pinged_at: None }),
            Ok(Err(Error::Http(_))) => Err("refused"),
            Ok(Err(_)) => Err("unreachable"),
            Err(_) => Err("timeout"),
        }
    }

    /// Waits until it rings (`true`) or the time is over (`false`). An error means that the socket is gone. May be
    /// dropped and called again.
    pub async fn rings_before(&mut self, deadline: Instant) -> Result<bool, &'static str> {
        loop {
            let gone_at = self.pinged_at.map(|at| at + DEADLINE);
            let until = gone_at.map_or(deadline, |gone_at| gone_at.min(deadline));
            let Ok(frame) = timeout_at(until, self.socket.next()).await else {
                if gone_at.is_some_and(|gone_at| Instant::now() >= gone_at) {
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

    /// Asks whether somebody is still there. Whoever does not answer is found gone by [`Bell::rings_before`].
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

/// Pings and answers have no event in them, and nobody else speaks of events on this socket.
fn is_event(frame: &str) -> bool {
    frame.contains("\"event_type\"")
}
