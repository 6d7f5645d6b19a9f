//! What the agent did in an earlier life, by its own record, and what it is therefore told in this one.

use super::Session;
use crate::agents::claude::recovery::{Left, recover};
use crate::agents::claude::story::Story;
use crate::agents::{Ask, Say, Tell, TurnEnd};
use crate::event::Event;
use crate::state::{Pending, Step};
use domain::message::{MessageType, State};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long an agent that should go on by itself may take to begin. Then it is told to.
const NUDGE_AFTER: Duration = Duration::from_secs(20);

/// What the agent's own record says about an earlier life.
#[derive(Default)]
pub(super) struct Past {
    pub story: Option<Story>,
    pub exists: bool,
    /// Whether the agent takes up a turn by itself.
    pub goes_on: bool,
    heard: HashSet<Uuid>,
    left: Left,
    last_text: String,
    prompts: Vec<String>,
}

impl Session {
    /// Reads the agent's record, and tells what was not told.
    pub(super) fn past(&mut self, path: &Path) -> Past {
        let story = Story::new(self.config.cwd.clone());
        // A crash may leave half a character at its end.
        let Ok(record) = std::fs::read(path) else { return Past::default() };
        let record = String::from_utf8_lossy(&record);
        let lines: Vec<&str> = record.lines().collect();
        let inherited = match self.crew.fork_of {
            Some(from) => copied_from(&path.with_file_name(format!("{from}.jsonl")), &lines),
            None => usize::try_from(self.crew.inherited).unwrap_or(usize::MAX),
        };
        let (theirs, ours) = lines.split_at(inherited.min(lines.len()));
        let before = recover(story, theirs.iter().copied());
        let recovered = recover(before.story, ours.iter().copied());
        let mut last_text = String::new();
        let events = recovered.tells.into_iter().filter_map(|tell| match tell {
            Tell::Event(event) => Some(event),
            _ => None,
        });
        let events: Vec<Event> = events.inspect(|event| remember_text(event, &mut last_text)).collect();
        let old = long_told(&events, self.outbox.has_forgotten(), |id| self.outbox.knows(id));
        for event in events.into_iter().skip(old) {
            self.outbox.tell(event);
        }
        let (mut heard, mut prompts) = (before.heard, before.prompts);
        heard.extend(recovered.heard);
        prompts.extend(recovered.prompts);
        let left = if recovered.left == Left::Nothing { before.left } else { recovered.left };
        self.turns = recovered.story.turn();
        let story = Some(recovered.story);
        Past { story, heard, left, exists: true, goes_on: false, last_text, prompts }
    }

    /// Whether a turn that the record leaves under way is to be taken up again.
    pub(super) fn goes_on(&self, past: &Past) -> bool {
        let is_interrupted = |pending: &Pending| {
            pending.message_type == MessageType::Interrupt && !past.heard.contains(&pending.uuid)
        };
        // A limit ends a turn in the middle.
        let has_failed = self.state.ends.last().is_some_and(|end| !end.success);
        past.left == Left::UnderWay
            && self.state.step != Step::Stopped
            && !has_failed
            && !self.state.pending.iter().any(is_interrupted)
    }

    /// Says what the agent has not heard: the prompt that runs, and messages.
    pub(super) async fn brief(&mut self, past: Past) {
        let was_told = self.brief_on_messages(&past);
        let unheard = |pending: &&Pending| !past.heard.contains(&pending.uuid);
        let say = |pending: &Pending| Say { uuid: pending.uuid, text: pending.text.clone() };
        let messages: Vec<Say> = self.state.pending.iter().filter(unheard).map(say).collect();
        if past.goes_on {
            self.nudge_at = Some(Instant::now() + NUDGE_AFTER);
        }
        if self.state.outcome.is_none() && self.state.prompt.is_some() {
            self.brief_on_task(&past, messages.is_empty()).await;
        } else if past.left == Left::Interrupted && was_told && messages.is_empty() {
            // The worker went in the middle of a conversation.
            self.nudge().await;
        }
        for say in messages {
            self.ask(Ask::Say(say)).await;
        }
    }

    /// What has become of messages while nobody listened. Whether the agent has read one that it is not done with.
    fn brief_on_messages(&mut self, past: &Past) -> bool {
        self.taken_up.clear();
        for pending in self.state.pending.clone() {
            self.tell_of_message(&pending, None);
            if pending.message_type == MessageType::Stop {
                // Nothing runs any more.
                self.receipt(pending.uuid, State::Completed);
            } else if past.heard.contains(&pending.uuid) {
                match past.left {
                    Left::UnderWay | Left::Interrupted => {
                        self.receipt(pending.uuid, State::Started);
                        self.taken_up.push(pending.uuid);
                    }
                    _ => self.receipt(pending.uuid, State::Completed),
                }
            }
        }
        !self.taken_up.is_empty()
    }

    async fn brief_on_task(&mut self, past: &Past, nothing_else: bool) {
        match self.state.step.clone() {
            Step::Working => self.go_on_with_prompt(past, nothing_else).await,
            Step::Validating => self.inspect(super::ending::Purpose::Validate),
            Step::Finishing(outcome) => self.inspect(super::ending::Purpose::Finish(outcome)),
            Step::Pausing(prompt) => {
                self.next_iteration.get_or_insert((Instant::now(), prompt));
            }
            Step::Stopped => {}
        }
    }

    async fn go_on_with_prompt(&mut self, past: &Past, nothing_else: bool) {
        let Some(prompt) = self.crew.prompt(&self.state) else { return };
        if !self.state.ends.is_empty() && !past.goes_on {
            // What is said next belongs to the same rest.
            if nothing_else {
                self.rested().await;
            }
            return;
        }
        if !past.heard.contains(&prompt.uuid) && !self.state.adopted {
            if past.goes_on && past.prompts.contains(&prompt.text) {
                // Somebody goes on with a session in the middle of this very task: it goes on by itself.
                self.state.adopted = true;
                self.save();
            } else {
                self.ask(Ask::Say(prompt)).await;
            }
            return;
        }
        if past.goes_on {
            return;
        }
        let success = match past.left {
            Left::Finished => true,
            Left::Failed => false,
            Left::Interrupted | Left::UnderWay | Left::Nothing => {
                if nothing_else {
                    self.nudge().await;
                }
                return;
            }
        };
        // The end of the turn was printed, and not read.
        let result = past.last_text.clone();
        let error = (!success).then(|| result.clone());
        let session = self.state.session.clone().unwrap_or_default();
        let turns = self.turns;
        self.state.ends.push(TurnEnd { success, error, result, session, turns, ..TurnEnd::default() });
        self.rested().await;
    }

    /// Tells an agent to go on that was cut off, or that should have gone on by itself and has not.
    pub(super) async fn nudge(&mut self) {
        self.nudge_at = None;
        self.state.nudges += 1;
        self.save();
        self.ask(Ask::Say(self.crew.nudge(&self.state))).await;
    }
}

/// How many lines a copy of a session has from the one that it is a copy of: the CLI copies entries with their names.
fn copied_from(original: &Path, lines: &[&str]) -> usize {
    #[derive(Deserialize)]
    struct Named {
        uuid: Option<Uuid>,
    }
    let name = |line: &str| serde_json::from_str::<Named>(line).ok()?.uuid;
    let original = std::fs::read(original).unwrap_or_default();
    let theirs: HashSet<Uuid> = String::from_utf8_lossy(&original).lines().filter_map(name).collect();
    lines
        .iter()
        .rposition(|line| name(line).is_some_and(|name| theirs.contains(&name)))
        .map_or(0, |last| last + 1)
}

/// How many events at the beginning of a record were told so long ago that the outbox has forgotten it. An agent's
/// output is read in order: whatever comes before one that is known was told.
fn long_told(events: &[Event], has_forgotten: bool, knows: impl Fn(&str) -> bool) -> usize {
    if !has_forgotten {
        return 0;
    }
    events.iter().position(|event| knows(&event.id)).unwrap_or(0)
}

fn remember_text(event: &Event, last_text: &mut String) {
    if event.event_type == "agent.message"
        && let Some(text) = event.data.get("content").and_then(|content| content.as_str())
    {
        text.clone_into(last_text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_so_long_ago_that_it_is_forgotten_is_not_told_again() {
        let events: Vec<Event> =
            ["a", "b", "c", "d"].map(|id| Event::agent("agent.message").named(id)).into();
        let knows = |id: &str| id == "c";
        assert_eq!(long_told(&events, true, knows), 2, "a and b were told before c");
        assert_eq!(long_told(&events, false, knows), 0, "nothing is forgotten: a and b were never told");
        assert_eq!(long_told(&events, true, |_| false), 0, "a record that nobody has read");
    }
}
