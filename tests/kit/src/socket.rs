//! A client's end of a socket.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// A client's end of a socket.
#[derive(Debug)]
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// Whatever takes longer does not come.
const SOON: Duration = Duration::from_secs(60);

impl Socket {
    /// Opens one, or tells the status with which it was refused.
    pub async fn open(url: &str) -> Result<Self, u16> {
        match connect_async(url).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{url}: {error}"),
        }
    }

    /// Sends a frame.
    pub async fn say(&mut self, frame: Value) {
        self.say_text(&frame.to_string()).await;
    }

    /// Sends any text.
    pub async fn say_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.expect("the socket is open");
    }

    /// The next frame.
    pub async fn hear(&mut self) -> Value {
        self.try_hear().await.expect("the socket is open")
    }

    /// The next frame, or `None` when the socket is closed.
    pub async fn try_hear(&mut self) -> Option<Value> {
        timeout(SOON, self.next()).await.expect("a frame within 10 s")
    }

    /// The next frame, however long it takes, or `None` when the socket is closed.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => {
                    return Some(serde_json::from_str(&text).expect("frames are JSON"));
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Everything that is heard until the answer to a ping: whatever was told before the ping was said.
    pub async fn hear_until_pong(&mut self) -> Vec<Value> {
        self.say(json!({"type": "ping"})).await;
        let mut heard = Vec::new();
        loop {
            match self.hear().await {
                pong if pong["type"] == "pong" => return heard,
                frame => heard.push(frame),
            }
        }
    }
}
