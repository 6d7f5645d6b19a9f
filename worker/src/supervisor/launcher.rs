//! Starts the agent, and restarts it after it or the worker crashed.

use super::Supervisor;
use super::history::History;
use crate::agents::policy::Policy;
use crate::agents::{AgentActivity, AgentHandle, ExitReason, Launch, Sessions, UserMessage};
use crate::completion::{Next, Outcome};
use crate::config::Config;
use crate::event::Event;
use crate::heartbeat::Status;
use crate::preview::Loopback;
use crate::state::{State, Step};
use crate::transcript::{self, Tail};
use client::{Backoff, Wait};
use contract::payloads::{AgentError, AgentStreamError};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Namespace of prompt ids.
const PROMPTS: Uuid = Uuid::from_u128(0x2b1d_9a3e_77c4_4f0b_8d6a_c3f1_58e0_94b2);

/// Prompt for an agent whose turn was interrupted by a crash.
const CONTINUE_PROMPT: &str = "Your work was interrupted. Continue where you left off.";

/// Maximum number of consecutive restarts without a completed turn.
const MAX_RESTARTS: u64 = 3;

/// Delays before restarts.
const RESTARTS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(16));

/// How to start the agent.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    /// Command line of this program.
    pub program: Vec<String>,
    /// Starts programs in the trust domain of the agent.
    pub confined: confine::Launcher,
    /// Added to the agent's environment: endpoints, worthless keys and the proxy.
    pub env: Vec<(String, String)>,
    /// Number of transcript lines that were written in another sandbox.
    pub inherited: u64,
    /// Session to fork.
    pub fork_of: Option<Uuid>,
    pub sandbox: String,
    /// How the worker reaches ports of the agent.
    pub loopback: Loopback,
}

impl Launcher {
    /// Prompt of the current iteration. Its id is the same after a restart.
    pub(super) fn prompt(&self, state: &State) -> Option<UserMessage> {
        let text = state.prompt.clone()?;
        Some(UserMessage { uuid: self.message_id(&state.progress.iteration.to_string()), text })
    }

    /// Prompt for an agent that has not resumed its turn by itself.
    pub(super) fn continue_prompt(&self, state: &State) -> UserMessage {
        let uuid = self.message_id(&format!("{}/nudge/{}", state.progress.iteration, state.nudges));
        UserMessage { uuid, text: CONTINUE_PROMPT.to_owned() }
    }

    fn message_id(&self, key: &str) -> Uuid {
        Uuid::new_v5(&PROMPTS, format!("{}/{key}", self.sandbox).as_bytes())
    }
}

impl Supervisor {
    /// Starts the agent and sends it the messages that it has not read.
    pub(super) async fn start_agent(&mut self) {
        self.schedule.restart_at = None;
        self.schedule.nudge_at = None;
        if let Some(orphan) = self.state.process.take()
            && orphan.kill_if_alive().await
        {
            tracing::warn!("Killed an agent left running by an earlier worker process");
        }
        let (handle, history) = self.launch();
        self.agent = Some(handle);
        self.save();
        let status = if self.state.prompt.is_some() { Status::Working } else { Status::Waiting };
        self.agent_state.send_modify(|state| state.status = status);
        self.send_unread(history).await;
    }

    /// Restarts an agent that has exited, or fails the task.
    pub(super) async fn agent_exited(&mut self, reason: ExitReason) {
        self.copy_transcript();
        (self.agent, self.state.process, self.activity, self.schedule.nudge_at) =
            (None, None, AgentActivity::Idle, None);
        self.observers.watch(None);
        let (error, error_type) = match &reason {
            ExitReason::Exited { code } => (format!("the agent exited (exit code {code})"), "exit"),
            ExitReason::Killed { out_of_memory: true, .. } => {
                ("the agent ran out of memory and was killed".into(), "out_of_memory")
            }
            ExitReason::Killed { signal: 9, .. } => ("the agent was killed".into(), "sigkill"),
            ExitReason::Killed { signal, .. } => {
                (format!("the agent was terminated by signal {signal}"), "signal")
            }
            ExitReason::NotStarted { reason } => (reason.clone(), "not_started"),
        };
        tracing::warn!("The agent has exited: {error}");
        self.state.crashes += 1;
        let restart = self.state.crashes <= MAX_RESTARTS && !matches!(reason, ExitReason::NotStarted { .. });
        self.outbox.emit(Event::worker(AgentStreamError {
            error: error.clone(),
            error_type: error_type.to_owned(),
            turn: self.turns,
            crashes: self.state.crashes,
            restarts: restart,
        }));
        self.interrupted_without_agent();
        if !self.state.ended_turns.is_empty() {
            // The turn had ended, and only background tasks were still running.
            self.agent_idle().await;
        }
        if restart {
            let crashes = u32::try_from(self.state.crashes).unwrap_or(u32::MAX);
            let delay = RESTARTS.wait(crashes.saturating_sub(1));
            self.schedule.restart_at = Some(Instant::now() + delay);
            self.agent_state.send_modify(|state| state.status = Status::Starting);
        } else if self.state.outcome.is_none() && !matches!(self.state.step, Step::Finishing(_)) {
            let phase = if error_type == "not_started" { "initialization" } else { "execution" };
            self.outbox.emit(Event::worker(AgentError {
                error: error.clone(),
                phase: phase.to_owned(),
                ..Default::default()
            }));
            if let Some(validation) = self.inspection.take() {
                validation.abort();
            }
            self.apply(Next::Done(Outcome::failure("agent_died", error)));
        }
        self.save();
    }

    /// Finds out what the agent did before, and starts it.
    fn launch(&mut self) -> (AgentHandle, History) {
        let mut launch = self.launch_settings();
        if let Sessions::Transcripts(directory) = self.config.agent.sessions() {
            let session = self.state.session.as_deref().and_then(|session| session.parse().ok());
            let session = session.unwrap_or_else(Uuid::new_v4).to_string();
            let path = transcript::path(&directory, &self.config.cwd, &session);
            let copied = self.outbox.next_transcript_entry(&session).saturating_sub(1);
            self.tail = Some(Tail::new(path, copied));
            self.state.session = Some(session.clone());
            launch.session = Some(session);
        }
        let recovered = self.config.agent.recover(&launch);
        let history = recovered.map(|recovered| self.history(recovered)).unwrap_or_default();
        launch.resume_turn = history.resumes_turn;
        (self.config.agent.start(launch), history)
    }

    fn launch_settings(&self) -> Launch {
        let (config, launcher) = (&self.config, &self.launcher);
        Launch {
            worker: launcher.program.clone(),
            launcher: launcher.confined.with_variables(config.confinement.agent_environment.clone()),
            cwd: config.cwd.clone(),
            env: launcher.env.clone(),
            session: self.state.session.clone(),
            fork_of: launcher.fork_of,
            inherited: launcher.inherited,
            resume_turn: false,
            model: config.model.clone(),
            policy: policy(config),
            allowed_tools: config.allowed_tools.clone(),
            disallowed_tools: config.disallowed_tools.clone(),
            max_turns: config.max_turns,
            max_budget_usd: config.max_budget_usd,
            system_prompt: config.system_prompt.clone(),
            append_system_prompt: config.append_system_prompt.clone(),
            partial_messages: config.partial_messages,
            background_timeout: config.background_timeout,
        }
    }
}

fn policy(config: &Config) -> Policy {
    // Rules with patterns, such as `Bash(rm:*)`, are enforced by the CLI itself.
    let denied = config.disallowed_tools.iter().filter(|tool| !tool.contains('(')).cloned().collect();
    Policy { mode: config.permission_mode, denied, root: config.cwd.clone() }
}
