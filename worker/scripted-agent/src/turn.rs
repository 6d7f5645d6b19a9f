//! Start and end of a turn.

use super::frames::{self, Ending};
use super::player::{Exit, Origin, Player, QueuedMessage};
use super::script::{Directive, Step};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The current turn.
#[derive(Debug)]
pub struct Turn {
    /// User messages that are handled in this turn.
    pub message_ids: Vec<String>,
    /// Messages with a `started` receipt that need a final one.
    pub commands: Vec<String>,
    /// The message to echo before the first block.
    pub unreplayed: Option<QueuedMessage>,
    /// The id of the open message.
    pub message: Option<String>,
    /// Number of blocks of the open message.
    pub blocks: u64,
    pub messages: u64,
    pub words: u64,
    pub last_text: String,
    /// Denied tool calls.
    pub denials: Vec<Value>,
    /// Set if the turn continues after a crash.
    pub resume_reason: Option<String>,
    pub started_at: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            message_ids: Vec::new(),
            commands: Vec::new(),
            unreplayed: None,
            message: None,
            blocks: 0,
            messages: 0,
            words: 0,
            last_text: String::new(),
            denials: Vec::new(),
            resume_reason: None,
            started_at: Instant::now(),
        }
    }
}

impl Player {
    /// Plays a turn for a message, or the rest of an unfinished turn. Returns whether it ended in an error.
    pub(super) async fn play_turn(&mut self, message: Option<QueuedMessage>) -> Result<bool, Exit> {
        self.turn = Turn::default();
        self.busy = true;
        let origin = message.as_ref().map(|message| message.origin);
        self.begin(message).await?;
        let ending = match origin {
            Some(Origin::Task) => self
                .write_message("The background task has finished.", None)
                .await?
                .err()
                .unwrap_or(Ending::COMPLETED),
            _ => self.play_steps().await?,
        };
        let failed = self.end(ending).await?;
        self.busy = false;
        Ok(failed)
    }

    async fn begin(&mut self, message: Option<QueuedMessage>) -> Result<(), Exit> {
        let command = message.as_ref().map_or_else(frames::new_id, |message| message.uuid.clone());
        match message {
            Some(message) => {
                let task = message.origin == Origin::Task;
                if !task {
                    self.message = message.text();
                    self.turn.message_ids.push(message.uuid.clone());
                    self.transcript.append(json!({"type": "queue-operation", "operation": "dequeue"}))?;
                }
                let source = if task { "system" } else { "sdk" };
                self.transcript.append_message(
                    &message.uuid,
                    json!({"type": "user", "message": {"role": "user", "content": message.content},
                        "promptId": frames::new_id(), "timestamp": message.at, "promptSource": source,
                        "permissionMode": self.mode}),
                )?;
                self.turn.unreplayed = Some(message);
            }
            None => self.turn.resume_reason = self.arguments.resume_reason.clone(),
        }
        let started = frames::lifecycle(self, &command, "started");
        self.turn.commands.push(command);
        self.send(&started).await?;
        let mut init = frames::init(self);
        self.mark_resumed(&mut init);
        self.send(&init).await
    }

    /// Adds the resume reason to a frame of a resumed turn.
    pub(super) fn mark_resumed(&self, frame: &mut Value) {
        if let Some(reason) = &self.turn.resume_reason {
            frame["resume_reason"] = reason.as_str().into();
        }
    }

    /// Echoes the message of this turn, once.
    pub(super) async fn replay_prompt(&mut self) -> Result<(), Exit> {
        match self.turn.unreplayed.take() {
            Some(message) => self.replay(&message).await,
            None => Ok(()),
        }
    }

    async fn end(&mut self, ending: Ending) -> Result<bool, Exit> {
        let interrupted = ending.subtype == "error_during_execution";
        if interrupted {
            self.write_interrupt_note(&ending).await?;
        } else {
            self.close_message("end_turn").await?;
            self.replay_prompt().await?;
        }
        let before = self.totals;
        self.totals.results += 1;
        self.totals.input_tokens += self.turn.messages * frames::INPUT_PER_MESSAGE;
        self.totals.output_tokens += self.turn.words;
        if self.turn.messages > 0 {
            self.totals.cost += self.script.header.cost_per_turn;
        }
        let over_budget = self.arguments.max_budget_usd.is_some_and(|max| self.totals.cost >= max);
        let ending = if over_budget && !ending.is_error { Ending::BUDGET } else { ending };
        let result = frames::result(self, &ending, before);
        self.send(&result).await?;
        let state = if interrupted { "cancelled" } else { "completed" };
        for command in std::mem::take(&mut self.turn.commands) {
            let lifecycle = frames::lifecycle(self, &command, state);
            self.send(&lifecycle).await?;
        }
        // Written last: a player that is killed before this prints the result again, with the same id.
        let mut entry = json!(self.totals);
        entry["type"] = "cost-state".into();
        entry["scriptNext"] = self.next.into();
        entry["scriptTurnEnd"] = true.into();
        self.transcript.append(entry)?;
        self.mirror().await?;
        Ok(ending.is_error)
    }

    /// Writes the note about an interrupted turn.
    async fn write_interrupt_note(&mut self, ending: &Ending) -> Result<(), Exit> {
        self.replay_prompt().await?;
        self.turn.message = None;
        let text = match ending.terminal_reason {
            "aborted_tools" => "[Request interrupted by user for tool use]",
            _ => "[Request interrupted by user]",
        };
        let content = json!([{"type": "text", "text": text}]);
        let uuid = frames::new_id();
        let message = json!({"role": "user", "content": content});
        self.transcript.append_message(&uuid, json!({"type": "user", "message": message}))?;
        let frame = frames::user(self, &uuid, content, None);
        self.send(&frame).await?;
        self.mirror().await?;
        // The turn has ended already; a following `turn_end` step would create an empty turn.
        if matches!(self.script.steps.get(self.next), Some(Step::Play(Directive::TurnEnd {}))) {
            self.next += 1;
        }
        Ok(())
    }
}
