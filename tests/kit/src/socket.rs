//! A WebSocket client.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

#[derive(Debug)]
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

const TIMEOUT: Duration = Duration::from_secs(60);

impl Socket {
    /// Opens a socket. Returns the HTTP status if the handshake is rejected.
    pub async fn open(url: &str) -> Result<Self, u16> {
        match connect_async(url).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{url}: {error}"),
        }
    }

    /// Sends a JSON frame.
    pub async fn send(&mut self, frame: Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends text that need not be valid JSON.
    pub async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the socket is open");
    }

    /// The next frame.
    pub async fn receive(&mut self) -> Value {
        self.try_receive().await.expect("the socket is open")
    }

    /// The next frame, or `None` when the socket is closed.
    pub async fn try_receive(&mut self) -> Option<Value> {
        timeout(TIMEOUT, self.next()).await.expect("a frame before the timeout")
    }

    /// The next frame without a timeout, or `None` when the socket is closed.
    pub async fn next(&mut self) -> Option<Value> {
        let text = self.next_text().await?;
        Some(serde_json::from_str(&text).expect("frames are JSON"))
    }

    /// The text of the next frame, for tests of its bytes.
    pub async fn receive_text(&mut self) -> String {
        let next = timeout(TIMEOUT, self.next_text()).await;
        next.expect("a frame before the timeout").expect("the socket is open")
    }

    async fn next_text(&mut self) -> Option<String> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(text.as_str().to_owned()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// All frames until the answer to a ping, which are those that were sent before the ping.
    pub async fn receive_until_pong(&mut self) -> Vec<Value> {
        self.send(json!({"type": "ping"})).await;
        let mut frames = Vec::new();
        loop {
            match self.receive().await {
                pong if pong["type"] == "pong" => return frames,
                frame => frames.push(frame),
            }
        }
    }
}
