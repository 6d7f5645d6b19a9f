//! One session with an agent, without any input or output of its own: what comes in is handed to it, and what is to be
//! written and told is taken from it.
//!
//! `opening` is the way to a session, `turn` what happens in it. An agent can be told something only between prompts, so what is said meanwhile is held, in order, and prompted one by
//! one. **Invariant:** what was begun gets a last receipt. What is held when the session ends gets none: it was never
//! given to the agent, and another run may do so.

mod opening;
mod turn;

use super::host::unknown;
use super::narrator::Narrator;
use super::rpc::{self, Incoming};
use crate::agents::policy::Policy;
use crate::agents::process::Tail;
use crate::agents::{Ask, Say, Tell};
use crate::event::Event;
use domain::message::State;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The version of the protocol that is spoken here.
const PROTOCOL_VERSION: u64 = 1;

/// How long an agent may take until it has a session. Some install themselves first.
const START_PATIENCE: Duration = Duration::from_secs(180);

/// After how long an agent that does not stop its turn is complained about.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a turn may take to end before the agent's input is closed.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long an agent may take to go.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// How a session is to be led.
#[derive(Debug)]
pub struct Terms {
    /// The agent's folder.
    pub cwd: PathBuf,
    /// The session to continue.
    pub resume: Option<String>,
    /// What the agent may do.
    pub policy: Policy,
    /// What it complains about.
    pub stderr: Tail,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    terms: Terms,
    narrator: Narrator,
    lines: Vec<String>,
    calls: HashMap<u64, Call>,
    next_call: u64,
    phase: Phase,
    agent: Agent,
    held: VecDeque<Say>,
    running: Option<Prompt>,
    interrupt: Option<Interrupt>,
    is_working: bool,
    stopping: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Opening { until: Instant },
    Ready,
    Failed { reason: String },
}

/// What the agent says it can do.
#[derive(Debug, Default)]
struct Agent {
    info: Value,
    can_resume: bool,
    can_load: bool,
}

/// A request of ours that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Initialize,
    Resume,
    Load,
    New,
    Prompt,
}

/// What is being worked on.
#[derive(Debug)]
struct Prompt {
    uuid: Uuid,
    since: Instant,
}

/// A turn that is asked to end. Several wishes for it are answered once.
#[derive(Debug)]
struct Interrupt {
    since: Instant,
    complained: bool,
    cancelled: Vec<Uuid>,
}

impl Session {
    /// Begins.
    pub fn new(terms: Terms, narrator: Narrator) -> Self {
        let mut session = Self {
            terms,
            narrator,
            lines: Vec::new(),
            calls: HashMap::new(),
            next_call: 0,
            phase: Phase::Opening { until: Instant::now() + START_PATIENCE },
            agent: Agent::default(),
            held: VecDeque::new(),
            running: None,
            interrupt: None,
            is_working: false,
            stopping: None,
        };
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": { "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true },
            "clientInfo": { "name": "sunaba-worker", "version": env!("CARGO_PKG_VERSION") },
        });
        session.call(Call::Initialize, "initialize", &params);
        session
    }

    /// What is to be written, in order.
    pub fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// What is to be told, in order.
    pub fn tells(&mut self) -> &mut VecDeque<Tell> {
        self.narrator.tells()
    }

    /// Whether it has come to a session with the agent.
    pub fn is_up(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Why it could not come up.
    pub fn failure(&self) -> Option<&str> {
        match &self.phase {
            Phase::Failed { reason } => Some(reason),
            _ => None,
        }
    }

    /// Whether somebody has asked for its end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Whether the agent's input is to be closed.
    pub fn has_nothing_to_write(&self) -> bool {
        self.stopping.is_some_and(|since| self.running.is_none() || since.elapsed() >= STOP_PATIENCE)
    }

    /// Whether it is over, whatever the agent does.
    pub fn is_over(&self) -> bool {
        self.failure().is_some() || self.stopping.is_some_and(|since| since.elapsed() >= LEAVE_PATIENCE)
    }

    /// When [`Session::look_at_the_clock`] has something to do next.
    pub fn deadline(&self) -> Option<Instant> {
        let opening = match self.phase {
            Phase::Opening { until } => Some(until),
            _ => None,
        };
        let interrupt = self.interrupt.as_ref().filter(|interrupt| !interrupt.complained);
        let interrupt = interrupt.map(|interrupt| interrupt.since + CANCEL_PATIENCE);
        let close = self.stopping.filter(|_| !self.has_nothing_to_write()).map(|since| since + STOP_PATIENCE);
        let leave = self.stopping.map(|since| since + LEAVE_PATIENCE);
        [opening, interrupt, close, leave].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if matches!(self.phase, Phase::Opening { until } if until <= now) {
            let seconds = START_PATIENCE.as_secs();
            self.fail(format!("The agent has not come up within {seconds} s."));
        }
        let late =
            self.interrupt.as_mut().filter(|late| !late.complained && late.since + CANCEL_PATIENCE <= now);
        if let Some(late) = late {
            late.complained = true;
            let seconds = CANCEL_PATIENCE.as_secs();
            self.error(&format!("The agent has not stopped its turn within {seconds} s."), "interrupt");
        }
    }

    /// Somebody asks something.
    pub fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::Say(say) => {
                self.held.push_back(say);
                self.go_on();
            }
            Ask::Interrupt { cancel_queued } => {
                let dropped = if cancel_queued { std::mem::take(&mut self.held) } else { VecDeque::new() };
                let cancelled: Vec<Uuid> = dropped.into_iter().map(|say| say.uuid).collect();
                for &uuid in &cancelled {
                    self.receipt(uuid, State::Cancelled);
                }
                self.interrupt(cancelled);
            }
            Ask::Stop => self.stop(),
        }
    }

    /// The agent has sent something.
    pub fn incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Notification { method, mut params } if method == "session/update" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                let is_ours = session.is_empty()
                    || self.narrator.session.is_empty()
                    || session == self.narrator.session;
                match params.get_mut("update").map(Value::take) {
                    Some(update) if is_ours => self.narrator.update(update),
                    Some(update) => {
                        params["update"] = update;
                        self.narrator.unparsed(&params);
                    }
                    None => self.narrator.unparsed(&params),
                }
            }
            Incoming::Notification { method, params } => {
                self.narrator.unparsed(&json!({ "method": method, "params": params }));
            }
            Incoming::Request { id, method, params } => {
                let answer = match method.as_str() {
                    "session/request_permission" => self.permission(&params),
                    _ => Err(unknown(&method)),
                };
                self.lines.push(rpc::response(&id, &answer));
            }
            Incoming::Response { id, answer } => match id.and_then(|id| self.calls.remove(&id)) {
                Some(call) => self.answered(call, answer),
                None => tracing::debug!("An agent has answered a question that nobody asked"),
            },
            Incoming::Unparsed(text) => self.narrator.unparsed(&text.into()),
        }
    }

    /// The agent is gone, or can no longer be heard: nothing more will be answered.
    pub fn end(&mut self, how: &str) {
        self.narrator.settle();
        let Some(prompt) = self.running.take() else { return };
        if self.stopping.is_none() {
            self.error(&format!("The agent ended in the middle of a turn: {how}."), "prompt");
        }
        self.receipt(prompt.uuid, State::Cancelled);
        if let Some(interrupt) = self.interrupt.take() {
            self.narrator.tell(Tell::Interrupted { cancelled: interrupt.cancelled });
        }
    }

    /// Tells what went wrong.
    pub fn error(&mut self, error: &str, phase: &str) {
        let stderr = Some(self.terms.stderr.text()).filter(|text| !text.is_empty());
        let event = Event::agent("agent.error").with("error", error).with("phase", phase);
        self.narrator.event(event.with_some("stderr_tail", stderr));
    }

    fn call(&mut self, call: Call, method: &str, params: &Value) {
        let id = self.next_call;
        self.next_call += 1;
        self.calls.insert(id, call);
        self.lines.push(rpc::request(id, method, params));
    }

    fn receipt(&mut self, uuid: Uuid, state: State) {
        self.narrator.tell(Tell::Receipt { uuid, state });
    }
}
