//! The player: waits for messages, runs turns, and answers control requests at any time.

use super::arguments::PlayArguments;
use super::script::Script;
use super::transcript::{self, History, PendingTool, Totals, Transcript};
use super::turn::Turn;
use super::wire::{self, Input, Output};
use super::{frames, shell::Shell};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

/// How long background tasks may run after stdin was closed.
const BACKGROUND_GRACE: Duration = Duration::from_secs(5);

/// Plays one session.
pub struct Player {
    pub(super) arguments: PlayArguments,
    pub(super) script: Script,
    pub(super) session: String,
    pub(super) transcript: Transcript,
    pub(super) inbox: mpsc::UnboundedReceiver<Input>,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
    pub(super) queue: VecDeque<QueuedMessage>,
    /// Index of the next step.
    pub(super) next: usize,
    pub(super) pending_tool: Option<PendingTool>,
    /// The text of the last user message.
    pub(super) message: String,
    pub(super) mode: String,
    pub(super) totals: Totals,
    pub(super) todos: Value,
    pub(super) turn: Turn,
    pub(super) busy: bool,
    /// Commands of running background tasks, by task id.
    pub(super) background: HashMap<String, String>,
    /// Aborted when the player is dropped.
    pub(super) tasks: JoinSet<()>,
    output: Output,
    /// Ids of all user messages.
    pub(super) received: HashSet<String>,
    pub(super) closed: bool,
    failed: bool,
    resumes_turn: bool,
}

/// A message that starts a turn or is absorbed by the current one.
#[derive(Debug, Clone)]
pub struct QueuedMessage {
    pub uuid: String,
    pub content: Value,
    pub at: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    User,
    /// The end of a background task.
    Task,
}

/// Why the player exits early.
#[derive(Debug)]
pub enum Exit {
    /// Requested by the script.
    Code(i32),
    /// A pipe was closed, or the disk is full.
    Io(io::Error),
}

impl From<io::Error> for Exit {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What an input means for the current operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Continue,
    Stop,
}

impl Player {
    /// Opens a new or existing session.
    pub fn new(
        arguments: PlayArguments,
        script: Script,
        stdin: Box<dyn AsyncBufRead + Send + Unpin>,
        stdout: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> Result<Self, String> {
        let (session, path, history) = open(&arguments)?;
        let transcript = Transcript::open(path, session, &arguments.cwd, &history)
            .map_err(|error| format!("transcript: {error}"))?;
        let (inputs, inbox) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(wire::read(stdin, inputs.clone()));
        Ok(Self {
            resumes_turn: history.turn_is_open && arguments.resume_interrupted_turn,
            mode: arguments.permission_mode.clone(),
            session: session.to_string(),
            next: history.next,
            pending_tool: history.pending_tool,
            message: history.message,
            totals: history.totals,
            received: history.received,
            output: Output(stdout),
            todos: json!([]),
            turn: Turn::default(),
            queue: VecDeque::new(),
            background: HashMap::new(),
            busy: false,
            closed: false,
            failed: false,
            arguments,
            script,
            transcript,
            inbox,
            inputs,
            tasks,
        })
    }

    /// Runs until stdin is closed and all work is done. Returns the exit code.
    pub async fn run(&mut self) -> Result<i32, Exit> {
        if self.resumes_turn {
            self.failed = self.play_turn(None).await?;
        }
        loop {
            if let Some(message) = self.queue.pop_front() {
                self.failed = self.play_turn(Some(message)).await?;
            } else if !self.closed {
                let input = self.inbox.recv().await.expect("the player holds a sender itself");
                self.handle_input(input).await?;
            } else if self.background.is_empty() {
                return Ok(i32::from(self.failed));
            } else {
                match tokio::time::timeout(BACKGROUND_GRACE, self.inbox.recv()).await {
                    Ok(Some(input)) => _ = self.handle_input(input).await?,
                    Ok(None) | Err(_) => self.background.clear(),
                }
            }
        }
    }

    /// Runs `work` while handling inputs. Returns `None` and drops `work` if the turn is interrupted.
    pub(super) async fn run_interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, Exit> {
        let mut work = std::pin::pin!(work);
        loop {
            let input = tokio::select! {
                biased;
                input = self.inbox.recv() => input.expect("the player holds a sender itself"),
                done = &mut work => return Ok(Some(done)),
            };
            if self.handle_input(input).await? == Control::Stop {
                return Ok(None);
            }
        }
    }

    /// Waits, unless the turn is interrupted.
    pub(super) async fn pause(&mut self, milliseconds: u64) -> Result<Control, Exit> {
        let pause = Duration::from_millis(milliseconds).mul_f64(self.arguments.pace);
        let interrupted = if pause.is_zero() {
            self.run_interruptible(tokio::task::yield_now()).await?.is_none()
        } else {
            self.run_interruptible(tokio::time::sleep(pause)).await?.is_none()
        };
        Ok(if interrupted { Control::Stop } else { Control::Continue })
    }

    pub(super) async fn send(&mut self, frame: &Value) -> Result<(), Exit> {
        Ok(self.output.send(frame).await?)
    }

    /// Echoes a message, if enabled.
    pub(super) async fn replay(&mut self, message: &QueuedMessage) -> Result<(), Exit> {
        let frame = frames::replay(self, message);
        if self.arguments.replay_user_messages { self.send(&frame).await } else { Ok(()) }
    }

    /// Prints new transcript entries, if enabled.
    pub(super) async fn mirror(&mut self) -> Result<(), Exit> {
        match self.transcript.mirror() {
            Some(frame) if self.arguments.session_mirror => self.send(&frame).await,
            _ => Ok(()),
        }
    }

    pub(super) fn shell<'a>(arguments: &'a PlayArguments, message: &'a str) -> Shell<'a> {
        Shell { cwd: &arguments.cwd, message, second: arguments.pace }
    }
}

impl QueuedMessage {
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                texts.join("\n")
            }
            _ => String::new(),
        }
    }
}

/// Finds the session, copies it for a fork, and reads its history.
fn open(arguments: &PlayArguments) -> Result<(Uuid, std::path::PathBuf, History), String> {
    let path = |session| transcript::path_of(&arguments.config_dir, &arguments.cwd, session);
    let failed = |error: io::Error| format!("transcript: {error}");
    let Some(old) = arguments.resume else {
        let session = arguments.session.unwrap_or_else(Uuid::new_v4);
        let path = path(session);
        return match path.exists() {
            true => Err(format!("Error: Session ID {session} is already in use.")),
            false => Ok((session, path, History::default())),
        };
    };
    if !path(old).exists() {
        return Err(format!("No conversation found with session ID: {old}"));
    }
    let session = match arguments.fork {
        true => arguments.session.unwrap_or_else(Uuid::new_v4),
        false => old,
    };
    if session != old {
        transcript::copy(&path(old), &path(session), session).map_err(failed)?;
    }
    let history = History::read(&path(session)).map_err(failed)?;
    Ok((session, path(session), history))
}
