//! Agents that support the [Agent Client Protocol](https://agentclientprotocol.com): JSON-RPC on standard input and
//! output, one message per line.
//!
//! `session` implements the protocol without I/O; `normalizer` and `tools` convert updates to events; `host` serves the
//! agent's requests inside the workspace; `permission` answers permission requests by policy.
//! Deliberately absent: an SDK (the wire format is stable, the libraries are not), steering during a turn (the protocol
//! has none, so messages wait until the current prompt has finished), authentication, and MCP servers.

mod agent;
mod cost;
mod files;
mod host;
mod normalizer;
mod output;
mod permission;
mod rpc;
mod session;
mod terminals;
#[cfg(test)]
mod tests;
mod tools;

pub use agent::{ACP, OPENHANDS};

use crate::agents::policy::Policy;
use crate::agents::process::{Pipes, Process, ProcessSpec, StderrTail};
use crate::agents::{AgentCommand, AgentHandle, AgentOutput, ExitReason};
use crate::event::Event;
use crate::tasks::joined;
use confine::Launcher;
use contract::payloads::AgentError;
use files::Workspace;
use host::Host;
use normalizer::Normalizer;
use rpc::Incoming;
use serde_json::Value;
use session::{Session, SessionOptions};
use std::path::PathBuf;
use std::time::Duration;
use terminals::Terminals;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// Maximum number of undelivered outputs before reading from the agent pauses.
const MAX_PENDING_OUTPUTS: usize = 1024;

/// How long an agent may take to exit before it is killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// How long to read remaining output after the agent exited. A descendant may hold the pipe open indefinitely.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct Settings {
    /// The program and its arguments: `["openhands", "acp"]`.
    pub command: Vec<String>,
    pub launcher: Launcher,
    /// Added to the launcher's environment.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The session to resume. If the agent cannot, an error is emitted and a new session starts.
    pub resume: Option<String>,
    /// `_meta` of the requests that open a session.
    pub meta: Option<Value>,
    pub policy: Policy,
}

/// Starts an agent. Messages can be sent immediately; they are queued until the session is ready.
pub fn start(settings: Settings) -> AgentHandle {
    let (command_sender, commands) = mpsc::channel(64);
    let (output_sender, outputs) = mpsc::channel(256);
    let driver = tokio::spawn(run(settings, commands, output_sender));
    AgentHandle { commands: command_sender, outputs, driver }
}

async fn run(
    settings: Settings,
    mut commands: mpsc::Receiver<AgentCommand>,
    outputs: mpsc::Sender<AgentOutput>,
) {
    let exit = match open(&settings) {
        Ok((process, pipes, host)) => drive(settings, process, pipes, host, &mut commands, &outputs).await,
        Err(reason) => {
            let (error, phase) = (reason.clone(), "initialization".to_owned());
            let event = Event::agent(AgentError { error, phase, turn: Some(0), stderr_tail: None });
            let _ = outputs.send(AgentOutput::Event(event)).await;
            ExitReason::NotStarted { reason }
        }
    };
    // Fails only if the receiver was dropped; then the output is not needed.
    let _ = outputs.send(AgentOutput::Exited(exit)).await;
}

fn open(settings: &Settings) -> Result<(Process, Pipes, Host), String> {
    let Some((program, arguments)) = settings.command.split_first() else {
        return Err("The agent command is empty.".to_owned());
    };
    let workspace = Workspace::open(&settings.cwd)
        .map_err(|error| format!("Cannot open workspace {}: {error}.", settings.cwd.display()))?;
    let (launcher, env) = (settings.launcher.clone(), settings.env.clone());
    let spec = ProcessSpec {
        launcher: launcher.with_program(program.as_ref(), &settings.cwd),
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        env: env.clone(),
        cwd: settings.cwd.clone(),
    };
    let (process, pipes) =
        Process::spawn(&spec).map_err(|error| format!("Cannot start {program}: {error}."))?;
    let terminals = Terminals::new(workspace.clone(), launcher, env);
    Ok((process, pipes, Host { workspace, terminals }))
}

async fn drive(
    settings: Settings,
    mut process: Process,
    pipes: Pipes,
    host: Host,
    commands: &mut mpsc::Receiver<AgentCommand>,
    outputs: &mpsc::Sender<AgentOutput>,
) -> ExitReason {
    if let Some(id) = process.id() {
        let _ = outputs.send(AgentOutput::Process(id)).await;
    }
    let stderr = StderrTail::default();
    let mut tasks = JoinSet::new();
    tasks.spawn({
        let stderr = stderr.clone();
        async move { stderr.follow(pipes.stderr).await }
    });
    let Settings { cwd, resume, meta, policy, .. } = settings;
    let normalizer = Normalizer::new(host.terminals.clone(), cwd.clone());
    let mut session = Session::new(SessionOptions { cwd, resume, meta, policy, stderr }, normalizer);
    let exit = {
        let running = run_session(pipes.stdout, pipes.stdin, &mut session, &host, commands, outputs);
        tokio::pin!(running);
        tokio::select! {
            () = &mut running => None,
            exit = process.wait() => {
                let _ = timeout(DRAIN_TIMEOUT, &mut running).await;
                Some(exit)
            }
        }
    };
    let exit = match exit {
        Some(exit) => exit,
        None if session.is_finished() => {
            process.kill_group();
            process.wait().await
        }
        None => match timeout(SHUTDOWN_GRACE, process.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                process.kill_group();
                process.wait().await
            }
        },
    };
    // The end of stderr is the most useful part, so wait for it.
    if let Ok(Some(followed)) = timeout(SHUTDOWN_GRACE, tasks.join_next()).await {
        joined(followed);
    }
    host.terminals.close().await;
    let description = describe(&exit);
    session.end(&description);
    let exit = match (session.failure(), &exit) {
        (Some(reason), _) => ExitReason::NotStarted { reason: reason.to_owned() },
        (None, ExitReason::Exited { .. }) if !session.is_ready() && !session.is_stopping() => {
            let reason = format!("The agent exited before it had a session: {description}.");
            session.error(&reason, "initialization");
            ExitReason::NotStarted { reason }
        }
        _ => exit,
    };
    while let Some(output) = session.outputs().pop_front() {
        if outputs.send(output).await.is_err() {
            break;
        }
    }
    exit
}

fn describe(exit: &ExitReason) -> String {
    match exit {
        ExitReason::Exited { code } => format!("exit code {code}"),
        ExitReason::Killed { out_of_memory: true, .. } => "killed: out of memory".to_owned(),
        ExitReason::Killed { signal, .. } => format!("killed by signal {signal}"),
        ExitReason::NotStarted { reason } => reason.clone(),
    }
}

/// Runs a session over two streams until the agent closes its output or the session has finished. Undelivered outputs
/// remain in the session.
async fn run_session(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    session: &mut Session,
    host: &Host,
    commands: &mut mpsc::Receiver<AgentCommand>,
    outputs: &mpsc::Sender<AgentOutput>,
) {
    let (line_sender, mut lines) = mpsc::channel(16);
    let (writer_lines, writer_queue) = mpsc::unbounded_channel();
    let mut writer_lines = Some(writer_lines);
    let mut pipes = JoinSet::new();
    pipes.spawn(rpc::read_lines(BufReader::new(reader), line_sender));
    pipes.spawn(rpc::write_lines(writer, writer_queue));
    let mut host_calls = JoinSet::new();
    while !session.is_finished() {
        for line in session.take_lines() {
            // Fails only if the agent closed its input; its exit is detected by the reader.
            writer_lines.as_ref().map(|lines| lines.send(line));
        }
        if session.should_close_input() {
            writer_lines = None;
        }
        let deadline = session.deadline();
        let pending = session.outputs().len();
        tokio::select! {
            permit = outputs.reserve(), if pending > 0 => match (permit, session.outputs().pop_front()) {
                (Ok(permit), Some(output)) => permit.send(output),
                // The receiver was dropped.
                _ => return,
            },
            line = lines.recv(), if pending < MAX_PENDING_OUTPUTS => match line {
                Some(line) => rpc::parse(&line).into_iter().for_each(|incoming| match incoming {
                    Incoming::Request { id, method, params } if Host::handles(&method) => {
                        let host = host.clone();
                        host_calls.spawn(async move { rpc::response(&id, &host.serve(&method, params).await) });
                    }
                    incoming => session.receive(incoming),
                }),
                None => return,
            },
            command = commands.recv(), if !session.is_stopping() => {
                session.handle_command(command.unwrap_or(AgentCommand::Stop));
            }
            // A panic in a call becomes one of the driver: the agent would wait for the response forever.
            Some(response) = host_calls.join_next() => {
                if let (Some(line), Some(lines)) = (joined(response), &writer_lines) {
                    let _ = lines.send(line);
                }
            }
            () = sleep_until(deadline.unwrap_or_else(far_future)), if deadline.is_some() => {
                session.handle_deadline();
            }
        }
    }
}

fn far_future() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(3600)
}
