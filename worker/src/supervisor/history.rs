//! Emits what the agent did before a restart, and decides what to send it now.

use super::Supervisor;
use crate::agents::{AgentCommand, LastTurn, Recovered, TurnEnd, UserMessage};
use crate::event::Event;
use crate::state::{Pending, Step};
use contract::payloads::AgentMessage;
use domain::message::{MessageType, State};
use std::time::Duration;
use tokio::time::Instant;

/// An agent that has not resumed its turn after this time is prompted to continue.
const NUDGE_DELAY: Duration = Duration::from_secs(20);

/// What the agent did before it is started.
#[derive(Default)]
pub(super) struct History {
    pub recovered: Recovered,
    /// Whether the agent resumes an interrupted turn by itself.
    pub resumes_turn: bool,
    last_text: String,
}

impl Supervisor {
    /// Emits recovered events that were not emitted before.
    pub(super) fn history(&mut self, mut recovered: Recovered) -> History {
        let mut last_text = String::new();
        let events = std::mem::take(&mut recovered.events);
        events.iter().for_each(|event| remember_text(event, &mut last_text));
        let old = count_evicted(&events, self.outbox.has_evicted_ids(), |id| self.outbox.has_emitted(id));
        for event in events.into_iter().skip(old) {
            self.outbox.emit(event);
        }
        self.turns = recovered.turns;
        let mut history = History { recovered, resumes_turn: false, last_text };
        history.resumes_turn = self.resumes_turn(&history);
        history
    }

    /// Whether to resume a turn that the transcript leaves unfinished.
    fn resumes_turn(&self, history: &History) -> bool {
        let is_interrupted = |pending: &Pending| {
            pending.message_type == MessageType::Interrupt
                && !history.recovered.read_messages.contains(&pending.uuid)
        };
        // A turn that reached a limit looks unfinished too.
        let has_failed = self.state.ended_turns.last().is_some_and(|end| !end.success);
        history.recovered.last_turn == LastTurn::InProgress
            && self.state.step != Step::Stopped
            && !has_failed
            && !self.state.pending.iter().any(is_interrupted)
    }

    /// Sends the current prompt and pending messages, as far as the agent has not read them.
    pub(super) async fn send_unread(&mut self, history: History) {
        let has_unfinished_message = self.update_receipts(&history);
        let is_unread = |pending: &&Pending| !history.recovered.read_messages.contains(&pending.uuid);
        let to_message = |pending: &Pending| UserMessage { uuid: pending.uuid, text: pending.text.clone() };
        let messages: Vec<UserMessage> =
            self.state.pending.iter().filter(is_unread).map(to_message).collect();
        if history.resumes_turn {
            self.schedule.nudge_at = Some(Instant::now() + NUDGE_DELAY);
        }
        if self.state.outcome.is_none() && self.state.prompt.is_some() {
            self.resume_task(&history, messages.is_empty()).await;
        } else if history.recovered.last_turn == LastTurn::Interrupted
            && has_unfinished_message
            && messages.is_empty()
        {
            // The worker was stopped in the middle of a conversation.
            self.nudge().await;
        }
        for message in messages {
            self.send_command(AgentCommand::Message(message)).await;
        }
    }

    /// Updates the receipts of pending messages from the transcript. Returns whether the agent has read one that it has
    /// not finished.
    fn update_receipts(&mut self, history: &History) -> bool {
        self.deliveries.resumed.clear();
        for pending in self.state.pending.clone() {
            self.emit_message_injected(&pending, None);
            if pending.message_type == MessageType::Stop {
                // The agent is not running any more.
                self.receipt(pending.uuid, State::Completed);
            } else if history.recovered.read_messages.contains(&pending.uuid) {
                match history.recovered.last_turn {
                    LastTurn::InProgress | LastTurn::Interrupted => {
                        self.receipt(pending.uuid, State::Started);
                        self.deliveries.resumed.push(pending.uuid);
                    }
                    _ => self.receipt(pending.uuid, State::Completed),
                }
            }
        }
        !self.deliveries.resumed.is_empty()
    }

    async fn resume_task(&mut self, history: &History, no_messages: bool) {
        match self.state.step.clone() {
            Step::Working => self.resume_prompt(history, no_messages).await,
            Step::Validating => self.inspect(super::inspection::Purpose::Validate),
            Step::Finishing(outcome) => self.inspect(super::inspection::Purpose::Finish(outcome)),
            Step::Pausing(prompt) => {
                self.schedule.next_iteration.get_or_insert((Instant::now(), prompt));
            }
            Step::Stopped => {}
        }
    }

    async fn resume_prompt(&mut self, history: &History, no_messages: bool) {
        let Some(prompt) = self.launcher.prompt(&self.state) else { return };
        if !self.state.ended_turns.is_empty() && !history.resumes_turn {
            // Pending messages continue the conversation; evaluate the turn after them.
            if no_messages {
                self.agent_idle().await;
            }
            return;
        }
        if !history.recovered.read_messages.contains(&prompt.uuid) && !self.state.adopted {
            if history.resumes_turn && history.recovered.prompts.contains(&prompt.text) {
                // The resumed session was interrupted in the middle of this task. The agent continues by itself.
                self.state.adopted = true;
                self.save();
            } else {
                self.send_command(AgentCommand::Message(prompt)).await;
            }
            return;
        }
        if history.resumes_turn {
            return;
        }
        let success = match history.recovered.last_turn {
            LastTurn::Completed => true,
            LastTurn::Failed => false,
            LastTurn::Interrupted | LastTurn::InProgress | LastTurn::None => {
                if no_messages {
                    self.nudge().await;
                }
                return;
            }
        };
        // The turn ended, but its result was not read from the agent's output.
        let result = history.last_text.clone();
        let error = (!success).then(|| result.clone());
        let session = self.state.session.clone().unwrap_or_default();
        let turns = self.turns;
        self.state.ended_turns.push(TurnEnd { success, error, result, session, turns, ..TurnEnd::default() });
        self.agent_idle().await;
    }

    /// Prompts an agent to continue that was interrupted, or that has not resumed its turn by itself.
    pub(super) async fn nudge(&mut self) {
        self.schedule.nudge_at = None;
        self.state.nudges += 1;
        self.save();
        self.send_command(AgentCommand::Message(self.launcher.continue_prompt(&self.state))).await;
    }
}

/// Number of leading events whose ids the outbox has evicted. Output is read in order, so all events before one with a
/// known id were emitted.
fn count_evicted(events: &[Event], has_evicted: bool, has_emitted: impl Fn(&str) -> bool) -> usize {
    if !has_evicted {
        return 0;
    }
    events.iter().position(|event| has_emitted(&event.id)).unwrap_or(0)
}

fn remember_text(event: &Event, last_text: &mut String) {
    if let Some(AgentMessage { content, .. }) = event.read() {
        *last_text = content;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_with_evicted_ids_are_not_emitted_again() {
        let events: Vec<Event> =
            ["a", "b", "c", "d"].map(|id| Event::agent(AgentMessage::default()).with_id(id)).into();
        let has_emitted = |id: &str| id == "c";
        assert_eq!(count_evicted(&events, true, has_emitted), 2, "a and b were emitted before c");
        assert_eq!(count_evicted(&events, false, has_emitted), 0, "no id was evicted: a and b are new");
        assert_eq!(count_evicted(&events, true, |_| false), 0, "no event was emitted");
    }
}
