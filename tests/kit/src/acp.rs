//! A small agent that speaks the Agent Client Protocol and does what a script says.

mod program;

pub use program::with_program;

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};

/// What the agent does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// What it says it can do: `agentCapabilities`.
    pub capabilities: Value,
    /// The updates that a loaded session replays.
    pub history: Vec<Value>,
    /// What it does at each prompt. It has nothing to do at further ones.
    pub turns: VecDeque<Vec<Step>>,
    /// The error that a new session is refused with.
    pub refuses_new: Option<Value>,
    /// The error that a session is refused to be loaded or resumed with.
    pub refuses_old: Option<Value>,
}

/// One thing that it does.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Tells an update of its session.
    Update(Value),
    /// Calls its client, and waits for the answer, which is kept in the record. `sessionId` is filled in.
    Call {
        /// The method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// Writes a line, whatever it is.
    Line(String),
    /// Waits until its client wants the turn to end.
    WaitForCancel,
    /// Waits.
    Sleep {
        /// How long.
        ms: u64,
    },
    /// Writes to its standard error.
    Complain(String),
    /// Ends the turn with this answer.
    Answer(Value),
    /// Ends the turn with this error.
    Refuse(Value),
    /// Goes away in the middle of it all.
    Die,
}

/// All that its client has sent, in order.
pub type Record = Arc<Mutex<Vec<Value>>>;

/// Plays a script until its client closes, or the script says [`Step::Die`] (then `false`).
///
/// # Errors
/// When a stream breaks.
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
                "session/new" => match &self.script.refuses_new {
                    Some(error) => Err(error.clone()),
                    None => Ok(json!({ "sessionId": self.session })),
                },
                method @ ("session/load" | "session/resume") => match self.script.refuses_old.clone() {
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
                },
                "session/prompt" => {
                    self.cancelled = false;
                    match self.play().await? {
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

    /// Plays the next turn: its answer, or nothing if the agent is to die.
    async fn play(&mut self) -> io::Result<Option<Result<Value, Value>>> {
        for step in self.script.turns.pop_front().unwrap_or_default() {
            match step {
                Step::Update(update) => self.update(update).await?,
                Step::Call { method, params } => self.call(&method, params).await?,
                Step::Line(line) => self.send(&line).await?,
                Step::Sleep { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Complain(text) => io::stderr().write_all(text.as_bytes())?,
                Step::Answer(answer) => return Ok(Some(Ok(answer))),
                Step::Refuse(error) => return Ok(Some(Err(error))),
                Step::Die => return Ok(None),
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
        self.record.lock().expect("nobody panics with it").push(message.clone());
        Ok(Some(message))
    }

    async fn send(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes()).await?;
        self.writer.flush().await
    }
}
