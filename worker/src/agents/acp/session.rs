//! One session with an agent, without any input or output of its own: what comes in is handed to it, and what is to be
//! written and told is taken from it.
//!
//! An agent can be told something only between prompts, so what is said meanwhile is held, in order, and prompted one by
//! one. **Invariant:** what was begun gets a last receipt. What is held when the session ends gets none: it was never
//! given to the agent, and another run may do so.

use super::host::unknown;
use super::narrator::Narrator;
use super::permission;
use crate::agents::policy::{Decision, Policy};
use super::rpc::{self, Incoming};
use super::tools;
use crate::agents::process::Tail;
use crate::agents::{Ask, Mood, Say, Tell, Tokens, TurnEnd};
use crate::event::Event;
use agent_client_protocol_schema::v1::{Error, ErrorCode, ToolCall, ToolCallUpdate};
use domain::message::State;
use serde::Deserialize;
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

    /// It cannot come up.
    fn fail(&mut self, reason: String) {
        self.narrator.is_replay = false;
        self.error(&reason, "initialization");
        self.phase = Phase::Failed { reason };
    }

    fn call(&mut self, call: Call, method: &str, params: &Value) {
        let id = self.next_call;
        self.next_call += 1;
        self.calls.insert(id, call);
        self.lines.push(rpc::request(id, method, params));
    }

    fn answered(&mut self, call: Call, answer: Result<Value, Error>) {
        match (call, answer) {
            (Call::Prompt, answer) => self.prompt_returned(answer),
            (Call::Initialize, Ok(result)) => self.initialized(result),
            (Call::Initialize, Err(error)) => {
                self.fail(format!("It refused to begin: {}.", rpc::describe(&error)));
            }
            (Call::Resume | Call::Load | Call::New, Ok(result)) => self.opened(call, &result),
            (Call::New, Err(error)) => {
                let why = rpc::describe(&error);
                self.fail(if error.code == ErrorCode::AuthRequired {
                    format!("It has to be signed in first: {why}. Give it a key in its environment.")
                } else {
                    format!("It refused to begin a session: {why}.")
                });
            }
            (Call::Resume | Call::Load, Err(error)) => {
                self.narrator.end_replay();
                let why = rpc::describe(&error);
                if call == Call::Resume && self.agent.can_load {
                    self.agent.can_resume = false;
                    self.open();
                } else {
                    self.error(
                        &format!("The session could not be resumed, so a new one begins: {why}."),
                        "resume",
                    );
                    self.open_new();
                }
            }
        }
    }

    fn initialized(&mut self, mut result: Value) {
        let version = result["protocolVersion"].as_u64().unwrap_or(PROTOCOL_VERSION);
        if version != PROTOCOL_VERSION {
            return self.fail(format!("It speaks version {version} of ACP, not {PROTOCOL_VERSION}."));
        }
        let capabilities = &result["agentCapabilities"];
        let resume = &capabilities["sessionCapabilities"]["resume"];
        self.agent.can_resume = resume.is_object() || resume == true;
        self.agent.can_load = capabilities["loadSession"] == true;
        self.agent.info = result.get_mut("agentInfo").map(Value::take).unwrap_or_default();
        self.open();
    }

    fn open(&mut self) {
        let Some(session) = self.terms.resume.clone() else { return self.open_new() };
        let params = json!({ "sessionId": session, "cwd": self.terms.cwd, "mcpServers": [] });
        self.narrator.session = session;
        self.narrator.cost.is_resumed = true;
        if self.agent.can_resume {
            self.call(Call::Resume, "session/resume", &params);
        } else if self.agent.can_load {
            self.narrator.is_replay = true;
            self.call(Call::Load, "session/load", &params);
        } else {
            self.error("This agent cannot resume a session, so a new one begins.", "resume");
            self.open_new();
        }
    }

    fn open_new(&mut self) {
        self.narrator.session.clear();
        self.narrator.cost.is_resumed = false;
        self.call(Call::New, "session/new", &json!({ "cwd": self.terms.cwd, "mcpServers": [] }));
    }

    fn opened(&mut self, call: Call, result: &Value) {
        self.narrator.end_replay();
        if call == Call::New {
            let Some(session) = result["sessionId"].as_str() else {
                return self.fail("It began a session without an id.".to_owned());
            };
            session.clone_into(&mut self.narrator.session);
        }
        self.phase = Phase::Ready;
        let metadata = json!({
            "session_id": self.narrator.session,
            "agent": self.agent.info,
            "cwd": self.terms.cwd,
            "resumed": call != Call::New,
            "modes": result["modes"],
        });
        self.narrator.system("init", metadata);
        if self.held.is_empty() {
            self.narrator.tell(Tell::Mood(Mood::Idle));
        }
        self.go_on();
    }

    /// Prompts what was said first, if the agent is free.
    fn go_on(&mut self) {
        if self.phase != Phase::Ready || self.running.is_some() || self.stopping.is_some() {
            return;
        }
        let Some(Say { uuid, text }) = self.held.pop_front() else {
            if std::mem::take(&mut self.is_working) {
                self.narrator.tell(Tell::Mood(Mood::Idle));
            }
            return;
        };
        self.narrator.begin_turn();
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.narrator.session, "prompt": prompt });
        self.call(Call::Prompt, "session/prompt", &params);
        self.running = Some(Prompt { uuid, since: Instant::now() });
        if !std::mem::replace(&mut self.is_working, true) {
            self.narrator.tell(Tell::Mood(Mood::Working));
        }
        self.receipt(uuid, State::Delivered);
        self.receipt(uuid, State::Started);
    }

    fn interrupt(&mut self, cancelled: Vec<Uuid>) {
        if self.running.is_none() {
            return self.narrator.tell(Tell::Interrupted { cancelled });
        }
        let begun = || Interrupt { since: Instant::now(), complained: false, cancelled: Vec::new() };
        self.interrupt.get_or_insert_with(begun).cancelled.extend(cancelled);
        self.cancel();
    }

    fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Instant::now());
            if self.running.is_some() {
                self.cancel();
            }
        }
    }

    fn cancel(&mut self) {
        self.lines.push(rpc::notification("session/cancel", &json!({ "sessionId": self.narrator.session })));
    }

    /// Permissions are never left open: the policy answers at once, and a turn that is to end gets none.
    fn permission(&mut self, params: &Value) -> Result<Value, Error> {
        let call = match ToolCallUpdate::deserialize(&params["toolCall"]) {
            Ok(update) => self.narrator.asked_about(update),
            Err(_) => ToolCall::new("", params["toolCall"]["title"].as_str().unwrap_or_default()),
        };
        let tool = tools::name(&call);
        let decided = Event::agent("agent.permission_decided")
            .with("tool", tool.as_str())
            .with("tool_use_id", &*call.tool_call_id.0)
            .with("mode", self.terms.policy.mode.as_str());
        if self.interrupt.is_some() || self.stopping.is_some() {
            self.narrator.event(decided.with("decision", "cancelled"));
            return Ok(json!({ "outcome": { "outcome": "cancelled" } }));
        }
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let choice = permission::choose(&self.terms.policy, &tool, &call, options);
        self.narrator.event(match &choice.decision {
            Decision::Allow => decided.with("decision", "allow"),
            Decision::Deny(reason) => decided.with("decision", "deny").with("reason", reason.as_str()),
        });
        match choice.option_id {
            Some(id) => Ok(json!({ "outcome": { "outcome": "selected", "optionId": id } })),
            None => {
                let why = format!("{tool} is not allowed here, and none of the options says so.");
                Err(Error::new(ErrorCode::InvalidParams.into(), why))
            }
        }
    }

    fn prompt_returned(&mut self, answer: Result<Value, Error>) {
        let Some(prompt) = self.running.take() else { return };
        let interrupt = self.interrupt.take();
        let was_asked_to = interrupt.is_some() || self.stopping.is_some();
        let (stop_reason, usage, error) = match answer {
            Ok(mut result) => {
                let reason = result["stopReason"].as_str().unwrap_or("unknown").to_owned();
                (reason, result.get_mut("usage").map(Value::take).unwrap_or_default(), None)
            }
            // The agent should say that it was cancelled, but what it was doing may fail of it.
            Err(_) if was_asked_to => ("cancelled".to_owned(), Value::Null, None),
            Err(error) => ("error".to_owned(), Value::Null, Some(rpc::describe(&error))),
        };
        let was_cancelled = stop_reason == "cancelled";
        let (final_output, result) = self.narrator.end_turn(was_cancelled);
        if let Some(error) = &error {
            self.error(error, "prompt");
        }
        let (cost_usd, total_cost_usd) = self.narrator.cost.usd();
        let turn = TurnEnd {
            success: stop_reason == "end_turn",
            interrupted: was_cancelled,
            limit: (stop_reason == "max_turn_requests").then_some("max_turns"),
            error: error.or_else(|| reason_in_words(&stop_reason)),
            result,
            session: self.narrator.session.clone(),
            cost_usd,
            tokens: tokens(&usage),
            turns: self.narrator.turn,
            answered: vec![prompt.uuid],
        };
        let duration = u64::try_from(prompt.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event::agent("agent.turn_completed")
            .with("success", turn.success)
            .with("stop_reason", stop_reason)
            .with_some("error", turn.error.clone())
            .with("turns", turn.turns)
            .with("cost_usd", cost_usd)
            .with("total_cost_usd", total_cost_usd)
            .with("input_tokens", turn.tokens.input)
            .with("output_tokens", turn.tokens.output)
            .with("cache_read_tokens", turn.tokens.cache_read)
            .with("cache_write_tokens", turn.tokens.cache_write)
            .with_some("context", self.narrator.cost.context())
            .with("session_id", turn.session.as_str())
            .with("final_output", final_output)
            .with("duration_ms", duration);
        self.narrator.event(event);
        self.receipt(prompt.uuid, if was_cancelled { State::Cancelled } else { State::Completed });
        self.narrator.tell(Tell::TurnEnded(Box::new(turn)));
        if let Some(interrupt) = interrupt {
            self.narrator.tell(Tell::Interrupted { cancelled: interrupt.cancelled });
        }
        self.go_on();
    }

    fn receipt(&mut self, uuid: Uuid, state: State) {
        self.narrator.tell(Tell::Receipt { uuid, state });
    }
}

fn reason_in_words(stop_reason: &str) -> Option<String> {
    let words = match stop_reason {
        "end_turn" | "cancelled" => return None,
        "max_tokens" => "The model has reached its limit of tokens.",
        "max_turn_requests" => "The agent has asked its model as often as it may in one turn.",
        "refusal" => "The agent refuses to go on.",
        other => return Some(format!("The turn has ended for a reason that is not known here: {other}.")),
    };
    Some(words.to_owned())
}

/// Of this turn. An extension that many agents send.
fn tokens(usage: &Value) -> Tokens {
    let count = |field: &str| usage[field].as_u64().unwrap_or_default();
    Tokens {
        input: count("inputTokens"),
        output: count("outputTokens"),
        cache_read: count("cachedReadTokens"),
        cache_write: count("cachedWriteTokens"),
    }
}
