//! A turn: how it begins, what it says, and how it ends.

use super::frames::{self, Ending};
use super::player::{By, Leave, Player, Said};
use super::script::{Directive, Step};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The turn that is being played.
#[derive(Debug)]
pub struct Turn {
    /// What the user said that it is about.
    pub said: Vec<String>,
    /// What is `started` and will be `completed`.
    pub commands: Vec<String>,
    /// What is said back before the first block.
    pub unreplayed: Option<Said>,
    /// The message that is being written.
    pub message: Option<String>,
    /// Its blocks so far.
    pub blocks: u64,
    /// Messages so far.
    pub messages: u64,
    /// Words so far.
    pub words: u64,
    /// The last text.
    pub last_text: String,
    /// Tools that were not allowed.
    pub denials: Vec<Value>,
    /// Why the turn goes on after it was cut off.
    pub resume_reason: Option<String>,
    /// Since when.
    pub began: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            said: Vec::new(),
            commands: Vec::new(),
            unreplayed: None,
            message: None,
            blocks: 0,
            messages: 0,
            words: 0,
            last_text: String::new(),
            denials: Vec::new(),
            resume_reason: None,
            began: Instant::now(),
        }
    }
}

impl Player {
    /// Plays one turn: about what was said, or the rest of one that was cut off. Whether it ended in an error.
    pub(super) async fn play_turn(&mut self, said: Option<Said>) -> Result<bool, Leave> {
        self.turn = Turn::default();
        self.busy = true;
        let by = said.as_ref().map(|said| said.by);
        self.begin(said).await?;
        let ending = match by {
            Some(By::Task) => {
                self.say("The background task has finished.", None).await?.err().unwrap_or(Ending::COMPLETED)
            }
            _ => self.play_steps().await?,
        };
        let failed = self.end(ending).await?;
        self.busy = false;
        Ok(failed)
    }

    async fn begin(&mut self, said: Option<Said>) -> Result<(), Leave> {
        let command = said.as_ref().map_or_else(frames::name, |said| said.uuid.clone());
        match said {
            Some(said) => {
                let task = said.by == By::Task;
                if !task {
                    self.message = said.text();
                    self.turn.said.push(said.uuid.clone());
                    self.transcript.note(json!({"type": "queue-operation", "operation": "dequeue"}))?;
                }
                let source = if task { "system" } else { "sdk" };
                self.transcript.link(
                    &said.uuid,
                    json!({"type": "user", "message": {"role": "user", "content": said.content},
                        "promptId": frames::name(), "timestamp": said.at, "promptSource": source,
                        "permissionMode": self.mode}),
                )?;
                self.turn.unreplayed = Some(said);
            }
            None => self.turn.resume_reason = self.arguments.resume_reason.clone(),
        }
        let started = frames::lifecycle(self, &command, "started");
        self.turn.commands.push(command);
        self.send(&started).await?;
        let mut init = frames::init(self);
        self.stamp(&mut init);
        self.send(&init).await
    }

    /// Marks a frame of a turn that was cut off.
    pub(super) fn stamp(&self, frame: &mut Value) {
        if let Some(reason) = &self.turn.resume_reason {
            frame["resume_reason"] = reason.as_str().into();
        }
    }

    /// Says back what the turn is about, if that has not been done.
    pub(super) async fn replay_prompt(&mut self) -> Result<(), Leave> {
        match self.turn.unreplayed.take() {
            Some(said) => self.replay(&said).await,
            None => Ok(()),
        }
    }

    async fn end(&mut self, ending: Ending) -> Result<bool, Leave> {
        let stopped = ending.subtype == "error_during_execution";
        if stopped {
            self.interrupted(&ending).await?;
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
        let broke = self.arguments.max_budget_usd.is_some_and(|most| self.totals.cost >= most);
        let ending = if broke && !ending.is_error { Ending::BUDGET } else { ending };
        let result = frames::result(self, &ending, before);
        self.send(&result).await?;
        let state = if stopped { "cancelled" } else { "completed" };
        for command in std::mem::take(&mut self.turn.commands) {
            let lifecycle = frames::lifecycle(self, &command, state);
            self.send(&lifecycle).await?;
        }
        // Last, so that a player that is killed before tells the end again, under the same name.
        let mut spent = json!(self.totals);
        spent["type"] = "cost-state".into();
        spent["scriptNext"] = self.next.into();
        spent["scriptTurnEnd"] = true.into();
        self.transcript.note(spent)?;
        self.mirror().await?;
        Ok(ending.is_error)
    }

    /// What the transcript and the reader are told about a turn that was stopped.
    async fn interrupted(&mut self, ending: &Ending) -> Result<(), Leave> {
        self.replay_prompt().await?;
        self.turn.message = None;
        let text = match ending.terminal_reason {
            "aborted_tools" => "[Request interrupted by user for tool use]",
            _ => "[Request interrupted by user]",
        };
        let content = json!([{"type": "text", "text": text}]);
        let uuid = frames::name();
        let message = json!({"role": "user", "content": content});
        self.transcript.link(&uuid, json!({"type": "user", "message": message}))?;
        let frame = frames::user(self, &uuid, content, None);
        self.send(&frame).await?;
        self.mirror().await?;
        // The turn is over already: an end that comes next would be an empty turn.
        if matches!(self.script.steps.get(self.next), Some(Step::Play(Directive::TurnEnd {}))) {
            self.next += 1;
        }
        Ok(())
    }
}
