//! Claude Code, driven over its stream-json lines on standard input and output, without a library in between.
//!
//! Surprises of the CLI (2.1.325) that are handled here:
//! - `system/init` is sent with every turn. Cost is cumulative, also across a resume (`normalizer`).
//! - `command_lifecycle` reports the delivery progress of our messages. Their echo lags far behind, so it is used only
//!   for versions without a lifecycle.
//! - Our own responses are echoed, so a response to an unknown request is ignored.
//! - The exit code is 1 after a failed turn, so it does not indicate a crash.
//! - A finished background task starts a turn by itself: the agent is idle when no task is left, not at a `result`.

mod activity;
mod agent;
pub mod frame;
#[cfg(test)]
mod golden;
mod input;
pub mod normalizer;
pub mod recovery;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod tool;

pub use agent::{CLAUDE, Conversation};
use settings::{Session, Settings};

use crate::agents::policy::{Decision, Policy};
use crate::agents::process::{Pipes, Process, ProcessSpec, StderrTail};
use crate::agents::{AgentActivity, AgentCommand, AgentHandle, AgentOutput, ExitReason, UserMessage};
use crate::clock::at;
use crate::event::Event;
use crate::tasks::joined;
use activity::ActivityTracker;
use contract::payloads::AgentPermissionDecided;
use domain::message::State;
use frame::{Frame, Request, Response, TurnResult};
use normalizer::Normalizer;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How long the CLI may take to exit before it is killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How long the CLI may take to respond to `initialize`.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(90);
/// Capacity of the output channel. The CLI blocks when it is full, so its receiver must never wait for the network.
const OUTPUT_CAPACITY: usize = 256;

/// Starts the CLI. `normalizer` holds the state recovered from an earlier run of the worker.
fn start(settings: &Settings, normalizer: Normalizer) -> AgentHandle {
    let (command_sender, commands) = mpsc::channel(64);
    let (outputs, output_receiver) = mpsc::channel(OUTPUT_CAPACITY);
    let program = settings.command.first().cloned().unwrap_or_default();
    let spec = ProcessSpec {
        launcher: settings.launcher.with_program(program.as_ref(), &settings.cwd),
        program: program.clone().into(),
        arguments: settings.arguments().into_iter().map(Into::into).collect(),
        env: settings.environment(),
        cwd: settings.cwd.clone(),
    };
    let driver =
        Driver::new(settings.policy.clone(), normalizer, settings.background_timeout, outputs.clone());
    let (first, driver) = match Process::spawn(&spec) {
        Ok((process, pipes)) => {
            let first = process.id().map(AgentOutput::Process);
            (first, tokio::spawn(run(process, pipes, driver, commands, outputs.clone())))
        }
        Err(error) => {
            let reason = format!("cannot start {program}: {error}");
            (
                Some(AgentOutput::Exited(ExitReason::NotStarted { reason })),
                tokio::spawn(std::future::ready(())),
            )
        }
    };
    if let Some(first) = first {
        // The channel is new, so it has room.
        let _ = outputs.try_send(first);
    }
    AgentHandle { commands: command_sender, outputs: output_receiver, driver }
}

async fn run(
    mut process: Process,
    pipes: Pipes,
    mut driver: Driver,
    commands: mpsc::Receiver<AgentCommand>,
    outputs: mpsc::Sender<AgentOutput>,
) {
    let Pipes { stdin, stdout, stderr } = pipes;
    let stderr_tail = StderrTail::default();
    let stderr_task = tokio::spawn({
        let stderr_tail = stderr_tail.clone();
        async move { stderr_tail.follow(stderr).await }
    });
    tokio::select! {
        () = driver.run(stdout, stdin, commands) => {}
        // A descendant may hold standard output open indefinitely.
        () = exited(&mut process) => {}
    }
    if driver.timed_out {
        process.kill_group();
    }
    let exit = match timeout(SHUTDOWN_GRACE, process.wait()).await {
        Ok(exit) => exit,
        Err(_) => {
            process.kill_group();
            process.wait().await
        }
    };
    if let Ok(followed) = timeout(Duration::from_millis(200), stderr_task).await {
        joined(followed);
    }
    let stderr = stderr_tail.text();
    let exit = match exit {
        ExitReason::Exited { code } if !driver.is_ready => ExitReason::NotStarted {
            reason: format!("the agent exited with code {code} before it was ready: {stderr}"),
        },
        // Killed by this worker.
        ExitReason::Killed { .. } if !driver.is_ready && driver.timed_out => {
            let seconds = STARTUP_TIMEOUT.as_secs();
            ExitReason::NotStarted { reason: format!("the agent was not ready within {seconds} s: {stderr}") }
        }
        other => other,
    };
    let _ = outputs.send(AgentOutput::Exited(exit)).await;
}

/// Waits until the process has exited and its remaining output has had time to be read.
async fn exited(process: &mut Process) {
    process.wait_for_leader().await;
    sleep(SHUTDOWN_GRACE).await;
}

/// Drives the stream-json protocol.
struct Driver {
    policy: Policy,
    normalizer: Normalizer,
    activity: ActivityTracker,
    outputs: mpsc::Sender<AgentOutput>,
    /// Our control requests that have no response yet.
    requests: HashMap<String, PendingRequest>,
    request_count: u64,
    /// Messages that the CLI has not echoed. For versions without a lifecycle.
    unconfirmed: Vec<Uuid>,
    /// Messages that were echoed in the current turn. For versions without a lifecycle.
    echoed: Vec<Uuid>,
    has_lifecycle: bool,
    is_ready: bool,
    /// Startup or shutdown took too long.
    timed_out: bool,
}

#[derive(Debug)]
enum PendingRequest {
    Initialize,
    Interrupt,
}

impl Driver {
    fn new(
        policy: Policy,
        normalizer: Normalizer,
        background_timeout: Duration,
        outputs: mpsc::Sender<AgentOutput>,
    ) -> Self {
        Self {
            policy,
            normalizer,
            activity: ActivityTracker::new(background_timeout),
            outputs,
            requests: HashMap::new(),
            request_count: 0,
            unconfirmed: Vec::new(),
            echoed: Vec::new(),
            has_lifecycle: false,
            is_ready: false,
            timed_out: false,
        }
    }

    /// Runs until the CLI closes its output.
    async fn run(
        &mut self,
        stdout: impl AsyncRead + Unpin,
        stdin: impl AsyncWrite + Unpin + Send + 'static,
        mut commands: mpsc::Receiver<AgentCommand>,
    ) {
        let mut lines = BufReader::new(stdout).split(b'\n');
        let (writer, writer_task) = Writer::start(stdin);
        let mut writer = Some(writer);
        let mut deadline = Some(Instant::now() + STARTUP_TIMEOUT);
        let id = self.request(PendingRequest::Initialize);
        send(writer.as_ref(), &input::initialize(&id));
        loop {
            tokio::select! {
                line = lines.next_segment() => {
                    let Ok(Some(line)) = line else { break };
                    let response = self.receive(&String::from_utf8_lossy(&line)).await;
                    if let Some(response) = response {
                        send(writer.as_ref(), &response);
                    }
                    if self.is_ready && writer.is_some() {
                        deadline = None;
                    }
                }
                command = commands.recv(), if writer.is_some() => match command {
                    Some(AgentCommand::Message(message)) => self.send_message(writer.as_ref(), message).await,
                    Some(AgentCommand::Interrupt { cancel_queued }) => {
                        let id = self.request(PendingRequest::Interrupt);
                        send(writer.as_ref(), &input::interrupt(&id, cancel_queued));
                    }
                    // Closing standard input makes the CLI exit.
                    Some(AgentCommand::Stop) | None => {
                        writer = None;
                        deadline = Some(Instant::now() + SHUTDOWN_GRACE);
                    }
                },
                () = at(self.activity.deadline()) => {
                    if let Some(activity) = self.activity.tick(Instant::now()) {
                        let _ = self.outputs.send(AgentOutput::Activity(activity)).await;
                    }
                }
                () = at(deadline) => {
                    self.timed_out = true;
                    break;
                }
            }
        }
        drop(writer);
        if let Ok(written) = timeout(SHUTDOWN_GRACE, writer_task).await {
            joined(written);
        }
    }

    async fn send_message(&mut self, writer: Option<&Writer>, message: UserMessage) {
        self.unconfirmed.push(message.uuid);
        send(writer, &input::user_message(&message));
        if let Some(activity) = self.activity.message_sent(message.uuid) {
            let _ = self.outputs.send(AgentOutput::Activity(activity)).await;
        }
    }

    fn request(&mut self, request: PendingRequest) -> String {
        self.request_count += 1;
        let id = format!("sunaba-{}", self.request_count);
        self.requests.insert(id.clone(), request);
        id
    }

    /// Processes one line and emits its outputs. Returns the response to send, if the line is a request.
    async fn receive(&mut self, line: &str) -> Option<Value> {
        if line.trim().is_empty() {
            return None;
        }
        let frame = Frame::parse(line);
        let mut response = None;
        let mut activity = self.activity.apply(&frame, Instant::now());
        let mut outputs = match &frame {
            Frame::Lifecycle(lifecycle) => self.receipt(lifecycle.command_uuid, &lifecycle.state),
            Frame::Request(request) => {
                let (event, reply) = self.handle_request(request);
                response = Some(reply);
                event.into_iter().collect()
            }
            Frame::Response(response) => self.handle_response(response, &mut activity),
            Frame::Result(result) => self.complete_echoed(result),
            Frame::TranscriptMirror => vec![AgentOutput::TranscriptWritten],
            Frame::User(message) if message.is_replay => self.replayed(&message.uuid),
            _ => Vec::new(),
        };
        outputs.extend(self.normalizer.apply(frame));
        outputs.extend(activity.map(AgentOutput::Activity));
        for output in outputs {
            // Fails only if the receiver was dropped; then the output is not needed.
            let _ = self.outputs.send(output).await;
        }
        response
    }

    fn receipt(&mut self, uuid: Uuid, state: &str) -> Vec<AgentOutput> {
        self.has_lifecycle = true;
        self.unconfirmed.retain(|known| *known != uuid);
        let state = match state {
            "queued" => State::Delivered,
            "started" => State::Started,
            "completed" => State::Completed,
            "cancelled" | "discarded" | "refused" => State::Cancelled,
            _ => return Vec::new(),
        };
        vec![AgentOutput::Receipt { uuid, state }]
    }

    /// The echo of a message is the only receipt of a version without a lifecycle.
    fn replayed(&mut self, uuid: &str) -> Vec<AgentOutput> {
        let Ok(uuid) = uuid.parse() else { return Vec::new() };
        if self.has_lifecycle || !self.unconfirmed.contains(&uuid) {
            return Vec::new();
        }
        self.unconfirmed.retain(|known| *known != uuid);
        self.echoed.push(uuid);
        let receipt = |state| AgentOutput::Receipt { uuid, state };
        vec![receipt(State::Delivered), receipt(State::Started)]
    }

    /// Completes the messages that were echoed in the turn that has ended.
    fn complete_echoed(&mut self, result: &TurnResult) -> Vec<AgentOutput> {
        let aborted = result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"));
        let state = if aborted { State::Cancelled } else { State::Completed };
        self.echoed.drain(..).map(|uuid| AgentOutput::Receipt { uuid, state }).collect()
    }

    fn handle_request(&mut self, request: &Request) -> (Option<AgentOutput>, Value) {
        let Request { request_id, request } = request;
        let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default();
        let subtype = text("subtype");
        if subtype != "can_use_tool" {
            let reason = format!("This worker does not handle {subtype:?}.");
            return (None, input::error(request_id, &reason));
        }
        let tool = text("tool_name");
        let input = request.get("input").cloned().unwrap_or_default();
        let decision = self.policy.decide(tool, &input);
        let (response, decision, reason) = match decision {
            Decision::Allow => (input::allow(request_id, &input), "allow", None),
            Decision::Deny(reason) => (input::deny(request_id, &reason), "deny", Some(reason)),
        };
        let event = Event::agent(AgentPermissionDecided {
            turn: self.normalizer.turn(),
            tool: tool.to_owned(),
            tool_use_id: text("tool_use_id").to_owned(),
            mode: self.policy.mode.as_str().to_owned(),
            decision: decision.to_owned(),
            reason,
        });
        (Some(AgentOutput::Event(event)), response)
    }

    fn handle_response(
        &mut self,
        response: &Response,
        activity: &mut Option<AgentActivity>,
    ) -> Vec<AgentOutput> {
        let body = &response.response;
        match self.requests.remove(&body.request_id) {
            Some(PendingRequest::Initialize) => {
                self.is_ready = true;
                Vec::new()
            }
            Some(PendingRequest::Interrupt) => {
                let cancelled = body.response["cancelled"].as_array().into_iter().flatten();
                let cancelled: Vec<Uuid> = cancelled.filter_map(|uuid| uuid.as_str()?.parse().ok()).collect();
                *activity = self.activity.messages_cancelled(&cancelled);
                vec![AgentOutput::Interrupted { cancelled }]
            }
            // The echo of one of our own responses.
            None => Vec::new(),
        }
    }
}

/// Writes to the CLI in a separate task, so a CLI that is slow to read does not block reading from it.
struct Writer(mpsc::UnboundedSender<String>);

impl Writer {
    fn start(mut stdin: impl AsyncWrite + Unpin + Send + 'static) -> (Self, tokio::task::JoinHandle<()>) {
        let (lines, mut queue) = mpsc::unbounded_channel::<String>();
        let task = tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
                    break;
                }
            }
        });
        (Self(lines), task)
    }
}

/// Queues a line. Lines sent after the CLI has exited are dropped; the exit is reported separately.
fn send(writer: Option<&Writer>, line: &Value) {
    if let Some(Writer(lines)) = writer {
        let _ = lines.send(format!("{line}\n"));
    }
}
