//! Shuts the worker down within the grace period.

use super::messages::Interruption;
use super::{EXIT_FENCED, SANDBOX_FINISHED, StopReason, Supervisor};
use crate::agents::{AgentActivity, AgentCommand, AgentOutput};
use crate::event::Event;
use crate::heartbeat::Status;
use contract::payloads::AgentShutdown;
use domain::message;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The worker exits within this time, whatever blocks. Providers kill it shortly afterwards.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(9_000);
/// The same if the plane has ended the sandbox. It then waits for the worker before it removes the sandbox, by default half
/// a minute (`COMPLETING_TIMEOUT_SECONDS`).
const RELEASE_TIMEOUT: Duration = Duration::from_millis(24_000);
/// The agent must have exited by then, so that its work can be saved.
const TIME_TO_STOP: Duration = Duration::from_millis(5_000);
/// The work must be saved this long before the end, so that the last events can be sent.
const TIME_TO_FLUSH: Duration = Duration::from_millis(1_500);
/// How long to wait for the agent to stop its turn.
const INTERRUPT_TIMEOUT: Duration = Duration::from_millis(2_000);

impl Supervisor {
    /// Stops the agent and flushes the outbox within [`SHUTDOWN_TIMEOUT`], or within [`RELEASE_TIMEOUT`].
    pub(super) async fn shut_down(mut self, reason: StopReason) -> ExitCode {
        let limit = match &reason {
            StopReason::Requested(SANDBOX_FINISHED) => RELEASE_TIMEOUT,
            StopReason::Requested(_) | StopReason::Fenced | StopReason::Failed(_) => SHUTDOWN_TIMEOUT,
        };
        let (agent_deadline, deadline) = (Instant::now() + TIME_TO_STOP, Instant::now() + limit);
        let (reason, code) = match reason {
            StopReason::Fenced => {
                tracing::error!("A newer worker has taken over this sandbox; exiting immediately");
                drop(self.agent.take());
                return ExitCode::from(EXIT_FENCED);
            }
            StopReason::Failed(failure) => {
                tracing::error!("A part of the worker has panicked: {failure}");
                self.emit_failure(&failure, "worker");
                ("internal_error", ExitCode::FAILURE)
            }
            StopReason::Requested(reason) => (reason, ExitCode::SUCCESS),
        };
        tracing::info!("Shutting down: {reason}");
        self.agent_state.send_modify(|state| state.status = Status::Stopping);
        if self.activity == AgentActivity::Working {
            self.interrupt(Interruption { message_id: None, sender_id: None, reason: "shutdown" }).await;
            let _ = timeout(INTERRUPT_TIMEOUT, self.drain_until_idle()).await;
        }
        self.send_command(AgentCommand::Stop).await;
        let _ = timeout_at(agent_deadline, self.drain_until_exit()).await;
        self.agent = None;
        self.copy_transcript();
        // It may wait for the host, and the next run repeats it.
        if let Some(inspection) = self.inspection.take() {
            inspection.abort();
        }
        let remaining = deadline.saturating_duration_since(Instant::now()).saturating_sub(TIME_TO_FLUSH);
        tokio::join!(briefly(self.observers.drained()), self.save_before_exit(remaining));
        self.outbox.emit(Event::worker(AgentShutdown {
            reason: reason.to_owned(),
            total_turns: self.turns,
            task_finished: Some(self.state.outcome.is_some()),
        }));
        self.state.process = None;
        self.save();
        let remaining = deadline.saturating_duration_since(Instant::now());
        if !self.outbox.flushed(remaining).await {
            let waiting = self.outbox.status().waiting_events;
            tracing::warn!(
                "{waiting} events were not sent in time; the next run in this directory sends them"
            );
        }
        code
    }

    /// Handles remaining output until the agent's turn has ended.
    async fn drain_until_idle(&mut self) {
        while self.activity == AgentActivity::Working {
            let output = super::next_output(&mut self.agent).await;
            self.handle_final_output(output);
        }
    }

    /// Handles remaining output until the agent has exited.
    async fn drain_until_exit(&mut self) {
        while self.agent.is_some() {
            let output = super::next_output(&mut self.agent).await;
            self.handle_final_output(output);
        }
    }

    fn handle_final_output(&mut self, output: AgentOutput) {
        match output {
            AgentOutput::Event(event) => {
                self.observers.agent_emitted(&event);
                self.outbox.emit(event);
            }
            // Cancelled only because of the shutdown. The next run sends the message again.
            AgentOutput::Receipt { state: message::State::Cancelled, .. } => {}
            AgentOutput::Receipt { uuid, state } => self.receipt(uuid, state),
            AgentOutput::Interrupted { cancelled } => self.interrupted(&cancelled),
            AgentOutput::Activity(activity) => self.activity = activity,
            AgentOutput::TranscriptWritten => self.copy_transcript(),
            // The next run resumes this turn.
            AgentOutput::TurnEnded(end) if end.interrupted => self.state.progress.add(&end),
            AgentOutput::TurnEnded(end) => self.turn_ended(*end),
            AgentOutput::ToolEnded { tool_use_id, turn, edited } => {
                self.observers.tool_ended(tool_use_id, turn, edited);
            }
            AgentOutput::Exited(_) => {
                self.agent = None;
                self.activity = AgentActivity::Idle;
            }
            AgentOutput::Partial(_)
            | AgentOutput::Progress
            | AgentOutput::Session(_)
            | AgentOutput::Process(_) => {}
        }
    }
}

/// Waits for the last changes of files, but not long.
async fn briefly(drained: impl Future<Output = ()>) {
    let _ = timeout(Duration::from_secs(1), drained).await;
}
