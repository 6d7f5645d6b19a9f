//! Standard streams: input lines, which are read even while the player is busy, and output frames.

use serde_json::Value;
use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

#[derive(Debug)]
pub enum Input {
    Frame(Value),
    /// A line that is not JSON.
    Invalid(String),
    /// Stdin was closed.
    Closed,
    /// A background task has ended.
    TaskEnded {
        task: String,
        code: Option<i32>,
        output: String,
    },
}

pub struct Output(pub Box<dyn AsyncWrite + Send + Unpin>);

impl Output {
    /// Prints one frame and flushes.
    pub async fn send(&mut self, frame: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(frame)?;
        line.push(b'\n');
        self.0.write_all(&line).await?;
        self.0.flush().await
    }
}

/// Reads lines until the end of stdin, or until the receiver is dropped.
pub async fn read(stdin: Box<dyn AsyncBufRead + Send + Unpin>, inputs: mpsc::UnboundedSender<Input>) {
    let mut lines = stdin.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.trim().is_empty() {
            continue;
        }
        let input = match serde_json::from_str(&line) {
            Ok(frame) => Input::Frame(frame),
            Err(_) => Input::Invalid(line),
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
    // Fails only if the player has exited.
    let _ = inputs.send(Input::Closed);
}
