//! Evaluates ended turns: next iteration, validation, or the end of the task.
//!
//! The result of a turn is persisted until it is evaluated, and the next step is persisted together with the evaluation
//! (`Step`). So a worker that is killed in between neither evaluates a turn twice nor loses one; at most it emits an
//! event again under the same id.

use super::Supervisor;
use super::inspection::Purpose;
use super::messages::Interruption;
use super::saving::Work;
use crate::agents::{AgentActivity, AgentCommand, TurnEnd};
use crate::completion::{Next, Outcome};
use crate::event::Event;
use crate::heartbeat::Status;
use crate::state::Step;
use crate::workspace::save::Occasion;
use client::{Backoff, Wait};
use domain::message;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum interval between saves of counters such as the elapsed time.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);

/// Delays after failed iterations.
const AFTER_ERRORS: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

impl Supervisor {
    pub(super) async fn activity_changed(&mut self, activity: AgentActivity) {
        self.activity = activity;
        let status = match activity {
            AgentActivity::Working => {
                self.schedule.nudge_at = None;
                Status::Working
            }
            AgentActivity::Idle => Status::Waiting,
        };
        self.agent_state.send_modify(|state| state.status = status);
        if activity == AgentActivity::Idle && !self.state.ended_turns.is_empty() {
            self.agent_idle().await;
        }
    }

    pub(super) fn turn_ended(&mut self, end: TurnEnd) {
        self.observers.turn_ended();
        self.copy_transcript();
        self.turns = end.turns;
        self.state.crashes = 0;
        // The agent sends no receipts for the messages of a resumed turn.
        let mut answered = std::mem::take(&mut self.deliveries.resumed);
        let state = if end.interrupted { message::State::Cancelled } else { message::State::Completed };
        if end.success {
            answered.extend(&end.answered);
        }
        for uuid in answered {
            self.receipt(uuid, state);
        }
        self.state.ended_turns.push(end);
        let (turns, ended_turns) = (self.turns, &self.state.ended_turns);
        let cost_usd = self.state.progress.cost_usd + ended_turns.iter().map(|end| end.cost_usd).sum::<f64>();
        self.agent_state.send_modify(|state| {
            state.turns = turns;
            state.cost_usd = cost_usd;
        });
        self.save();
    }

    /// Evaluates the ended turns. Called when the agent is idle and its background tasks have ended, since only then
    /// can the task be done.
    pub(super) async fn agent_idle(&mut self) {
        let end = combine(&self.state.ended_turns);
        self.save_in_background(Work::Commits);
        if self.state.outcome.is_some() || self.state.prompt.is_none() {
            // A conversation before or after the task does not affect its outcome.
            self.state.progress.cost_usd += end.cost_usd;
            self.state.ended_turns.clear();
            self.save();
            self.wait_for_messages("Waiting for messages");
            return;
        }
        match &self.state.step {
            Step::Working | Step::Stopped => {
                let mut events = Vec::new();
                let mut progress = self.state.progress.clone();
                let next = self.plan.turn_ended(&mut progress, &end, &mut events);
                // Emit before saving the evaluation: a crash in between repeats it and loses nothing.
                self.emit_iteration_events(events);
                self.state.progress = progress;
                self.state.ended_turns.clear();
                self.apply(next);
            }
            // The agent handled a message meanwhile. Validate again.
            Step::Validating => {
                self.state.progress.add(&end);
                self.state.ended_turns.clear();
                self.save();
                if let Some(validation) = self.inspection.take() {
                    validation.abort();
                }
                self.inspect(Purpose::Validate);
            }
            Step::Pausing(_) | Step::Finishing(_) => {
                self.state.progress.add(&end);
                self.state.ended_turns.clear();
                self.save();
            }
        }
    }

    /// Saves the next step and starts it.
    pub(super) fn apply(&mut self, next: Next) {
        match next {
            Next::Iterate { .. } | Next::Wait if self.state.step == Step::Stopped => {
                self.stopped();
            }
            Next::Wait => {
                self.state.step = Step::Stopped;
                self.stopped();
            }
            Next::Iterate { prompt, errors } => {
                self.state.step = Step::Pausing(prompt.clone());
                self.save();
                self.schedule.next_iteration = Some((Instant::now() + delay_after(errors), prompt));
            }
            Next::Validate => {
                self.state.step = Step::Validating;
                self.save();
                self.inspect(Purpose::Validate);
            }
            Next::Done(outcome) => {
                self.state.step = Step::Finishing(outcome.clone());
                self.save();
                self.inspect(Purpose::Finish(outcome));
            }
        }
    }

    fn stopped(&mut self) {
        self.save();
        self.save_in_background(Work::Everything(Occasion::Interrupted));
        self.wait_for_messages("Stopped; waiting for messages");
    }

    pub(super) async fn start_iteration(&mut self) {
        let Some((_, prompt)) = self.schedule.next_iteration.take() else { return };
        if self.state.outcome.is_some() || !matches!(self.state.step, Step::Pausing(_)) {
            return;
        }
        self.begin_iteration(prompt);
        if let Some(prompt) = self.launcher.prompt(&self.state) {
            self.send_command(AgentCommand::Message(prompt)).await;
        }
    }

    pub(super) fn begin_iteration(&mut self, prompt: String) {
        let event = self.state.progress.begin_iteration(&prompt);
        if self.plan.continuous.is_some() {
            self.emit_iteration_events(vec![event]);
        }
        self.state.prompt = Some(prompt);
        self.state.step = Step::Working;
        self.state.adopted = false;
        self.save();
    }

    /// Emits events that happen once per iteration.
    pub(super) fn emit_iteration_events(&self, events: Vec<Event>) {
        for event in events {
            let iteration = event.data.get("iteration_num").cloned().unwrap_or_default();
            let key = format!("{}-{iteration}", event.event_type);
            self.emit_once(&key, event);
        }
    }

    pub(super) async fn tick(&mut self) {
        self.copy_transcript();
        let now = Instant::now();
        let is_waiting = self.state.outcome.is_some() || self.state.prompt.is_none();
        if is_waiting || self.state.step == Step::Stopped {
            self.schedule.ticked_at = now;
            return;
        }
        let passed = now.duration_since(self.schedule.ticked_at).as_secs();
        self.schedule.ticked_at += Duration::from_secs(passed);
        self.state.progress.elapsed_seconds += passed;
        let limit = self.plan.continuous.as_ref().map(|limits| limits.max_duration.as_secs());
        let elapsed = self.state.progress.elapsed_seconds;
        let is_exceeded = limit.is_some_and(|limit| elapsed >= limit);
        if is_exceeded && self.activity == AgentActivity::Working && self.state.step == Step::Working {
            let outcome =
                Outcome::failure("max_duration_reached", format!("time limit reached after {elapsed} s"));
            self.apply(Next::Done(outcome));
            self.interrupt(Interruption { message_id: None, sender_id: None, reason: "max_duration" }).await;
        } else if self.schedule.saved_at.elapsed() >= SAVE_INTERVAL {
            self.save();
        }
    }
}

/// The delay before an iteration, after this many consecutive failed ones.
fn delay_after(errors: u64) -> Duration {
    match u32::try_from(errors).unwrap_or(u32::MAX) {
        0 => Duration::ZERO,
        errors => AFTER_ERRORS.wait(errors - 1),
    }
}

/// Combines several turns: total cost and tokens, result of the last one.
fn combine(ends: &[TurnEnd]) -> TurnEnd {
    let (cost_usd, tokens) = ends.iter().fold((0.0, Default::default()), |(cost, tokens), end| {
        (cost + end.cost_usd, end.tokens.plus(tokens))
    });
    TurnEnd { cost_usd, tokens, ..ends.last().cloned().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_with_consecutive_errors() {
        for (errors, longest_secs) in [(0, 0), (1, 2), (2, 4), (6, 60), (u64::MAX, 60)] {
            let longest = Duration::from_secs(longest_secs);
            let delay = delay_after(errors);
            assert!((longest / 2..=longest).contains(&delay), "{errors}: {delay:?}");
        }
    }
}
