//! The protocol of one session, without I/O: the caller feeds in what the agent sends and takes out lines and outputs.
//!
//! `opening` establishes the session, `turn` runs prompts. An agent accepts a prompt only when it is idle, so messages
//! are queued and prompted one by one. **Invariant:** a started message gets a final receipt. A message that is still
//! queued when the session ends gets none: the agent never received it, and another run may deliver it.

mod opening;
mod turn;

use super::host::method_not_found;
use super::normalizer::Normalizer;
use super::rpc::{self, Incoming};
use crate::agents::policy::Policy;
use crate::agents::process::StderrTail;
use crate::agents::{AgentCommand, AgentOutput, UserMessage};
use crate::event::Event;
use contract::payloads::AgentError;
use domain::message::State;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The supported protocol version.
const PROTOCOL_VERSION: u64 = 1;

/// How long an agent may take to open a session. Some install themselves first.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(180);

/// After how long an error is emitted for an agent that ignores an interrupt.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// On shutdown, how long the current turn may take to end before the agent's input is closed.
const STOP_TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an agent may take to shut down before it is killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct SessionOptions {
    pub cwd: PathBuf,
    /// The session to resume.
    pub resume: Option<String>,
    /// `_meta` of the requests that open a session.
    pub meta: Option<Value>,
    pub policy: Policy,
    pub stderr: StderrTail,
}

#[derive(Debug)]
pub struct Session {
    options: SessionOptions,
    normalizer: Normalizer,
    lines: Vec<String>,
    calls: HashMap<u64, Call>,
    next_call: u64,
    phase: Phase,
    agent: Agent,
    queued: VecDeque<UserMessage>,
    running: Option<Prompt>,
    interrupt: Option<Interrupt>,
    is_working: bool,
    stopping_since: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Opening { deadline: Instant },
    Ready,
    Failed { reason: String },
}

/// Capabilities that the agent declared.
#[derive(Debug, Default)]
struct Agent {
    info: Value,
    can_resume: bool,
    can_load: bool,
}

/// One of our requests that has no response yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Initialize,
    Resume,
    Load,
    New,
    Prompt,
}

/// The running prompt.
#[derive(Debug)]
struct Prompt {
    uuid: Uuid,
    started_at: Instant,
}

/// A pending interrupt. Several interrupts of one turn are acknowledged once.
#[derive(Debug)]
struct Interrupt {
    requested_at: Instant,
    reported: bool,
    cancelled: Vec<Uuid>,
}

impl Session {
    /// Queues the `initialize` request.
    pub fn new(options: SessionOptions, normalizer: Normalizer) -> Self {
        let mut session = Self {
            options,
            normalizer,
            lines: Vec::new(),
            calls: HashMap::new(),
            next_call: 0,
            phase: Phase::Opening { deadline: Instant::now() + STARTUP_TIMEOUT },
            agent: Agent::default(),
            queued: VecDeque::new(),
            running: None,
            interrupt: None,
            is_working: false,
            stopping_since: None,
        };
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": { "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true },
            "clientInfo": { "name": "sunaba-worker", "version": env!("CARGO_PKG_VERSION") },
        });
        session.call(Call::Initialize, "initialize", &params);
        session
    }

    /// Takes the lines to write to the agent.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Pending outputs, in order.
    pub fn outputs(&mut self) -> &mut VecDeque<AgentOutput> {
        self.normalizer.outputs()
    }

    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Why no session could be opened.
    pub fn failure(&self) -> Option<&str> {
        match &self.phase {
            Phase::Failed { reason } => Some(reason),
            _ => None,
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping_since.is_some()
    }

    pub fn should_close_input(&self) -> bool {
        self.stopping_since
            .is_some_and(|since| self.running.is_none() || since.elapsed() >= STOP_TURN_TIMEOUT)
    }

    /// Whether to stop waiting for the agent.
    pub fn is_finished(&self) -> bool {
        self.failure().is_some() || self.stopping_since.is_some_and(|since| since.elapsed() >= SHUTDOWN_GRACE)
    }

    /// When [`Session::handle_deadline`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        let opening = match self.phase {
            Phase::Opening { deadline } => Some(deadline),
            _ => None,
        };
        let interrupt = self.interrupt.as_ref().filter(|interrupt| !interrupt.reported);
        let interrupt = interrupt.map(|interrupt| interrupt.requested_at + INTERRUPT_TIMEOUT);
        let close =
            self.stopping_since.filter(|_| !self.should_close_input()).map(|since| since + STOP_TURN_TIMEOUT);
        let shutdown = self.stopping_since.map(|since| since + SHUTDOWN_GRACE);
        [opening, interrupt, close, shutdown].into_iter().flatten().min()
    }

    pub fn handle_deadline(&mut self) {
        let now = Instant::now();
        if matches!(self.phase, Phase::Opening { deadline } if deadline <= now) {
            let seconds = STARTUP_TIMEOUT.as_secs();
            self.fail(format!("The agent did not open a session within {seconds} s."));
        }
        let overdue = self
            .interrupt
            .as_mut()
            .filter(|interrupt| !interrupt.reported && interrupt.requested_at + INTERRUPT_TIMEOUT <= now);
        if let Some(interrupt) = overdue {
            interrupt.reported = true;
            let seconds = INTERRUPT_TIMEOUT.as_secs();
            self.error(&format!("The agent did not stop its turn within {seconds} s."), "interrupt");
        }
    }

    pub fn handle_command(&mut self, command: AgentCommand) {
        match command {
            AgentCommand::Message(message) => {
                self.queued.push_back(message);
                self.prompt_next();
            }
            AgentCommand::Interrupt { cancel_queued } => {
                let dropped = if cancel_queued { std::mem::take(&mut self.queued) } else { VecDeque::new() };
                let cancelled: Vec<Uuid> = dropped.into_iter().map(|message| message.uuid).collect();
                for &uuid in &cancelled {
                    self.receipt(uuid, State::Cancelled);
                }
                self.interrupt(cancelled);
            }
            AgentCommand::Stop => self.stop(),
        }
    }

    /// Handles a message from the agent.
    pub fn receive(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Notification { method, mut params } if method == "session/update" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                let is_this_session = session.is_empty()
                    || self.normalizer.session.is_empty()
                    || session == self.normalizer.session;
                match params.get_mut("update").map(Value::take) {
                    Some(update) if is_this_session => self.normalizer.update(update),
                    Some(update) => {
                        params["update"] = update;
                        self.normalizer.emit_unparsed(&params);
                    }
                    None => self.normalizer.emit_unparsed(&params),
                }
            }
            Incoming::Notification { method, params } => {
                self.normalizer.emit_unparsed(&json!({ "method": method, "params": params }));
            }
            Incoming::Request { id, method, params } => {
                let result = match method.as_str() {
                    "session/request_permission" => self.permission(&params),
                    _ => Err(method_not_found(&method)),
                };
                self.lines.push(rpc::response(&id, &result));
            }
            Incoming::Response { id, result } => match id.and_then(|id| self.calls.remove(&id)) {
                Some(call) => self.handle_response(call, result),
                None => tracing::debug!("Ignored a response with an unknown request id"),
            },
            Incoming::Unparsed(text) => self.normalizer.emit_unparsed(&text.into()),
        }
    }

    /// The agent has exited or closed its output, so no response will follow.
    pub fn end(&mut self, exit: &str) {
        self.normalizer.flush();
        let Some(prompt) = self.running.take() else { return };
        if self.stopping_since.is_none() {
            self.error(&format!("The agent exited during a turn: {exit}."), "prompt");
        }
        self.receipt(prompt.uuid, State::Cancelled);
        if let Some(interrupt) = self.interrupt.take() {
            self.normalizer.emit(AgentOutput::Interrupted { cancelled: interrupt.cancelled });
        }
    }

    /// Emits `agent.error`.
    pub fn error(&mut self, error: &str, phase: &str) {
        let stderr = Some(self.options.stderr.text()).filter(|text| !text.is_empty());
        self.normalizer.emit_event(Event::agent(AgentError {
            error: error.to_owned(),
            phase: phase.to_owned(),
            turn: Some(self.normalizer.turn),
            stderr_tail: stderr,
        }));
    }

    fn call(&mut self, call: Call, method: &str, params: &Value) {
        let id = self.next_call;
        self.next_call += 1;
        self.calls.insert(id, call);
        self.lines.push(rpc::request(id, method, params));
    }

    fn receipt(&mut self, uuid: Uuid, state: State) {
        self.normalizer.emit(AgentOutput::Receipt { uuid, state });
    }
}
