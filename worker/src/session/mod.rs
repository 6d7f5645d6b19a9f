//! One run of a worker: the agent, what it tells, what it is told, and when its task is done.
//!
//! **Invariant:** nothing here waits for the network. What is said goes to the outbox, which is a file; what takes long
//! (checking the repository, looking at files) runs beside. So an agent is never held up by a plane that is away.

mod crew;
mod ending;
mod mail;
mod observers;
mod past;
mod turns;

use crate::agents::{Ask, End, Mood, Running, Tell};
use crate::clock::at;
use crate::completion::Plan;
use crate::config::{Agent, Config, Continuous, Requirements};
use crate::event::{Event, first_chars};
use crate::heartbeat::{Status, Vitals};
use crate::inbox::{Arrival, Inbox};
use crate::outbox::{Fate, Outbox};
use crate::state::{Kept, ProcessMark, State};
use crate::transcript::Tail;
use crate::workspace::snapshot::Snapshots;
pub(crate) use crew::Crew;
use ending::Inspection;
pub(crate) use ending::OUTCOME;
use mail::Interruption;
use observers::Observers;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use uuid::Uuid;

/// The plane has a newer run of this worker: this one must not go on.
pub const FENCED: u8 = 3;

/// How long an agent waits for the first look at its files. A large repository is looked at while it works.
const FIRST_LOOK: Duration = Duration::from_secs(3);
/// How often the worker looks at what tells nothing by itself.
const TICK: Duration = Duration::from_secs(1);
/// How long a worker that leaves by itself tries to send what it has told.
const PATIENCE_WHEN_DONE: Duration = Duration::from_secs(5 * 60);

/// What a run of the worker is made of.
pub(crate) struct Session {
    config: Config,
    crew: Crew,
    outbox: Outbox,
    kept: Kept,
    state: State,
    plan: Plan,
    agent: Option<Running>,
    mood: Mood,
    vitals: watch::Sender<Vitals>,
    observers: Observers,
    tail: Option<Tail>,
    /// Who stopped the turn, until the agent has.
    interruptions: Vec<Interruption>,
    /// Messages whose turn was taken up again: the agent confirms them under no name.
    taken_up: Vec<Uuid>,
    /// A look at the repository that runs.
    inspection: Option<JoinHandle<Inspection>>,
    /// When to go on, and with which prompt.
    next_iteration: Option<(Instant, String)>,
    /// When to start an agent again that died.
    restart_at: Option<Instant>,
    /// When to tell an agent to go on that should do so by itself.
    nudge_at: Option<Instant>,
    ticked_at: Instant,
    saved_at: Instant,
    turns: u64,
}

/// What a session is put together from.
pub(crate) struct Parts {
    pub config: Config,
    pub crew: Crew,
    pub outbox: Outbox,
    pub kept: Kept,
    pub state: State,
    pub plan: Plan,
    pub vitals: watch::Sender<Vitals>,
    pub snapshots: Snapshots,
}

/// Everything that reaches a session from outside.
pub(crate) struct Outside {
    /// Messages, and the end of the sandbox.
    pub inbox: Inbox,
    /// What becomes of the outbox.
    pub fate: watch::Receiver<Fate>,
    /// Somebody wants the worker to stop.
    pub stop: watch::Receiver<bool>,
}

/// Why a session ends.
enum Why {
    /// Somebody said so.
    Told(&'static str),
    /// A newer run has taken over.
    Fenced,
}

impl Session {
    /// Puts it together; nothing runs yet but those who watch.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { config, crew, outbox, kept, state, plan, vitals, snapshots } = parts;
        let observers = Observers::start(&outbox, snapshots, config.preview, vitals.clone());
        Self {
            config,
            crew,
            outbox,
            kept,
            state,
            plan,
            agent: None,
            mood: Mood::Idle,
            vitals,
            observers,
            tail: None,
            interruptions: Vec::new(),
            taken_up: Vec::new(),
            inspection: None,
            next_iteration: None,
            restart_at: None,
            nudge_at: None,
            ticked_at: Instant::now(),
            saved_at: Instant::now(),
            turns: 0,
        }
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self, mut outside: Outside) -> ExitCode {
        self.begin().await;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let why = loop {
            let iterate_at = self.next_iteration.as_ref().map(|(at, _)| *at);
            tokio::select! {
                Ok(_) = outside.stop.wait_for(|stop| *stop) => break Why::Told("signal"),
                Ok(_) = outside.fate.wait_for(|fate| matches!(fate, Fate::Fenced { .. })) => break Why::Fenced,
                Some(arrival) = outside.inbox.arrivals.recv() => match arrival {
                    Arrival::Message(message) => self.message(*message).await,
                    Arrival::Again(id) => self.came_again(&id),
                    Arrival::Finished { .. } => break Why::Told("sandbox_finished"),
                },
                tell = next_tell(&mut self.agent) => self.told(tell).await,
                inspection = finished(&mut self.inspection) => self.inspected(inspection),
                () = at(iterate_at) => self.iterate().await,
                () = at(self.restart_at) => self.start_agent().await,
                () = at(self.nudge_at) => self.nudge().await,
                _ = tick.tick() => self.tick().await,
            }
            if self.state.outcome.is_some() && self.config.exit_when_done && self.is_quiet() {
                // Nobody waits for it to be gone: what it has told may take its time.
                tokio::select! {
                    _ = self.outbox.flushed(PATIENCE_WHEN_DONE) => {}
                    Ok(_) = outside.stop.wait_for(|stop| *stop) => {}
                }
                break Why::Told("complete");
            }
        };
        self.end(why).await
    }

    /// Gives the agent its task, or goes on with it.
    async fn begin(&mut self) {
        let untold = self.state.prompt.is_none() && self.state.outcome.is_none();
        if let Some(task) = self.config.task.prompt().filter(|_| untold) {
            let prompt = self.plan.first_prompt(&task);
            if let Some(limits) = &self.plan.continuous {
                let event = continuous_started(&task, limits, &self.config.requirements);
                self.tell_once("continuous-started", event);
            }
            self.note_iteration(prompt);
        }
        // What the files were like before, so that what the first tool changes is told as its doing.
        let _ = timeout(FIRST_LOOK, self.observers.settled()).await;
        self.start_agent().await;
        let (sandbox, folder) = (&self.config.sandbox, self.config.cwd.display());
        tracing::info!(sandbox.id = %sandbox, "An agent works for sandbox {sandbox} in {folder}");
        self.tell_once("started", self.started());
        if self.state.prompt.is_none() {
            self.wait_for_messages("nothing to do yet; ready to be told");
        }
    }

    /// Tells what happens once in the life of a sandbox: the same name in every life of the worker, so that one that
    /// was killed before it could note that it has told it does not tell it again.
    fn tell_once(&self, what: &str, event: Event) {
        self.outbox.tell(event.named(format!("{what}-{}", self.config.sandbox)));
    }

    fn started(&self) -> Event {
        let (config, task) = (&self.config, &self.config.task);
        let agent = match &config.agent {
            Agent::Claude => "claude",
            Agent::Acp(_) => "acp",
            Agent::Scripted(_) => "scripted",
        };
        Event::worker("agent.started")
            .with("sdk", agent)
            .with_some("model", config.model.clone())
            .with("task", task.headline())
            .with("task_description_length", task.prompt().map_or(0, |prompt| prompt.chars().count()))
            .with_some("ticket_title", task.ticket_title.clone())
            .with_some("session_id", self.state.session.clone())
            .with_some("resumed_session_id", config.resume.as_ref().map(|resume| resume.session.as_str()))
            .with("is_resuming", config.resume.is_some())
            .with("fork_session", config.resume.as_ref().is_some_and(|resume| resume.fork))
            .with("worker_version", env!("CARGO_PKG_VERSION"))
    }

    async fn told(&mut self, tell: Tell) {
        match tell {
            Tell::Event(event) => self.outbox.tell(event),
            Tell::Partial(partial) if self.config.partial_messages => self.outbox.partial(partial),
            Tell::Partial(_) => {}
            Tell::Receipt { uuid, state } => self.receipt(uuid, state),
            Tell::Interrupted { cancelled } => self.interrupted(&cancelled),
            Tell::ToolEnded { tool_use_id, turn, edited } => {
                self.turns = turn;
                self.observers.tool_ended(tool_use_id, turn, edited);
            }
            Tell::Progress => self.vitals.send_modify(|vitals| vitals.progress += 1),
            Tell::Recorded => self.copy_transcript(),
            Tell::Process(id) => {
                self.state.process = ProcessMark::of(id);
                self.save();
                self.observers.watch(Some(id));
            }
            Tell::Session(session) => {
                self.state.session = Some(session);
                self.save();
            }
            Tell::Mood(mood) => self.mood(mood).await,
            Tell::TurnEnded(end) => self.turn_ended(*end),
            Tell::Ended(end) => self.agent_ended(end).await,
        }
    }

    /// Asks the agent, if there is one. One that is about to be started again is told then.
    async fn ask(&self, ask: Ask) {
        if let Some(agent) = &self.agent {
            // One that has just died is started again, and told what it has not read.
            let _ = agent.asks.send(ask).await;
        }
    }

    /// Looks what the agent has written into its own record.
    fn copy_transcript(&mut self) {
        let (Some(tail), Some(session)) = (&mut self.tail, &self.state.session) else { return };
        // What there is no room for stays in the record, and is read later.
        while self.outbox.transcript_wanted(session) {
            let next = self.outbox.transcript_next(session);
            tail.go_on_after(next - 1);
            match tail.read() {
                Ok(entries) if entries.is_empty() => return,
                Ok(entries) => {
                    self.outbox.transcript(session, entries);
                    if self.outbox.transcript_next(session) == next {
                        return;
                    }
                }
                Err(why) => {
                    tracing::warn!("The agent's record cannot be copied: {why}");
                    let event = Event::worker("worker.transcript_lost").with("error", why.to_string());
                    self.outbox.tell(event);
                    self.tail = None;
                    return;
                }
            }
        }
    }

    fn wait_for_messages(&mut self, message: &str) {
        self.vitals.send_modify(|vitals| vitals.status = Status::Waiting);
        self.outbox.tell(Event::agent("agent.waiting").with("message", message).with("turn", self.turns));
    }

    /// Whether nothing is under way.
    fn is_quiet(&self) -> bool {
        let is_told = self.agent.is_some() && !self.state.pending.is_empty();
        self.mood == Mood::Idle && self.inspection.is_none() && self.restart_at.is_none() && !is_told
    }

    fn save(&mut self) {
        self.saved_at = Instant::now();
        if let Err(why) = self.kept.save(&self.state) {
            tracing::error!(
                "The worker's state cannot be kept: {why}. After a crash it may do something twice"
            );
        }
    }
}

fn continuous_started(goal: &str, limits: &Continuous, requirements: &Requirements) -> Event {
    Event::worker("continuous.started")
        .with("goal", first_chars(goal, 500))
        .with(
            "limits",
            serde_json::json!({
                "max_iterations": limits.max_iterations,
                "max_cost_usd": limits.max_cost_usd,
                "max_duration_seconds": limits.max_duration.as_secs(),
                "max_consecutive_errors": limits.max_consecutive_errors,
            }),
        )
        .with("completion_signal", limits.completion_signal.as_str())
        .with("completion_threshold", limits.completion_threshold)
        .with(
            "validation_requirements",
            serde_json::json!({
                "clean": requirements.clean,
                "pushed": requirements.pushed,
                "pull_request": requirements.pull_request,
                "tests": requirements.tests,
            }),
        )
}

/// What the agent tells next; never, if there is none.
async fn next_tell(agent: &mut Option<Running>) -> Tell {
    let Some(agent) = agent else { return std::future::pending().await };
    // Whoever drives an agent says how it ended. If not even that, it is gone all the same.
    let broken = || Tell::Ended(End::NotStarted { reason: "what drives the agent broke".into() });
    agent.tells.recv().await.unwrap_or_else(broken)
}

async fn finished(inspection: &mut Option<JoinHandle<Inspection>>) -> Inspection {
    let Some(running) = inspection else { return std::future::pending().await };
    let done = running.await;
    *inspection = None;
    done.unwrap_or_else(|why| Inspection::broken(&why.to_string()))
}
