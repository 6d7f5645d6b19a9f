//! The pipes: lines in, which are read even while the player is busy, and frames out.

use serde_json::Value;
use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// What reaches a player while it plays.
#[derive(Debug)]
pub enum Input {
    /// A frame.
    Frame(Value),
    /// A line that is no frame.
    Garbage(String),
    /// Nothing will follow.
    Closed,
    /// A background task has ended.
    TaskEnded {
        /// Which.
        task: String,
        /// Its exit code.
        code: Option<i32>,
        /// What it printed.
        output: String,
    },
}

/// The way out.
pub struct Output(pub Box<dyn AsyncWrite + Send + Unpin>);

impl Output {
    /// Prints one frame, now.
    pub async fn send(&mut self, frame: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(frame)?;
        line.push(b'\n');
        self.0.write_all(&line).await?;
        self.0.flush().await
    }
}

/// Reads lines until there are no more, or nobody wants them.
pub async fn read(stdin: Box<dyn AsyncBufRead + Send + Unpin>, inputs: mpsc::UnboundedSender<Input>) {
    let mut lines = stdin.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.trim().is_empty() {
            continue;
        }
        let input = match serde_json::from_str(&line) {
            Ok(frame) => Input::Frame(frame),
            Err(_) => Input::Garbage(line),
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
    // Whoever has gone does not need to be told.
    let _ = inputs.send(Input::Closed);
}
