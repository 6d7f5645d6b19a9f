//! Agents that speak the [Agent Client Protocol](https://agentclientprotocol.com): JSON-RPC on standard input and
//! output, one message per line.
//!
//! `session` knows the protocol and does no input or output; `narrator` and `tools` turn updates into events; `host`
//! does what the agent asks of its client, inside the workspace; `permission` answers for the people who are not there.
//! Deliberately absent: an SDK (the wire is stable, the libraries around it are not), steering in mid-turn (the
//! protocol has none: what is said while a prompt runs is prompted when it has ended), signing in, and MCP servers.

mod cost;
mod files;
mod host;
mod narrator;
mod output;
mod permission;
mod rpc;
mod session;
mod terminals;
#[cfg(test)]
mod tests;
mod tools;

use crate::agents::policy::Policy;
use crate::agents::process::{Pipes, Process, Start, Tail};
use crate::agents::{Ask, End, Running, Tell};
use crate::event::Event;
use files::Workspace;
use host::Host;
use narrator::Narrator;
use rpc::Incoming;
use session::{Session, Terms};
use std::path::PathBuf;
use std::time::Duration;
use terminals::Terminals;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// How many tells may wait for whoever hears them before the agent is no longer read.
const WAITING_TELLS: usize = 1024;

/// How long an agent that was left may take to be gone.
const GRACE: Duration = Duration::from_secs(1);

/// How long what an agent wrote last may take to be heard after its end. Somebody else may hold its pipe for ever.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How to start an agent.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program and its arguments: `["openhands", "acp"]`.
    pub command: Vec<String>,
    /// Added to the worker's own environment.
    pub env: Vec<(String, String)>,
    /// Taken out of the worker's own environment.
    pub env_removed: Vec<String>,
    /// The workspace.
    pub cwd: PathBuf,
    /// The session to continue, if the agent can. Otherwise it says so, and begins a new one.
    pub resume: Option<String>,
    /// What the agent may do.
    pub policy: Policy,
}

/// Starts an agent. It can be told things at once: they are held until it is up.
pub fn start(settings: Settings) -> Running {
    let (asks, heard) = mpsc::channel(64);
    let (told, tells) = mpsc::channel(256);
    tokio::spawn(run(settings, heard, told));
    Running { asks, tells }
}

async fn run(settings: Settings, mut asks: mpsc::Receiver<Ask>, tells: mpsc::Sender<Tell>) {
    let end = match open(&settings) {
        Ok((process, pipes, host)) => lead(settings, process, pipes, host, &mut asks, &tells).await,
        Err(reason) => {
            let event = Event::agent("agent.error").with("error", reason.as_str());
            let event = event.with("phase", "initialization").with("turn", 0);
            let _ = tells.send(Tell::Event(event)).await;
            End::NotStarted { reason }
        }
    };
    // Nobody who hears it is nobody who minds.
    let _ = tells.send(Tell::Ended(end)).await;
}

fn open(settings: &Settings) -> Result<(Process, Pipes, Host), String> {
    let Some((program, arguments)) = settings.command.split_first() else {
        return Err("No command was given to start the agent with.".to_owned());
    };
    let workspace = Workspace::open(&settings.cwd)
        .map_err(|error| format!("The workspace {} cannot be used: {error}.", settings.cwd.display()))?;
    let (env, env_removed) = (settings.env.clone(), settings.env_removed.clone());
    let start = Start {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        env: env.clone(),
        env_removed: env_removed.clone(),
        cwd: settings.cwd.clone(),
    };
    let (process, pipes) =
        Process::start(&start).map_err(|error| format!("{program} could not be started: {error}."))?;
    let terminals = Terminals::new(workspace.clone(), env, env_removed);
    Ok((process, pipes, Host { workspace, terminals }))
}

async fn lead(
    settings: Settings,
    mut process: Process,
    pipes: Pipes,
    host: Host,
    asks: &mut mpsc::Receiver<Ask>,
    tells: &mpsc::Sender<Tell>,
) -> End {
    if let Some(id) = process.id() {
        let _ = tells.send(Tell::Process(id)).await;
    }
    let stderr = Tail::default();
    let mut tasks = JoinSet::new();
    tasks.spawn({
        let stderr = stderr.clone();
        async move { stderr.follow(pipes.stderr).await }
    });
    let Settings { cwd, resume, policy, .. } = settings;
    let narrator = Narrator::new(host.terminals.clone(), cwd.clone());
    let mut session = Session::new(Terms { cwd, resume, policy, stderr }, narrator);
    let end = {
        let conversation = converse(pipes.stdout, pipes.stdin, &mut session, &host, asks, tells);
        tokio::pin!(conversation);
        tokio::select! {
            () = &mut conversation => None,
            end = process.wait() => {
                let _ = timeout(LAST_WORDS, &mut conversation).await;
                Some(end)
            }
        }
    };
    let end = match end {
        Some(end) => end,
        None if session.is_over() => {
            process.kill_group();
            process.wait().await
        }
        None => match timeout(GRACE, process.wait()).await {
            Ok(end) => end,
            Err(_) => {
                process.kill_group();
                process.wait().await
            }
        },
    };
    // What it complained about last says most.
    let _ = timeout(GRACE, tasks.join_next()).await;
    host.terminals.close().await;
    let how = in_words(&end);
    session.end(&how);
    let end = match (session.failure(), &end) {
        (Some(reason), _) => End::NotStarted { reason: reason.to_owned() },
        (None, End::Left { .. }) if !session.is_up() && !session.is_stopping() => {
            let reason = format!("The agent ended before it had a session: {how}.");
            session.error(&reason, "initialization");
            End::NotStarted { reason }
        }
        _ => end,
    };
    while let Some(tell) = session.tells().pop_front() {
        if tells.send(tell).await.is_err() {
            break;
        }
    }
    end
}

fn in_words(end: &End) -> String {
    match end {
        End::Left { code } => format!("exit code {code}"),
        End::Killed { out_of_memory: true, .. } => "killed for want of memory".to_owned(),
        End::Killed { signal, .. } => format!("killed by signal {signal}"),
        End::NotStarted { reason } => reason.clone(),
    }
}

/// Leads a session over any two streams, until the agent is silent for good, or the session is over. What is left to
/// tell then is still in the session.
async fn converse(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    session: &mut Session,
    host: &Host,
    asks: &mut mpsc::Receiver<Ask>,
    tells: &mpsc::Sender<Tell>,
) {
    let (read, mut lines) = mpsc::channel(16);
    let (write, written) = mpsc::unbounded_channel();
    let mut write = Some(write);
    let mut pipes = JoinSet::new();
    pipes.spawn(rpc::read_lines(BufReader::new(reader), read));
    pipes.spawn(rpc::write_lines(writer, written));
    let mut work = JoinSet::new();
    while !session.is_over() {
        for line in session.lines() {
            // An agent that does not read is about to end: that is noticed where it is read.
            write.as_ref().map(|write| write.send(line));
        }
        if session.has_nothing_to_write() {
            write = None;
        }
        let deadline = session.deadline();
        let waiting = session.tells().len();
        tokio::select! {
            permit = tells.reserve(), if waiting > 0 => match (permit, session.tells().pop_front()) {
                (Ok(permit), Some(tell)) => permit.send(tell),
                // Nobody hears it.
                _ => return,
            },
            line = lines.recv(), if waiting < WAITING_TELLS => match line {
                Some(line) => rpc::parse(&line).into_iter().for_each(|incoming| match incoming {
                    Incoming::Request { id, method, params } if Host::knows(&method) => {
                        let host = host.clone();
                        work.spawn(async move { rpc::response(&id, &host.serve(&method, params).await) });
                    }
                    incoming => session.incoming(incoming),
                }),
                None => return,
            },
            ask = asks.recv(), if !session.is_stopping() => session.ask(ask.unwrap_or(Ask::Stop)),
            Some(done) = work.join_next() => {
                if let (Ok(line), Some(write)) = (done, &write) {
                    let _ = write.send(line);
                }
            }
            () = sleep_until(deadline.unwrap_or_else(far_away)), if deadline.is_some() => {
                session.look_at_the_clock();
            }
        }
    }
}

fn far_away() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(3600)
}
