//! One run of a worker: the agent, what it tells, what it is told, and when its task is done.
//!
//! **Invariant:** nothing here waits for the network. What is said goes to the outbox, which is a file; what takes long
//! (checking the repository, looking at files) runs beside. So an agent is never held up by a plane that is away.

mod crew;
mod ending;
mod mail;
mod observers;

use crate::agents::{Ask, End, Mood, Running, Tell, TurnEnd};
use crate::completion::{Next, Outcome, Plan, Progress};
use crate::config::{Agent, Config, Continuous, Requirements};
use crate::event::{Event, first_chars};
use crate::heartbeat::{Status, Vitals};
use crate::inbox::{Arrival, Inbox};
use crate::outbox::{Fate, Outbox};
use crate::state::{Kept, ProcessMark, State};
use crate::transcript::Tail;
use crate::workspace::snapshot::Snapshots;
pub(crate) use crew::Crew;
use domain::message;
use ending::{Inspection, Purpose};
use mail::Interruption;
use observers::Observers;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// The plane has a newer run of this worker: this one must not go on.
pub const FENCED: u8 = 3;

/// How often the worker looks at what tells nothing by itself.
const TICK: Duration = Duration::from_secs(1);
/// How often an agent that died is started again without having finished a turn in between.
const MOST_CRASHES: u64 = 3;

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
    /// Turns that ended since the agent was last idle.
    ends: Vec<TurnEnd>,
    /// Who stopped the turn, until the agent has.
    interruption: Option<Interruption>,
    /// A look at the repository that runs.
    inspection: Option<JoinHandle<Inspection>>,
    /// When to go on, and with which prompt.
    next_iteration: Option<(Instant, String)>,
    /// When to start an agent again that died.
    restart_at: Option<Instant>,
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
        let observers = Observers::start(&outbox, snapshots, config.preview);
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
            ends: Vec::new(),
            interruption: None,
            inspection: None,
            next_iteration: None,
            restart_at: None,
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
                Some(tell) = next_tell(&mut self.agent) => self.told(tell).await,
                inspection = finished(&mut self.inspection) => self.inspected(inspection).await,
                () = at(iterate_at) => self.iterate().await,
                () = at(self.restart_at) => self.start_agent().await,
                _ = tick.tick() => self.tick().await,
            }
            if self.state.outcome.is_some() && self.config.exit_when_done && self.is_quiet() {
                break Why::Told("complete");
            }
        };
        self.end(why).await
    }

    /// Gives the agent its task, or goes on with it.
    async fn begin(&mut self) {
        let first_life = self.state.session.is_none() || self.state.progress == Progress::default();
        let task = self.config.task.prompt().filter(|_| first_life && self.state.prompt.is_none());
        if let Some(task) = &task {
            let prompt = self.plan.first_prompt(task);
            if let Some(limits) = &self.plan.continuous {
                self.outbox.tell(continuous_started(task, limits, &self.config.requirements));
            }
            let event = self.state.progress.begin(&prompt);
            if self.plan.continuous.is_some() {
                self.outbox.tell(event);
            }
            self.state.prompt = Some(prompt);
            self.save();
        }
        self.start_agent().await;
        self.outbox.tell(self.started());
        if self.state.prompt.is_none() {
            self.wait_for_messages("nothing to do yet; ready to be told");
        }
    }

    /// The same name in every life: it is told once.
    fn started(&self) -> Event {
        let (config, task) = (&self.config, &self.config.task);
        let agent = match &config.agent {
            Agent::Claude => "claude",
            Agent::Acp(_) => "acp",
            Agent::Scripted(_) => "scripted",
        };
        Event::worker("agent.started")
            .named(format!("started-{}", config.sandbox))
            .with("sdk", agent)
            .with_some("model", config.model.clone())
            .with("task", task.headline())
            .with("task_description_length", task.prompt().map_or(0, |prompt| prompt.chars().count()))
            .with_some("ticket_title", task.ticket_title.clone())
            .with_some("session_id", self.state.session.clone())
            .with_some("resumed_session_id", config.resume.as_ref().map(|resume| resume.session.to_string()))
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
            Tell::Ended(end) => self.agent_ended(end),
        }
    }

    async fn mood(&mut self, mood: Mood) {
        self.mood = mood;
        let status = if mood == Mood::Working { Status::Working } else { Status::Waiting };
        self.vitals.send_modify(|vitals| vitals.status = status);
        if mood == Mood::Idle && !self.ends.is_empty() {
            self.rested().await;
        }
    }

    fn turn_ended(&mut self, end: TurnEnd) {
        self.copy_transcript();
        self.turns = end.turns;
        self.state.crashes = 0;
        let (turns, cost_usd) = (end.turns, self.state.progress.cost_usd + end.cost_usd);
        self.vitals.send_modify(|vitals| {
            vitals.turns = turns;
            vitals.cost_usd = cost_usd;
        });
        if end.success {
            // A turn that was taken up again after a crash has no other receipt for what began it.
            for uuid in &end.answered {
                self.receipt(*uuid, message::State::Completed);
            }
        }
        self.ends.push(end);
        self.save();
    }

    /// The agent has nothing left to do. Background tasks have ended too, so this, not the end of the first turn, is
    /// when a task may be done.
    async fn rested(&mut self) {
        let end = together(std::mem::take(&mut self.ends));
        if self.state.outcome.is_some() || self.state.prompt.is_none() {
            // A conversation beside the task, or before there is one: it decides nothing.
            self.state.progress.cost_usd += end.cost_usd;
            self.save();
            self.wait_for_messages("ready for the next message");
            return;
        }
        let mut told = Vec::new();
        let next = self.plan.turn_ended(&mut self.state.progress, &end, &mut told);
        self.follow(next, told).await;
    }

    /// Does what comes next.
    async fn follow(&mut self, next: Next, told: Vec<Event>) {
        for event in told {
            self.outbox.tell(event);
        }
        match next {
            Next::Iterate { prompt, pause } => self.next_iteration = Some((Instant::now() + pause, prompt)),
            Next::Validate => self.inspect(Purpose::Validate),
            Next::Done(outcome) => self.inspect(Purpose::Finish(outcome)),
            Next::Wait => self.wait_for_messages("stopped; say how to go on"),
        }
        self.save();
    }

    async fn iterate(&mut self) {
        let Some((_, prompt)) = self.next_iteration.take() else { return };
        self.begin_iteration(prompt).await;
    }

    async fn begin_iteration(&mut self, prompt: String) {
        let event = self.state.progress.begin(&prompt);
        if self.plan.continuous.is_some() {
            self.outbox.tell(event);
        }
        self.state.prompt = Some(prompt);
        self.save();
        let say = self.crew.prompt(&self.state);
        if let Some(say) = say {
            self.ask(Ask::Say(say)).await;
        }
    }

    /// Asks the agent, if there is one. One that is about to be started again is told then.
    async fn ask(&self, ask: Ask) {
        if let Some(agent) = &self.agent {
            // One that has just died is started again, and told what it has not read.
            let _ = agent.asks.send(ask).await;
        }
    }

    async fn tick(&mut self) {
        self.copy_transcript();
        if self.state.outcome.is_some() || self.state.prompt.is_none() {
            return;
        }
        self.state.progress.elapsed_seconds += TICK.as_secs();
        let limit = self.plan.continuous.as_ref().map(|limits| limits.max_duration.as_secs());
        let elapsed = self.state.progress.elapsed_seconds;
        if limit.is_some_and(|limit| elapsed >= limit)
            && self.mood == Mood::Working
            && self.inspection.is_none()
        {
            let outcome = Outcome::failure("max_duration_reached", format!("it has taken {elapsed} s"));
            self.ask(Ask::Interrupt { cancel_queued: true }).await;
            self.follow(Next::Done(outcome), Vec::new()).await;
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

    fn agent_ended(&mut self, end: End) {
        self.copy_transcript();
        self.agent = None;
        self.state.process = None;
        self.mood = Mood::Idle;
        self.ends.clear();
        let (error, error_type) = match &end {
            End::Left { code } => (format!("the agent left with exit code {code}"), "exit"),
            End::Killed { out_of_memory: true, .. } => {
                ("the agent was killed for want of memory".into(), "out_of_memory")
            }
            End::Killed { signal: 9, .. } => ("the agent was killed".into(), "sigkill"),
            End::Killed { signal, .. } => (format!("the agent was ended by signal {signal}"), "signal"),
            End::NotStarted { reason } => (reason.clone(), "not_started"),
        };
        tracing::warn!("The agent has ended: {error}");
        self.state.crashes += 1;
        let again = self.state.crashes <= MOST_CRASHES && !matches!(end, End::NotStarted { .. });
        let event = Event::worker("agent.stream_error")
            .with("error", error.as_str())
            .with("error_type", error_type)
            .with("turn", self.turns)
            .with("crashes", self.state.crashes)
            .with("restarts", again);
        self.outbox.tell(event);
        if again {
            let pause = Duration::from_secs(1 << (self.state.crashes - 1).min(4));
            self.restart_at = Some(Instant::now() + pause);
            self.vitals.send_modify(|vitals| vitals.status = Status::Starting);
        } else if self.state.outcome.is_none() {
            self.outbox.tell(
                Event::worker("agent.error").with("error", error.as_str()).with("phase", "initialization"),
            );
            self.inspect(Purpose::Finish(Outcome::failure("agent_died", error)));
        }
        self.save();
    }

    fn wait_for_messages(&mut self, message: &str) {
        self.vitals.send_modify(|vitals| vitals.status = Status::Waiting);
        self.outbox.tell(Event::agent("agent.waiting").with("message", message).with("turn", self.turns));
    }

    /// Whether nothing is under way.
    fn is_quiet(&self) -> bool {
        self.mood == Mood::Idle && self.inspection.is_none() && self.restart_at.is_none()
    }

    fn save(&self) {
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

/// Several turns as one: what they cost together, and how the last one ended.
fn together(ends: Vec<TurnEnd>) -> TurnEnd {
    let mut all = ends.into_iter();
    let first = all.next().unwrap_or_default();
    all.fold(first, |sum, end| {
        let cost_usd = sum.cost_usd + end.cost_usd;
        let tokens = sum.tokens.plus(end.tokens);
        TurnEnd { cost_usd, tokens, ..end }
    })
}

/// What the agent tells next; never, if there is none.
async fn next_tell(agent: &mut Option<Running>) -> Option<Tell> {
    match agent {
        Some(agent) => agent.tells.recv().await,
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn finished(inspection: &mut Option<JoinHandle<Inspection>>) -> Inspection {
    let Some(running) = inspection else { return std::future::pending().await };
    let done = running.await;
    *inspection = None;
    done.unwrap_or_else(|why| Inspection::broken(&why.to_string()))
}
