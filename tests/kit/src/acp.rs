//! A scripted agent that speaks the Agent Client Protocol.

mod program;

pub use program::with_program;

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};

/// The behaviour of the agent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// `agentCapabilities` of the initialize response.
    pub capabilities: Value,
    /// Updates that are replayed when a session is loaded.
    pub history: Vec<Value>,
    /// Steps for each prompt. Further prompts end immediately.
    pub turns: VecDeque<Vec<Step>>,
    /// If set, `session/new` fails with this error.
    pub new_session_error: Option<Value>,
    /// If set, `session/load` and `session/resume` fail with this error.
    pub load_session_error: Option<Value>,
}

/// One step of a turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Sends a `session/update`.
    Update(Value),
    /// Calls the client and waits for the response, which is kept in the record. `sessionId` is filled in.
    Call {
        method: String,
        params: Value,
    },
    /// Writes a line that need not be valid.
    Line(String),
    /// Waits until the client cancels the turn.
    WaitForCancel,
    Sleep {
        ms: u64,
    },
    /// Writes to standard error.
    Stderr(String),
    /// Ends the turn with this result.
    Answer(Value),
    /// Ends the turn with this error.
    Fail(Value),
    /// Exits during the turn.
    Crash,
}

/// All messages from the client, in order.
pub type Record = Arc<Mutex<Vec<Value>>>;

/// Runs a script until the client closes the connection (`true`) or a step crashes the agent (`false`).
///
/// # Errors
/// If a stream fails.
pub async fn serve(
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    script: Script,
    record: Record,
) -> io::Result<bool> {
    let lines = BufReader::new(reader).lines();
    Server { lines, writer, script, record, session: "session-1".to_owned(), calls: 0, cancelled: false }
        .run()
        .await
}

struct Server<R, W> {
    lines: Lines<BufReader<R>>,
    writer: W,
    script: Script,
    record: Record,
    session: String,
    calls: u64,
    cancelled: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Server<R, W> {
    async fn run(mut self) -> io::Result<bool> {
        while let Some(message) = self.next().await? {
            let answer = match message["method"].as_str().unwrap_or_default() {
                "initialize" => Ok(json!({
                    "protocolVersion": 1,
                    "agentCapabilities": self.script.capabilities,
                    "agentInfo": { "name": "kit", "version": "1" },
                    "authMethods": [],
                })),
                "session/new" => match &self.script.new_session_error {
                    Some(error) => Err(error.clone()),
                    None => Ok(json!({ "sessionId": self.session })),
                },
                method @ ("session/load" | "session/resume") => {
                    match self.script.load_session_error.clone() {
                        Some(error) => Err(error),
                        None => {
                            message["params"]["sessionId"]
                                .as_str()
                                .unwrap_or_default()
                                .clone_into(&mut self.session);
                            if method == "session/load" {
                                for update in self.script.history.clone() {
                                    self.update(update).await?;
                                }
                            }
                            Ok(json!({}))
                        }
                    }
                }
                "session/prompt" => {
                    self.cancelled = false;
                    match self.run_turn().await? {
                        Some(answer) => answer,
                        None => return Ok(false),
                    }
                }
                _ => continue,
            };
            let answer = match answer {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
                Err(error) => json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
            };
            self.send(&answer.to_string()).await?;
        }
        Ok(true)
    }

    /// Runs the next turn. Returns its response, or `None` if the agent crashes.
    async fn run_turn(&mut self) -> io::Result<Option<Result<Value, Value>>> {
        for step in self.script.turns.pop_front().unwrap_or_default() {
            match step {
                Step::Update(update) => self.update(update).await?,
                Step::Call { method, params } => self.call(&method, params).await?,
                Step::Line(line) => self.send(&line).await?,
                Step::Sleep { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Stderr(text) => io::stderr().write_all(text.as_bytes())?,
                Step::Answer(answer) => return Ok(Some(Ok(answer))),
                Step::Fail(error) => return Ok(Some(Err(error))),
                Step::Crash => return Ok(None),
                Step::WaitForCancel => {
                    while !self.cancelled {
                        if self.next().await?.is_none() {
                            return Ok(None);
                        }
                    }
                }
            }
        }
        let reason = if self.cancelled { "cancelled" } else { "end_turn" };
        Ok(Some(Ok(json!({ "stopReason": reason }))))
    }

    async fn update(&mut self, update: Value) -> io::Result<()> {
        let params = json!({ "sessionId": self.session, "update": update });
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string())
            .await
    }

    async fn call(&mut self, method: &str, mut params: Value) -> io::Result<()> {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        params["sessionId"] = self.session.clone().into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
            .await?;
        while let Some(message) = self.next().await? {
            if message["id"] == id && message.get("method").is_none() {
                break;
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> io::Result<Option<Value>> {
        let Some(line) = self.lines.next_line().await? else { return Ok(None) };
        let message: Value = serde_json::from_str(&line)?;
        self.cancelled |= message["method"] == "session/cancel";
        self.record.lock().expect("no code panics while holding the lock").push(message.clone());
        Ok(Some(message))
    }

    async fn send(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes()).await?;
        self.writer.flush().await
    }
}
