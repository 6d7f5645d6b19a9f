//! Supervises the agent for one run of the worker: handles its output, delivers messages to it, restarts it after a
//! crash, and decides when the task is done.
//!
//! **Invariant:** nothing here waits for the network. Events go to the outbox, which is a file, and slow work
//! (validating the repository, scanning files) runs in separate tasks. So an unreachable plane never blocks the agent.

mod history;
mod inspection;
mod launcher;
mod messages;
mod observers;
mod saving;
mod shutdown;
mod turns;

use crate::agents::{AgentActivity, AgentCommand, AgentHandle, AgentOutput};
use crate::clock::at;
use crate::completion::Plan;
use crate::config::{Config, Continuous, Requirements};
use crate::event::{Event, first_chars};
use crate::heartbeat::{AgentState, Status};
use crate::inbox::{HeldMessages, Inbox, InboxEvent};
use crate::keeping::Keeping;
use crate::outbox::{LinkState, Outbox};
use crate::state::{ProcessIdentity, State, StateFile};
use crate::tasks::{TaskFailure, Tasks};
use crate::transcript::Tail;
use crate::workspace::save::Saver;
use contract::payloads::{
    AgentError, AgentStarted, AgentWaiting, ContinuousLimits, ContinuousStarted, ValidationRequirements,
    WorkerTranscriptLost,
};
use inspection::Inspection;
pub(crate) use inspection::OUTCOME_EVENT;
pub(crate) use launcher::Launcher;
use messages::Interruption;
use observers::Observers;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use uuid::Uuid;

/// Exit code when a newer worker has taken over this sandbox.
pub const EXIT_FENCED: u8 = 3;

/// How long the agent's start waits for the first file scan. The scan of a large repository continues meanwhile.
const FIRST_SCAN_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of periodic work: transcript copying, time limits and state saving.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker that exits when done flushes its outbox.
const FLUSH_TIMEOUT_WHEN_DONE: Duration = Duration::from_secs(5 * 60);

pub(crate) struct Supervisor {
    config: Config,
    launcher: Launcher,
    outbox: Outbox,
    state_file: StateFile,
    state: State,
    plan: Plan,
    agent: Option<AgentHandle>,
    activity: AgentActivity,
    agent_state: watch::Sender<AgentState>,
    turns: u64,
    observers: Observers,
    tail: Option<Tail>,
    deliveries: Deliveries,
    /// A repository inspection in progress.
    inspection: Option<JoinHandle<Inspection>>,
    /// Saves the work of the agent.
    saver: Saver,
    /// Uploads what no code host has.
    keeping: Keeping,
    /// Saving the work of the last turn.
    saving: JoinSet<()>,
    schedule: Schedule,
}

/// Messages on their way to the agent.
#[derive(Default)]
struct Deliveries {
    held: HeldMessages,
    /// Interruptions that the agent has not confirmed yet.
    interruptions: Vec<Interruption>,
    /// Messages of a turn that was resumed after a crash. The agent sends no receipts for them.
    resumed: Vec<Uuid>,
}

/// What happens at a certain time.
struct Schedule {
    /// Start time and prompt of the next iteration.
    next_iteration: Option<(Instant, String)>,
    /// When to restart a crashed agent.
    restart_at: Option<Instant>,
    /// When to prompt an agent that has not resumed its turn by itself.
    nudge_at: Option<Instant>,
    ticked_at: Instant,
    saved_at: Instant,
}

impl Schedule {
    fn new(now: Instant) -> Self {
        Self { next_iteration: None, restart_at: None, nudge_at: None, ticked_at: now, saved_at: now }
    }
}

/// Constructor arguments of [`Supervisor`].
pub(crate) struct Parts {
    pub config: Config,
    pub launcher: Launcher,
    pub outbox: Outbox,
    pub held: HeldMessages,
    pub state_file: StateFile,
    pub state: State,
    pub plan: Plan,
    pub agent_state: watch::Sender<AgentState>,
    pub saver: Saver,
    pub keeping: Keeping,
}

/// External inputs of the supervisor.
pub(crate) struct Inputs {
    pub inbox: Inbox,
    pub link_state: watch::Receiver<LinkState>,
    /// Becomes true when the worker must stop.
    pub stop: watch::Receiver<bool>,
    /// Further parts of the worker. It cannot go on without them.
    pub tasks: Tasks,
}

/// The reason if the plane has ended the sandbox.
const SANDBOX_FINISHED: &str = "sandbox_finished";

/// Why the worker stops.
enum StopReason {
    /// `signal`, `sandbox_finished` or `complete`.
    Requested(&'static str),
    /// A newer worker has taken over.
    Fenced,
    /// A part of the worker has failed: the plane would get no heartbeats, events or receipts any more.
    Failed(TaskFailure),
}

impl Supervisor {
    /// Starts only the observers; see [`Supervisor::run`].
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { config, launcher, outbox, held, state_file, state, plan, agent_state, saver, keeping } =
            parts;
        let directories = (config.cwd.clone(), config.state_dir.clone());
        let observers = Observers::start(
            &outbox,
            directories,
            launcher.confined.clone(),
            config.preview.then(|| launcher.loopback.clone()),
            agent_state.clone(),
        );
        Self {
            config,
            launcher,
            outbox,
            state_file,
            state,
            plan,
            agent: None,
            activity: AgentActivity::Idle,
            agent_state,
            turns: 0,
            observers,
            tail: None,
            deliveries: Deliveries { held, ..Deliveries::default() },
            inspection: None,
            saver,
            keeping,
            saving: JoinSet::new(),
            schedule: Schedule::new(Instant::now()),
        }
    }

    /// Runs until the worker must stop, and shuts down.
    pub(crate) async fn run(mut self, mut inputs: Inputs) -> ExitCode {
        self.start().await;
        let mut tick = interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let reason = loop {
            let iterate_at = self.schedule.next_iteration.as_ref().map(|(at, _)| *at);
            tokio::select! {
                Ok(_) = inputs.stop.wait_for(|stop| *stop) => break StopReason::Requested("signal"),
                Ok(_) = inputs.link_state.wait_for(|state| matches!(state, LinkState::Fenced { .. })) => break StopReason::Fenced,
                event = inputs.inbox.next() => match event {
                    Ok(InboxEvent::Message(message)) => self.handle_message(*message).await,
                    Ok(InboxEvent::Redelivered(id)) => self.redelivered(&id),
                    Ok(InboxEvent::SandboxFinished { .. }) => break StopReason::Requested(SANDBOX_FINISHED),
                    Err(failure) => break StopReason::Failed(failure),
                },
                failure = inputs.tasks.failed() => break StopReason::Failed(failure),
                failure = self.outbox.failed() => break StopReason::Failed(failure),
                failure = self.observers.failed() => self.observer_failed(&failure),
                output = next_output(&mut self.agent) => self.handle_output(output).await,
                inspection = finished_inspection(&mut self.inspection) => self.inspected(inspection),
                () = at(iterate_at) => self.start_iteration().await,
                () = at(self.schedule.restart_at) => self.start_agent().await,
                () = at(self.schedule.nudge_at) => self.nudge().await,
                _ = tick.tick() => self.tick().await,
            }
            if self.state.outcome.is_some() && self.config.exit_when_done && self.is_idle() {
                // No grace period applies here, so flushing may take longer than during a shutdown.
                tokio::select! {
                    _ = self.outbox.flushed(FLUSH_TIMEOUT_WHEN_DONE) => {}
                    Ok(_) = inputs.stop.wait_for(|stop| *stop) => {}
                }
                break StopReason::Requested("complete");
            }
        };
        self.shut_down(reason).await
    }

    /// Starts the agent with its task, or resumes it.
    async fn start(&mut self) {
        let is_new = self.state.prompt.is_none() && self.state.outcome.is_none();
        if let Some(task) = self.config.task.prompt().filter(|_| is_new) {
            let prompt = self.plan.first_prompt(&task);
            if let Some(limits) = &self.plan.continuous {
                let event = continuous_started_event(&task, limits, &self.config.requirements);
                self.emit_once("continuous-started", event);
            }
            self.begin_iteration(prompt);
        }
        // Scan the files first, so that changes of the first tool are attributed to it.
        let _ = timeout(FIRST_SCAN_TIMEOUT, self.observers.drained()).await;
        self.start_agent().await;
        let (sandbox, cwd) = (&self.config.sandbox, self.config.cwd.display());
        tracing::info!(sandbox.id = %sandbox, "Agent started for sandbox {sandbox} in {cwd}");
        self.emit_once("started", self.started_event());
        if self.state.prompt.is_none() {
            self.wait_for_messages("No task yet; waiting for messages");
        }
    }

    /// Emits an event that happens once per sandbox. The id is the same after a restart, so a worker that was killed
    /// before it saved its state does not emit the event again.
    fn emit_once(&self, key: &str, event: Event) {
        self.outbox.emit(event.with_id(format!("{key}-{}", self.config.sandbox)));
    }

    fn started_event(&self) -> Event {
        let (config, task) = (&self.config, &self.config.task);
        Event::worker(AgentStarted {
            sdk: config.agent.name().to_owned(),
            model: config.model.clone(),
            task: task.headline(),
            task_description_length: task.prompt().map_or(0, |prompt| prompt.chars().count() as u64),
            ticket_title: task.ticket_title.clone(),
            session_id: self.state.session.clone(),
            resumed_session_id: config.resume.as_ref().map(|resume| resume.session.clone()),
            is_resuming: config.resume.is_some(),
            fork_session: config.resume.as_ref().is_some_and(|resume| resume.fork),
            worker_version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    async fn handle_output(&mut self, output: AgentOutput) {
        match output {
            AgentOutput::Event(event) => {
                self.observers.agent_emitted(&event);
                self.outbox.emit(event);
            }
            AgentOutput::Partial(partial) if self.config.partial_messages => self.outbox.partial(partial),
            AgentOutput::Partial(_) => {}
            AgentOutput::Receipt { uuid, state } => self.receipt(uuid, state),
            AgentOutput::Interrupted { cancelled } => self.interrupted(&cancelled),
            AgentOutput::ToolEnded { tool_use_id, turn, edited } => {
                self.turns = turn;
                self.observers.tool_ended(tool_use_id, turn, edited);
            }
            AgentOutput::Progress => self.agent_state.send_modify(|state| state.progress += 1),
            AgentOutput::TranscriptWritten => self.copy_transcript(),
            AgentOutput::Process(id) => {
                self.state.process = ProcessIdentity::of(id);
                self.save();
                self.observers.watch(Some(id));
            }
            AgentOutput::Session(session) => {
                self.state.session = Some(session);
                self.save();
            }
            AgentOutput::Activity(activity) => self.activity_changed(activity).await,
            AgentOutput::TurnEnded(end) => self.turn_ended(*end),
            AgentOutput::Exited(reason) => self.agent_exited(reason).await,
        }
    }

    fn observer_failed(&mut self, failure: &TaskFailure) {
        let restarted = self.observers.restart(failure);
        tracing::error!(restarted, "A part of the worker has panicked: {failure}");
        self.emit_failure(failure, "observation");
    }

    fn emit_failure(&self, failure: &TaskFailure, phase: &str) {
        let (error, phase) = (failure.to_string(), phase.to_owned());
        let turn = Some(self.turns);
        self.outbox.emit(Event::worker(AgentError { error, phase, turn, stderr_tail: None }));
    }

    /// Sends a command to the agent if it is running. Otherwise the restart delivers what the agent has missed.
    async fn send_command(&self, command: AgentCommand) {
        if let Some(agent) = &self.agent {
            // Ignore the error: an agent that has just exited is restarted and receives what it has missed.
            let _ = agent.commands.send(command).await;
        }
    }

    /// Copies new transcript lines to the outbox.
    fn copy_transcript(&mut self) {
        let (Some(tail), Some(session)) = (&mut self.tail, &self.state.session) else { return };
        // Entries that exceed the quota stay in the transcript and are read later.
        while self.outbox.accepts_transcript(session) {
            let next = self.outbox.next_transcript_entry(session);
            tail.seek_after(next - 1);
            match tail.read() {
                Ok(entries) if entries.is_empty() => return,
                Ok(entries) => {
                    self.outbox.transcript(session, entries);
                    if self.outbox.next_transcript_entry(session) == next {
                        return;
                    }
                }
                Err(why) => {
                    tracing::warn!("Cannot copy the agent's transcript: {why}");
                    let error = why.to_string();
                    self.outbox.emit(Event::worker(WorkerTranscriptLost { error, ..Default::default() }));
                    self.tail = None;
                    return;
                }
            }
        }
    }

    fn wait_for_messages(&mut self, message: &str) {
        self.agent_state.send_modify(|state| state.status = Status::Waiting);
        let (message, turn) = (message.to_owned(), self.turns);
        self.outbox.emit(Event::agent(AgentWaiting { message, turn }));
    }

    /// Whether no work is in progress or pending.
    fn is_idle(&self) -> bool {
        let has_messages = self.agent.is_some() && !self.state.pending.is_empty();
        self.activity == AgentActivity::Idle
            && self.inspection.is_none()
            && self.schedule.restart_at.is_none()
            && !has_messages
    }

    fn save(&mut self) {
        self.schedule.saved_at = Instant::now();
        if let Err(why) = self.state_file.save(&self.state) {
            tracing::error!("Cannot save the worker state: {why}. A crash may repeat work");
        }
    }
}

fn continuous_started_event(goal: &str, limits: &Continuous, requirements: &Requirements) -> Event {
    Event::worker(ContinuousStarted {
        goal: first_chars(goal, 500).to_owned(),
        limits: ContinuousLimits {
            max_iterations: limits.max_iterations,
            max_cost_usd: limits.max_cost_usd,
            max_duration_seconds: limits.max_duration.as_secs(),
            max_consecutive_errors: limits.max_consecutive_errors,
        },
        completion_signal: limits.completion_signal.clone(),
        completion_threshold: limits.completion_threshold,
        validation_requirements: ValidationRequirements {
            clean: requirements.clean,
            pushed: requirements.pushed,
            pull_request: requirements.pull_request,
            tests: requirements.tests.clone(),
        },
    })
}

/// Next output of the agent; never resolves if there is no agent.
async fn next_output(agent: &mut Option<AgentHandle>) -> AgentOutput {
    let Some(agent) = agent else { return std::future::pending().await };
    agent.next().await
}

async fn finished_inspection(inspection: &mut Option<JoinHandle<Inspection>>) -> Inspection {
    let Some(running) = inspection else { return std::future::pending().await };
    let done = running.await;
    *inspection = None;
    done.unwrap_or_else(|why| Inspection::failed(&why.to_string()))
}
