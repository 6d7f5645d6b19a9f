//! Agents, and what they have in common: whatever the agent is, it is asked in one way and tells in one way.

pub mod acp;
pub mod claude;
pub mod memory;
pub mod policy;
pub mod process;
pub mod scripted;

use crate::event::Event;
use crate::workspace::diff::Told;
use domain::message::State;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tokio::sync::mpsc;
use uuid::Uuid;

/// An agent that runs. When `asks` is dropped it is stopped.
#[derive(Debug)]
pub struct Running {
    /// What it is asked.
    pub asks: mpsc::Sender<Ask>,
    /// What it tells, in order. The last is [`Tell::Ended`].
    pub tells: mpsc::Receiver<Tell>,
}

/// What an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Read this: now if you can, otherwise when the turn is over.
    Say(Say),
    /// Stop this turn.
    Interrupt {
        /// Forget what you were told and have not begun, too.
        cancel_queued: bool,
    },
    /// Finish and go away. Whoever does not within a few seconds is killed, with all its children.
    Stop,
}

/// Something said to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Say {
    /// Its name: receipts come back under it.
    pub uuid: Uuid,
    /// The text, as the agent reads it.
    pub text: String,
}

/// What an agent tells.
#[derive(Debug)]
pub enum Tell {
    /// It did something.
    Event(Event),
    /// It is writing: the text of a block so far, or more of it. Shown, never stored.
    Partial(Partial),
    /// It has come so far with what it was told (`Delivered`, `Started`, `Completed`, `Cancelled`).
    Receipt {
        /// Which [`Say`].
        uuid: Uuid,
        /// How far.
        state: State,
    },
    /// It has stopped the turn, as it was asked to.
    Interrupted {
        /// What it had been told and will not begin.
        cancelled: Vec<Uuid>,
    },
    /// A tool has ended: files may have changed.
    ToolEnded {
        /// Which.
        tool_use_id: String,
        /// In which turn.
        turn: u64,
        /// Files whose change it has told already.
        edited: Vec<Told>,
    },
    /// What it does takes long, and goes on.
    Progress,
    /// It has written into its own record.
    Recorded,
    /// It runs, as this process.
    Process(u32),
    /// The session that it works in, once it is known.
    Session(String),
    /// It has begun to work, or has nothing left to do.
    Mood(Mood),
    /// A turn is over.
    TurnEnded(Box<TurnEnd>),
    /// It is gone.
    Ended(End),
}

/// Text that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// The message that it is part of.
    pub message_id: String,
    /// The block within the message.
    pub block: u64,
    /// `text` or `thinking`.
    pub kind: &'static str,
    /// Where in the block this begins, in characters.
    pub offset: u64,
    /// What was written.
    pub text: String,
}

/// Whether an agent has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It works on something, or has background tasks that do.
    Working,
    /// It waits to be told something.
    Idle,
}

/// How a turn went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnEnd {
    /// Whether it ended as it should.
    pub success: bool,
    /// Whether somebody stopped it.
    pub interrupted: bool,
    /// Whether a limit ended it: `max_turns` or `budget`.
    pub limit: Option<Cow<'static, str>>,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// The last thing it said.
    pub result: String,
    /// The agent's session.
    pub session: String,
    /// What this turn cost.
    pub cost_usd: f64,
    /// Tokens of this turn.
    pub tokens: Tokens,
    /// How many times it asked its model, since it began.
    pub turns: u64,
    /// What it was told and worked on in this turn.
    pub answered: Vec<Uuid>,
}

/// Tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            output: self.output + other.output,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
        }
    }
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It went by itself, or because it was asked to.
    Left {
        /// Its exit code.
        code: i32,
    },
    /// It was killed.
    Killed {
        /// By which signal.
        signal: i32,
        /// Whether the system did it for want of memory, as far as can be told.
        out_of_memory: bool,
    },
    /// It never came up.
    NotStarted {
        /// Why.
        reason: String,
    },
}
