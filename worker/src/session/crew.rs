//! Starting the agent, also again after it died or the worker did.

use super::Session;
use super::past::Past;
use crate::agents::claude::story::Story;
use crate::agents::policy::Policy;
use crate::agents::{End, Mood, Running, Say, acp, claude};
use crate::completion::{Next, Outcome};
use crate::config::{Agent, Config, KEPT_FROM_THE_AGENT};
use crate::event::Event;
use crate::heartbeat::Status;
use crate::state::{State, Step};
use crate::transcript::{self, Tail};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

const PROMPTS: Uuid = Uuid::from_u128(0x2b1d_9a3e_77c4_4f0b_8d6a_c3f1_58e0_94b2);

/// What an agent reads whose work was cut off.
const GO_ON: &str = "Your work was cut off. Continue where you left off.";

/// How often an agent that died is started again without having finished a turn in between.
const MOST_CRASHES: u64 = 3;

/// How agents are started here.
#[derive(Debug, Clone)]
pub(crate) struct Crew {
    /// How this program is called, for agents that are part of it.
    pub program: Vec<String>,
    /// What is added to an agent's environment, such as how git finds its credentials.
    pub env: Vec<(String, String)>,
    /// How many lines of the agent's record were written in another sandbox.
    pub inherited: u64,
    /// The session to begin as a copy of.
    pub fork_of: Option<Uuid>,
    /// Which sandbox.
    pub sandbox: String,
}

impl Crew {
    /// The prompt of the iteration that runs, under the name that it has in every life.
    pub(super) fn prompt(&self, state: &State) -> Option<Say> {
        let text = state.prompt.clone()?;
        Some(Say { uuid: self.name(&state.progress.iteration.to_string()), text })
    }

    /// What an agent is told that should go on by itself, and does not.
    pub(super) fn nudge(&self, state: &State) -> Say {
        let uuid = self.name(&format!("{}/nudge/{}", state.progress.iteration, state.nudges));
        Say { uuid, text: GO_ON.to_owned() }
    }

    fn name(&self, what: &str) -> Uuid {
        Uuid::new_v5(&PROMPTS, format!("{}/{what}", self.sandbox).as_bytes())
    }
}

impl Session {
    /// Starts the agent, and tells it what it should know and does not.
    pub(super) async fn start_agent(&mut self) {
        self.restart_at = None;
        self.nudge_at = None;
        if let Some(left_over) = self.state.process.take()
            && left_over.kill_if_alive().await
        {
            tracing::warn!("An agent of an earlier life of this worker was still there and was killed");
        }
        let (running, past) = match &self.config.agent {
            Agent::Acp(command) => self.start_acp(command.clone()),
            Agent::Claude => {
                let command = vec![self.config.claude.clone()];
                self.start_claude(command)
            }
            Agent::Scripted(script) => {
                let mut command = self.crew.program.clone();
                command.extend(["play".to_owned(), script.clone()]);
                self.start_claude(command)
            }
        };
        self.agent = Some(running);
        self.save();
        let status = if self.state.prompt.is_some() { Status::Working } else { Status::Waiting };
        self.vitals.send_modify(|vitals| vitals.status = status);
        self.brief(past).await;
    }

    /// The agent is gone. It is started again, or the task has failed.
    pub(super) async fn agent_ended(&mut self, end: End) {
        self.copy_transcript();
        (self.agent, self.state.process, self.mood, self.nudge_at) = (None, None, Mood::Idle, None);
        self.observers.watch(None);
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
        self.interrupted_without_agent();
        if !self.state.ends.is_empty() {
            // Its turn had ended; only what it had left in the background has not.
            self.rested().await;
        }
        if again {
            let pause = Duration::from_secs(1 << (self.state.crashes - 1).min(4));
            self.restart_at = Some(Instant::now() + pause);
            self.vitals.send_modify(|vitals| vitals.status = Status::Starting);
        } else if self.state.outcome.is_none() && !matches!(self.state.step, Step::Finishing(_)) {
            let phase = if error_type == "not_started" { "initialization" } else { "execution" };
            self.outbox.tell(Event::worker("agent.error").with("error", error.as_str()).with("phase", phase));
            if let Some(validation) = self.inspection.take() {
                validation.abort();
            }
            self.follow(Next::Done(Outcome::failure("agent_died", error)));
        }
        self.save();
    }

    fn start_acp(&mut self, command: Vec<String>) -> (Running, Past) {
        let settings = acp::Settings {
            command,
            env: self.crew.env.clone(),
            env_removed: KEPT_FROM_THE_AGENT.map(String::from).to_vec(),
            cwd: self.config.cwd.clone(),
            resume: self.state.session.clone(),
            policy: policy(&self.config),
        };
        (acp::start(settings), Past::default())
    }

    fn start_claude(&mut self, command: Vec<String>) -> (Running, Past) {
        let config_dir = self.config.record_dir();
        let session = self.state.session.as_deref().and_then(|session| session.parse().ok());
        let session: Uuid = session.unwrap_or_else(Uuid::new_v4);
        self.state.session = Some(session.to_string());
        let path = transcript::path(&config_dir, &self.config.cwd, &session.to_string());
        let mut past = self.past(&path);
        past.goes_on = self.goes_on(&past);
        let copied = self.outbox.transcript_next(&session.to_string()).saturating_sub(1);
        self.tail = Some(Tail::new(path, copied));
        let begin = match (past.exists, self.crew.fork_of) {
            (true, _) => claude::Session::Resume(session),
            (false, Some(from)) => claude::Session::Fork { from, to: session },
            (false, None) => claude::Session::New(session),
        };
        let mut env = vec![("CLAUDE_CONFIG_DIR".to_owned(), config_dir.display().to_string())];
        env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
        env.extend(self.crew.env.iter().cloned());
        let config = &self.config;
        let settings = claude::Settings {
            command,
            cwd: config.cwd.clone(),
            env,
            env_removed: KEPT_FROM_THE_AGENT.map(String::from).to_vec(),
            session: begin,
            continues: past.goes_on,
            model: config.model.clone(),
            policy: policy(config),
            allowed_tools: config.allowed_tools.clone(),
            disallowed_tools: config.disallowed_tools.clone(),
            max_turns: Some(config.max_turns),
            max_budget_usd: Some(config.max_budget_usd),
            system_prompt: config.system_prompt.clone(),
            append_system_prompt: config.append_system_prompt.clone(),
            setting_sources: config.setting_sources.clone(),
            partial_messages: config.partial_messages,
            background_patience: config.background_patience,
        };
        let story = past.story.take().unwrap_or_else(|| Story::new(config.cwd.clone()));
        (claude::start(&settings, story), past)
    }
}

fn policy(config: &Config) -> Policy {
    // Rules with patterns are the CLI's own business.
    let denied = config.disallowed_tools.iter().filter(|tool| !tool.contains('(')).cloned().collect();
    Policy { mode: config.permission_mode, denied, root: config.cwd.clone() }
}
