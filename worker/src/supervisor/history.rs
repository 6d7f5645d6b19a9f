//! Reads what the agent did before a restart from its transcript, and decides what to send it now.

use super::Supervisor;
use crate::agents::claude::normalizer::Normalizer;
use crate::agents::claude::recovery::{LastTurn, recover};
use crate::agents::{AgentCommand, AgentOutput, TurnEnd, UserMessage};
use crate::event::Event;
use crate::state::{Pending, Step};
use contract::payloads::AgentMessage;
use domain::message::{MessageType, State};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// An agent that has not resumed its turn after this time is prompted to continue.
const NUDGE_DELAY: Duration = Duration::from_secs(20);

/// What the agent's transcript says about earlier runs.
#[derive(Default)]
pub(super) struct History {
    pub normalizer: Option<Normalizer>,
    pub exists: bool,
    /// Whether the agent resumes an interrupted turn by itself.
    pub resumes_turn: bool,
    read_messages: HashSet<Uuid>,
    last_turn: LastTurn,
    last_text: String,
    prompts: Vec<String>,
}

impl Supervisor {
    /// Reads the agent's transcript and emits events that were not emitted before.
    pub(super) fn history(&mut self, path: &Path) -> History {
        let normalizer = Normalizer::new(self.config.cwd.clone());
        let Ok(transcript) = std::fs::read(path) else { return History::default() };
        // Lossy: a crash may leave an incomplete character at the end.
        let transcript = String::from_utf8_lossy(&transcript);
        let lines: Vec<&str> = transcript.lines().collect();
        let inherited_lines = match self.launcher.fork_of {
            Some(from) => forked_lines(&path.with_file_name(format!("{from}.jsonl")), &lines),
            None => usize::try_from(self.launcher.inherited).unwrap_or(usize::MAX),
        };
        let (inherited, own) = lines.split_at(inherited_lines.min(lines.len()));
        let before = recover(normalizer, inherited.iter().copied());
        let recovered = recover(before.normalizer, own.iter().copied());
        let mut last_text = String::new();
        let events = recovered.outputs.into_iter().filter_map(|output| match output {
            AgentOutput::Event(event) => Some(event),
            _ => None,
        });
        let events: Vec<Event> = events.inspect(|event| remember_text(event, &mut last_text)).collect();
        let old = count_evicted(&events, self.outbox.has_evicted_ids(), |id| self.outbox.has_emitted(id));
        for event in events.into_iter().skip(old) {
            self.outbox.emit(event);
        }
        let (mut read_messages, mut prompts) = (before.read_messages, before.prompts);
        read_messages.extend(recovered.read_messages);
        prompts.extend(recovered.prompts);
        let last_turn =
            if recovered.last_turn == LastTurn::None { before.last_turn } else { recovered.last_turn };
        self.turns = recovered.normalizer.turn();
        let normalizer = Some(recovered.normalizer);
        History {
            normalizer,
            read_messages,
            last_turn,
            exists: true,
            resumes_turn: false,
            last_text,
            prompts,
        }
    }

    /// Whether to resume a turn that the transcript leaves unfinished.
    pub(super) fn resumes_turn(&self, history: &History) -> bool {
        let is_interrupted = |pending: &Pending| {
            pending.message_type == MessageType::Interrupt && !history.read_messages.contains(&pending.uuid)
        };
        // A turn that reached a limit looks unfinished too.
        let has_failed = self.state.ended_turns.last().is_some_and(|end| !end.success);
        history.last_turn == LastTurn::InProgress
            && self.state.step != Step::Stopped
            && !has_failed
            && !self.state.pending.iter().any(is_interrupted)
    }

    /// Sends the current prompt and pending messages, as far as the agent has not read them.
    pub(super) async fn send_unread(&mut self, history: History) {
        let has_unfinished_message = self.update_receipts(&history);
        let is_unread = |pending: &&Pending| !history.read_messages.contains(&pending.uuid);
        let to_message = |pending: &Pending| UserMessage { uuid: pending.uuid, text: pending.text.clone() };
        let messages: Vec<UserMessage> =
            self.state.pending.iter().filter(is_unread).map(to_message).collect();
        if history.resumes_turn {
            self.nudge_at = Some(Instant::now() + NUDGE_DELAY);
        }
        if self.state.outcome.is_none() && self.state.prompt.is_some() {
            self.resume_task(&history, messages.is_empty()).await;
        } else if history.last_turn == LastTurn::Interrupted && has_unfinished_message && messages.is_empty()
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
        self.resumed_messages.clear();
        for pending in self.state.pending.clone() {
            self.emit_message_injected(&pending, None);
            if pending.message_type == MessageType::Stop {
                // The agent is not running any more.
                self.receipt(pending.uuid, State::Completed);
            } else if history.read_messages.contains(&pending.uuid) {
                match history.last_turn {
                    LastTurn::InProgress | LastTurn::Interrupted => {
                        self.receipt(pending.uuid, State::Started);
                        self.resumed_messages.push(pending.uuid);
                    }
                    _ => self.receipt(pending.uuid, State::Completed),
                }
            }
        }
        !self.resumed_messages.is_empty()
    }

    async fn resume_task(&mut self, history: &History, no_messages: bool) {
        match self.state.step.clone() {
            Step::Working => self.resume_prompt(history, no_messages).await,
            Step::Validating => self.inspect(super::inspection::Purpose::Validate),
            Step::Finishing(outcome) => self.inspect(super::inspection::Purpose::Finish(outcome)),
            Step::Pausing(prompt) => {
                self.next_iteration.get_or_insert((Instant::now(), prompt));
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
        if !history.read_messages.contains(&prompt.uuid) && !self.state.adopted {
            if history.resumes_turn && history.prompts.contains(&prompt.text) {
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
        let success = match history.last_turn {
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
        self.nudge_at = None;
        self.state.nudges += 1;
        self.save();
        self.send_command(AgentCommand::Message(self.launcher.continue_prompt(&self.state))).await;
    }
}

/// Number of lines that a forked session has from its original. The CLI copies entries with their UUIDs.
fn forked_lines(original: &Path, lines: &[&str]) -> usize {
    #[derive(Deserialize)]
    struct Entry {
        uuid: Option<Uuid>,
    }
    let uuid = |line: &str| serde_json::from_str::<Entry>(line).ok()?.uuid;
    let original = std::fs::read(original).unwrap_or_default();
    let copied: HashSet<Uuid> = String::from_utf8_lossy(&original).lines().filter_map(uuid).collect();
    lines
        .iter()
        .rposition(|line| uuid(line).is_some_and(|uuid| copied.contains(&uuid)))
        .map_or(0, |last| last + 1)
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
