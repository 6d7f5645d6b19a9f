//! The player: waits for what is said, begins turns, and answers requests at any time.

use super::arguments::PlayArguments;
use super::script::Script;
use super::transcript::{self, Past, Totals, Transcript, Unanswered};
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

/// What background tasks have to end by themselves when nobody talks to the player any more.
const GRACE: Duration = Duration::from_secs(5);

/// One session that is played.
pub struct Player {
    pub(super) arguments: PlayArguments,
    pub(super) script: Script,
    pub(super) session: String,
    pub(super) transcript: Transcript,
    pub(super) inbox: mpsc::UnboundedReceiver<Input>,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
    pub(super) queue: VecDeque<Said>,
    /// The step that comes next.
    pub(super) next: usize,
    pub(super) unanswered: Option<Unanswered>,
    /// What the user said last.
    pub(super) message: String,
    pub(super) mode: String,
    pub(super) totals: Totals,
    pub(super) todos: Value,
    pub(super) turn: Turn,
    pub(super) busy: bool,
    /// Background tasks that have not ended, with what they do.
    pub(super) background: HashMap<String, String>,
    /// Whatever runs beside the player ends with it.
    pub(super) beside: JoinSet<()>,
    output: Output,
    pub(super) heard: HashSet<String>,
    pub(super) closed: bool,
    failed: bool,
    continues: bool,
}

/// Something that was said, or that happened, and has not been read.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its name.
    pub uuid: String,
    /// As it was said.
    pub content: Value,
    /// When.
    pub at: String,
    /// Who.
    pub by: By,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The user.
    User,
    /// A background task that has ended.
    Task,
}

/// Why a player stops before its time.
#[derive(Debug)]
pub enum Leave {
    /// The script says so.
    With(i32),
    /// Nobody reads, or the disk is full.
    Broken(io::Error),
}

impl From<io::Error> for Leave {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// What an input means for what is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    GoOn,
    /// Stop it.
    Stop,
}

impl Player {
    /// Opens the session, new or old.
    pub fn new(
        arguments: PlayArguments,
        script: Script,
        stdin: Box<dyn AsyncBufRead + Send + Unpin>,
        stdout: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> Result<Self, String> {
        let (session, path, past) = open(&arguments)?;
        let transcript = Transcript::open(path, session, &arguments.cwd, &past)
            .map_err(|error| format!("transcript: {error}"))?;
        let (inputs, inbox) = mpsc::unbounded_channel();
        let mut beside = JoinSet::new();
        beside.spawn(wire::read(stdin, inputs.clone()));
        Ok(Self {
            continues: past.open && arguments.resume_interrupted_turn,
            mode: arguments.permission_mode.clone(),
            session: session.to_string(),
            next: past.next,
            unanswered: past.unanswered,
            message: past.message,
            totals: past.totals,
            heard: past.heard,
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
            beside,
        })
    }

    /// Plays until nobody talks to it any more.
    pub async fn run(&mut self) -> Result<i32, Leave> {
        if self.continues {
            self.failed = self.play_turn(None).await?;
        }
        loop {
            if let Some(said) = self.queue.pop_front() {
                self.failed = self.play_turn(Some(said)).await?;
            } else if !self.closed {
                let input = self.inbox.recv().await.expect("the player holds a sender itself");
                self.take(input).await?;
            } else if self.background.is_empty() {
                return Ok(i32::from(self.failed));
            } else {
                match tokio::time::timeout(GRACE, self.inbox.recv()).await {
                    Ok(Some(input)) => _ = self.take(input).await?,
                    Ok(None) | Err(_) => self.background.clear(),
                }
            }
        }
    }

    /// Does something, and listens meanwhile. Nothing if it was stopped, which also drops it.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<Option<T>, Leave> {
        let mut work = std::pin::pin!(work);
        loop {
            let input = tokio::select! {
                biased;
                input = self.inbox.recv() => input.expect("the player holds a sender itself"),
                done = &mut work => return Ok(Some(done)),
            };
            if self.take(input).await? == Heard::Stop {
                return Ok(None);
            }
        }
    }

    /// Does nothing for a while. Whether it may go on.
    pub(super) async fn pause(&mut self, milliseconds: u64) -> Result<Heard, Leave> {
        let pause = Duration::from_millis(milliseconds).mul_f64(self.arguments.pace);
        let stopped = if pause.is_zero() {
            self.during(tokio::task::yield_now()).await?.is_none()
        } else {
            self.during(tokio::time::sleep(pause)).await?.is_none()
        };
        Ok(if stopped { Heard::Stop } else { Heard::GoOn })
    }

    /// Prints a frame.
    pub(super) async fn send(&mut self, frame: &Value) -> Result<(), Leave> {
        Ok(self.output.send(frame).await?)
    }

    /// Says back what was said, if that is wanted.
    pub(super) async fn replay(&mut self, said: &Said) -> Result<(), Leave> {
        let frame = frames::replay(self, said);
        if self.arguments.replay_user_messages { self.send(&frame).await } else { Ok(()) }
    }

    /// Prints the entries that were written, if that is wanted.
    pub(super) async fn mirror(&mut self) -> Result<(), Leave> {
        match self.transcript.mirror() {
            Some(frame) if self.arguments.session_mirror => self.send(&frame).await,
            _ => Ok(()),
        }
    }

    /// What commands are started with.
    pub(super) fn shell<'a>(arguments: &'a PlayArguments, message: &'a str) -> Shell<'a> {
        Shell { cwd: &arguments.cwd, message, second: arguments.pace }
    }
}

impl Said {
    /// The text of it.
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

/// Finds the session, copies it for a fork, and reads what it was.
fn open(arguments: &PlayArguments) -> Result<(Uuid, std::path::PathBuf, Past), String> {
    let path = |session| transcript::path_of(&arguments.config_dir, &arguments.cwd, session);
    let failed = |error: io::Error| format!("transcript: {error}");
    let Some(old) = arguments.resume else {
        let session = arguments.session.unwrap_or_else(Uuid::new_v4);
        let path = path(session);
        return match path.exists() {
            true => Err(format!("Error: Session ID {session} is already in use.")),
            false => Ok((session, path, Past::default())),
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
    let past = Past::read(&path(session)).map_err(failed)?;
    Ok((session, path(session), past))
}
