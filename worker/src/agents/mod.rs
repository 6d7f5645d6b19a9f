//! Agent adapters. Every agent is driven with the same commands and reports the same outputs.
//!
//! An agent is a folder here, and a line in [`AGENTS`]. Other programs add their own to the list.

pub mod acp;
pub mod claude;
mod instructions;
mod kind;
pub mod memory;
pub mod policy;
pub mod process;

pub use kind::{
    Agent, AgentKind, KeyForm, Launch, PROGRAM_COMMAND, ProgramFuture, Recovered, Service, Sessions, find,
    find_program, names,
};

use crate::event::Event;
use crate::workspace::diff::EmittedChange;
use contract::payloads::TokenCounts;
use domain::message::State;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// The agents of the worker. The first is the default.
pub const AGENTS: &[&AgentKind] = &[&claude::CLAUDE, &acp::OPENHANDS, &acp::ACP];

/// A running agent. Dropping `commands` stops it.
#[derive(Debug)]
pub struct AgentHandle {
    pub commands: mpsc::Sender<AgentCommand>,
    /// In order. The last one is [`AgentOutput::Exited`].
    pub outputs: mpsc::Receiver<AgentOutput>,
    /// Drives the agent until it has exited. If it panics, `outputs` ends without an exit.
    pub driver: JoinHandle<()>,
}

impl AgentHandle {
    /// The next output. If the driver has failed, the exit of the agent, once.
    pub async fn next(&mut self) -> AgentOutput {
        if let Some(output) = self.outputs.recv().await {
            return output;
        }
        let reason = match (&mut self.driver).await {
            Ok(()) => "the agent driver ended without an exit of the agent".to_owned(),
            Err(why) => format!("the agent driver failed: {why}"),
        };
        AgentOutput::Exited(ExitReason::NotStarted { reason })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentCommand {
    /// Delivered during the current turn if the agent supports it, otherwise after it.
    Message(UserMessage),
    /// Stops the current turn.
    Interrupt {
        /// Also drops messages whose turn has not started.
        cancel_queued: bool,
    },
    /// Shuts the agent down. After a grace period its process group is killed.
    Stop,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMessage {
    /// Receipts refer to the message by this id.
    pub uuid: Uuid,
    pub text: String,
}

#[derive(Debug)]
pub enum AgentOutput {
    Event(Event),
    /// Text that is still being streamed. Displayed, never stored.
    Partial(Partial),
    /// Delivery progress of a [`UserMessage`]: `Delivered`, `Started`, `Completed` or `Cancelled`.
    Receipt {
        uuid: Uuid,
        state: State,
    },
    /// The turn was stopped by [`AgentCommand::Interrupt`].
    Interrupted {
        /// Queued messages that were dropped.
        cancelled: Vec<Uuid>,
    },
    /// A tool has finished, so files may have changed.
    ToolEnded {
        tool_use_id: String,
        turn: u64,
        /// Files whose change was already emitted as an event.
        edited: Vec<EmittedChange>,
    },
    /// A long-running tool is still working.
    Progress,
    /// The agent appended to its own transcript.
    TranscriptWritten,
    /// The process id.
    Process(u32),
    /// The session id, as soon as it is known.
    Session(String),
    Activity(AgentActivity),
    TurnEnded(Box<TurnEnd>),
    Exited(ExitReason),
}

/// A piece of streamed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    pub message_id: String,
    /// Index of the block within the message.
    pub block: u64,
    /// `text` or `thinking`.
    pub kind: &'static str,
    /// Position in the block, in characters.
    pub offset: u64,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentActivity {
    /// A turn is running, or background tasks are.
    Working,
    /// Waiting for a message.
    Idle,
}

/// The state of the last turn of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LastTurn {
    /// The session has no turn.
    #[default]
    None,
    InProgress,
    Interrupted,
    Completed,
    /// The model API returned an error.
    Failed,
}

/// The result of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnEnd {
    pub success: bool,
    pub interrupted: bool,
    /// The limit that ended the turn: `max_turns` or `budget`.
    pub limit: Option<Cow<'static, str>>,
    pub error: Option<String>,
    /// The agent's last text.
    pub result: String,
    pub session: String,
    /// Cost of this turn only.
    pub cost_usd: f64,
    /// Tokens of this turn only.
    pub tokens: Tokens,
    /// Number of model responses since the agent started.
    pub turns: u64,
    /// Messages that were handled in this turn.
    pub answered: Vec<Uuid>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Tokens {
    pub fn counts(self) -> TokenCounts {
        TokenCounts {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
        }
    }

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

/// Why an agent's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    Exited {
        code: i32,
    },
    Killed {
        signal: i32,
        /// Whether it was the OOM killer, judged by the control group's counter.
        out_of_memory: bool,
    },
    NotStarted {
        reason: String,
    },
}
