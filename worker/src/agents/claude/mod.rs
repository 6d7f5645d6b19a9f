//! Claude Code, driven over its stream-json lines on standard input and output, without a library in between.
//!
//! What surprised us about the CLI (2.1.325), and is handled here:
//! - `system/init` comes with every turn; cost is cumulative, also over a resume (`story`).
//! - `command_lifecycle` tells how far something has come that we said. The echo of it lags far behind, so it is only
//!   looked at where a version has no lifecycle.
//! - Our own answers are echoed too: an answer to a request that is not ours is ignored.
//! - The exit code is 1 after a turn that failed: it says nothing of a crash.
//! - A background task that ends starts a turn by itself: the agent is idle when no task is left, not at a `result`.

mod ask;
pub mod frame;
#[cfg(test)]
mod golden;
mod moods;
pub mod recovery;
mod settings;
pub mod story;
mod stream;
mod tool;

pub use settings::{Session, Settings};

use crate::agents::policy::{Decision, Policy};
use crate::agents::process::{Pipes, Process, Start, Tail};
use crate::agents::{Ask, End, Mood, Running, Say, Tell};
use crate::clock::at;
use crate::event::Event;
use domain::message::State;
use frame::{Frame, Request, Response, TurnResult};
use moods::Moods;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use story::Story;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How long an agent that was asked to go may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long the CLI may take to come up.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many frames may wait for whoever listens. The CLI stands still when they are full, so whoever listens must
/// never wait for a network.
const WAITING_TELLS: usize = 256;

/// Starts the CLI. `story` is what it has told before, in an earlier life of the worker.
pub fn start(settings: &Settings, story: Story) -> Running {
    let (asks, asked) = mpsc::channel(64);
    let (tell, tells) = mpsc::channel(WAITING_TELLS);
    let start = Start {
        program: settings.command.first().cloned().unwrap_or_default().into(),
        arguments: settings.arguments().into_iter().map(Into::into).collect(),
        env: settings.environment(),
        env_removed: settings.env_removed.clone(),
        cwd: settings.cwd.clone(),
    };
    let talk = Talk::new(settings.policy.clone(), story, settings.background_patience, tell.clone());
    let first = match Process::start(&start) {
        Ok((process, pipes)) => {
            let first = process.id().map(Tell::Process);
            tokio::spawn(live(process, pipes, talk, asked, tell.clone()));
            first
        }
        Err(why) => {
            let program = settings.command.first().map_or("", String::as_str);
            let reason = format!("{program} cannot be started: {why}");
            Some(Tell::Ended(End::NotStarted { reason }))
        }
    };
    if let Some(first) = first {
        // The channel is new and has room.
        let _ = tell.try_send(first);
    }
    Running { asks, tells }
}

async fn live(
    mut process: Process,
    pipes: Pipes,
    mut talk: Talk,
    asked: mpsc::Receiver<Ask>,
    tell: mpsc::Sender<Tell>,
) {
    let Pipes { stdin, stdout, stderr } = pipes;
    let complaints = Tail::default();
    let complaining = tokio::spawn({
        let complaints = complaints.clone();
        async move { complaints.follow(stderr).await }
    });
    tokio::select! {
        () = talk.go_on(stdout, stdin, asked) => {}
        // What it has started may hold its output open for ever.
        () = gone(&mut process) => {}
    }
    if talk.overdue {
        process.kill_group();
    }
    let end = match timeout(FAREWELL, process.wait()).await {
        Ok(end) => end,
        Err(_) => {
            process.kill_group();
            process.wait().await
        }
    };
    let _ = timeout(Duration::from_millis(200), complaining).await;
    let said = complaints.text();
    let end = match end {
        End::Left { code } if !talk.ready => {
            End::NotStarted { reason: format!("it left with {code} before it was ready: {said}") }
        }
        // Killed by us, that is.
        End::Killed { .. } if !talk.ready && talk.overdue => {
            let seconds = PATIENCE.as_secs();
            End::NotStarted { reason: format!("it was not ready within {seconds} s: {said}") }
        }
        other => other,
    };
    let _ = tell.send(Tell::Ended(end)).await;
}

/// When the process is gone, and all that it has printed should have been read.
async fn gone(process: &mut Process) {
    process.wait_for_leader().await;
    sleep(FAREWELL).await;
}

/// The conversation with the CLI.
struct Talk {
    policy: Policy,
    story: Story,
    moods: Moods,
    tell: mpsc::Sender<Tell>,
    /// What we asked and have no answer to.
    requests: HashMap<String, Asked>,
    requested: u64,
    /// What we said and the CLI has not confirmed, where it has no lifecycle.
    unconfirmed: Vec<Uuid>,
    /// What it has confirmed and works on, where it has no lifecycle.
    echoed: Vec<Uuid>,
    has_lifecycle: bool,
    ready: bool,
    /// It took too long: to come up, or to go.
    overdue: bool,
}

#[derive(Debug)]
enum Asked {
    Initialize,
    Interrupt,
}

impl Talk {
    fn new(policy: Policy, story: Story, patience: Duration, tell: mpsc::Sender<Tell>) -> Self {
        Self {
            policy,
            story,
            moods: Moods::new(patience),
            tell,
            requests: HashMap::new(),
            requested: 0,
            unconfirmed: Vec::new(),
            echoed: Vec::new(),
            has_lifecycle: false,
            ready: false,
            overdue: false,
        }
    }

    /// Talks until the CLI has closed its output.
    async fn go_on(
        &mut self,
        stdout: impl AsyncRead + Unpin,
        stdin: impl AsyncWrite + Unpin + Send + 'static,
        mut asked: mpsc::Receiver<Ask>,
    ) {
        let mut lines = BufReader::new(stdout).split(b'\n');
        let (write, writing) = Writer::start(stdin);
        let mut write = Some(write);
        let mut deadline = Some(Instant::now() + PATIENCE);
        let id = self.request(Asked::Initialize);
        say(write.as_ref(), &ask::initialize(&id));
        loop {
            tokio::select! {
                line = lines.next_segment() => {
                    let Ok(Some(line)) = line else { break };
                    let answer = self.hear(&String::from_utf8_lossy(&line)).await;
                    if let Some(answer) = answer {
                        say(write.as_ref(), &answer);
                    }
                    if self.ready && write.is_some() {
                        deadline = None;
                    }
                }
                ask = asked.recv(), if write.is_some() => match ask {
                    Some(Ask::Say(said)) => self.say(write.as_ref(), said).await,
                    Some(Ask::Interrupt { cancel_queued }) => {
                        let id = self.request(Asked::Interrupt);
                        say(write.as_ref(), &ask::interrupt(&id, cancel_queued));
                    }
                    // Closing its input is how the CLI is asked to go.
                    Some(Ask::Stop) | None => {
                        write = None;
                        deadline = Some(Instant::now() + FAREWELL);
                    }
                },
                () = at(self.moods.deadline()) => {
                    if let Some(mood) = self.moods.waited(Instant::now()) {
                        let _ = self.tell.send(Tell::Mood(mood)).await;
                    }
                }
                () = at(deadline) => {
                    self.overdue = true;
                    break;
                }
            }
        }
        drop(write);
        let _ = timeout(FAREWELL, writing).await;
    }

    async fn say(&mut self, write: Option<&Writer>, said: Say) {
        self.unconfirmed.push(said.uuid);
        say(write, &ask::say(&said));
        if let Some(mood) = self.moods.said(said.uuid) {
            let _ = self.tell.send(Tell::Mood(mood)).await;
        }
    }

    fn request(&mut self, asked: Asked) -> String {
        self.requested += 1;
        let id = format!("sunaba-{}", self.requested);
        self.requests.insert(id.clone(), asked);
        id
    }

    /// Takes a line in, tells what it means, and gives back what must be answered.
    async fn hear(&mut self, line: &str) -> Option<Value> {
        if line.trim().is_empty() {
            return None;
        }
        let frame = Frame::parse(line);
        let mut answer = None;
        let mut mood = self.moods.heard(&frame, Instant::now());
        let mut told = match &frame {
            Frame::Lifecycle(lifecycle) => self.receipt(lifecycle.command_uuid, &lifecycle.state),
            Frame::Request(request) => {
                let (event, reply) = self.asked(request);
                answer = Some(reply);
                event.into_iter().collect()
            }
            Frame::Response(response) => self.answered(response, &mut mood),
            Frame::Result(result) => self.echoes_done(result),
            Frame::Mirror => vec![Tell::Recorded],
            Frame::User(message) if message.is_replay => self.replayed(&message.uuid),
            _ => Vec::new(),
        };
        told.extend(self.story.apply(frame));
        told.extend(mood.map(Tell::Mood));
        for tell in told {
            // Whoever listened is gone: then there is nobody to tell.
            let _ = self.tell.send(tell).await;
        }
        answer
    }

    fn receipt(&mut self, uuid: Uuid, state: &str) -> Vec<Tell> {
        self.has_lifecycle = true;
        self.unconfirmed.retain(|known| *known != uuid);
        let state = match state {
            "queued" => State::Delivered,
            "started" => State::Started,
            "completed" => State::Completed,
            "cancelled" | "discarded" | "refused" => State::Cancelled,
            _ => return Vec::new(),
        };
        vec![Tell::Receipt { uuid, state }]
    }

    /// An echo of what we said: the only receipt of a version without a lifecycle.
    fn replayed(&mut self, uuid: &str) -> Vec<Tell> {
        let Ok(uuid) = uuid.parse() else { return Vec::new() };
        if self.has_lifecycle || !self.unconfirmed.contains(&uuid) {
            return Vec::new();
        }
        self.unconfirmed.retain(|known| *known != uuid);
        self.echoed.push(uuid);
        let receipt = |state| Tell::Receipt { uuid, state };
        vec![receipt(State::Delivered), receipt(State::Started)]
    }

    /// The end of a turn is the end of what was echoed in it.
    fn echoes_done(&mut self, result: &TurnResult) -> Vec<Tell> {
        let aborted = result.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"));
        let state = if aborted { State::Cancelled } else { State::Completed };
        self.echoed.drain(..).map(|uuid| Tell::Receipt { uuid, state }).collect()
    }

    fn asked(&mut self, request: &Request) -> (Option<Tell>, Value) {
        let Request { request_id, request } = request;
        let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default();
        let subtype = text("subtype");
        if subtype != "can_use_tool" {
            let reason = format!("This worker does not handle {subtype:?}.");
            return (None, ask::refuse(request_id, &reason));
        }
        let tool = text("tool_name");
        let input = request.get("input").cloned().unwrap_or_default();
        let decision = self.policy.decide(tool, &input);
        let event = Event::agent("agent.permission_decided")
            .with("turn", self.story.turn())
            .with("tool", tool)
            .with("tool_use_id", text("tool_use_id"))
            .with("mode", self.policy.mode.as_str());
        match decision {
            Decision::Allow => {
                (Some(Tell::Event(event.with("decision", "allow"))), ask::allow(request_id, &input))
            }
            Decision::Deny(reason) => {
                let answer = ask::deny(request_id, &reason);
                (Some(Tell::Event(event.with("decision", "deny").with("reason", reason))), answer)
            }
        }
    }

    fn answered(&mut self, response: &Response, mood: &mut Option<Mood>) -> Vec<Tell> {
        let answer = &response.response;
        match self.requests.remove(&answer.request_id) {
            Some(Asked::Initialize) => {
                self.ready = true;
                Vec::new()
            }
            Some(Asked::Interrupt) => {
                let cancelled = answer.response["cancelled"].as_array().into_iter().flatten();
                let cancelled: Vec<Uuid> = cancelled.filter_map(|uuid| uuid.as_str()?.parse().ok()).collect();
                *mood = self.moods.taken_back(&cancelled);
                vec![Tell::Interrupted { cancelled }]
            }
            // The echo of an answer of our own.
            None => Vec::new(),
        }
    }
}

/// Writes to the CLI, which may be slow to read, without holding up what it says.
struct Writer(mpsc::UnboundedSender<String>);

impl Writer {
    fn start(mut stdin: impl AsyncWrite + Unpin + Send + 'static) -> (Self, tokio::task::JoinHandle<()>) {
        let (lines, mut written) = mpsc::unbounded_channel::<String>();
        let task = tokio::spawn(async move {
            while let Some(line) = written.recv().await {
                if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
                    break;
                }
            }
        });
        (Self(lines), task)
    }
}

/// Writes a line. One that comes after the CLI is gone is lost with it; its end is told.
fn say(writer: Option<&Writer>, line: &Value) {
    if let Some(Writer(lines)) = writer {
        let _ = lines.send(format!("{line}\n"));
    }
}
