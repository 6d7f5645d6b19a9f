//! The steps of a turn.

use super::arguments::Crash;
use super::frames::{self, Ending};
use super::player::{Heard, Leave, Player};
use super::script::{Directive, Step};
use super::tools::Answer;
use super::wire::Input;
use super::{listen, shell};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use std::io::Write as _;
use std::time::Duration;

/// What is said when the script has nothing left.
const THE_END: &str =
    "That was the whole script. I have read your message, and there is nothing left for me to play.";

/// A step went well, or the turn ends with it.
pub(super) type Played = Result<(), Ending>;

impl Player {
    /// Plays steps until one ends the turn.
    pub(super) async fn play_steps(&mut self) -> Result<Ending, Leave> {
        if self.next >= self.script.steps.len() {
            return Ok(self.say(THE_END, None).await?.err().unwrap_or(Ending::COMPLETED));
        }
        while let Some(step) = self.script.steps.get(self.next).cloned() {
            if let Err(ending) = self.play_step(step).await? {
                return Ok(ending);
            }
        }
        Ok(Ending::COMPLETED)
    }

    async fn play_step(&mut self, step: Step) -> Result<Played, Leave> {
        if self.turn.message.is_none()
            && self.arguments.max_turns.is_some_and(|most| self.turn.messages >= most)
        {
            return Ok(Err(Ending::MAX_TURNS));
        }
        match step {
            Step::Text(text) => {
                let text = text.replace("${message}", &self.message);
                self.next += 1;
                self.write_block("text", &text, Some(self.next)).await
            }
            Step::Thinking(text) => {
                self.next += 1;
                self.write_block("thinking", &text, Some(self.next)).await
            }
            Step::Tool(tool) => self.use_tool(&tool).await,
            Step::Play(directive) => self.follow(directive).await,
        }
    }

    async fn follow(&mut self, directive: Directive) -> Result<Played, Leave> {
        if let Directive::Background { command, ms } = directive {
            return self.use_background(command, ms).await;
        }
        self.next += 1;
        match directive {
            Directive::Wait { ms } => return self.rest(ms).await,
            Directive::TurnEnd {} | Directive::Ask { .. } => return Ok(Err(Ending::COMPLETED)),
            Directive::Fail { status, .. } => return Ok(Err(Ending::api_error(status))),
            Directive::ApiRetry { attempt, delay_ms, status } => {
                let retry = frames::system(
                    self,
                    "api_retry",
                    json!({"attempt": attempt, "max_retries": 10, "retry_delay_ms": delay_ms,
                        "error_status": status, "error": "overloaded"}),
                );
                self.send(&retry).await?;
                return self.rest(delay_ms).await;
            }
            Directive::Exit { code } => {
                self.remember().await?;
                return Err(Leave::With(code));
            }
            Directive::Crash {} => {
                self.remember().await?;
                if self.arguments.crash == Crash::Kill {
                    kill_process(getpid(), Signal::KILL).map_err(std::io::Error::from)?;
                }
                return Err(Leave::With(137));
            }
            Directive::Stderr { text } => {
                // Nobody may be reading.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            Directive::UnknownFrame { frame } => self.send(&frame).await?,
            Directive::Listen { seconds, port } => {
                let page = listen::serve(port, Duration::from_secs(seconds)).await?;
                self.beside.spawn(page);
            }
            Directive::Background { .. } => unreachable!("handled above"),
        }
        Ok(Ok(()))
    }

    pub(super) async fn rest(&mut self, milliseconds: u64) -> Result<Played, Leave> {
        Ok(match self.pause(milliseconds).await? {
            Heard::GoOn => Ok(()),
            Heard::Stop => Err(Ending::STOPPED_TALKING),
        })
    }

    /// Writes down that the step was done, where it leaves nothing else behind.
    async fn remember(&mut self) -> Result<(), Leave> {
        let leaf = json!({"type": "last-prompt", "lastPrompt": self.message, "scriptNext": self.next});
        self.transcript.note(leaf)?;
        self.mirror().await
    }

    /// Starts a command that goes on by itself.
    async fn use_background(&mut self, command: String, ms: u64) -> Result<Played, Leave> {
        let input = json!({"command": command, "run_in_background": true, "description": command});
        let begun = match self.unanswered.take() {
            Some(begun) => begun,
            None => self.begin_tool("Bash", input.as_object().cloned().unwrap_or_default()).await?,
        };
        let task = format!("b{}", &frames::name()[..8]);
        let (arguments, message, inputs) =
            (self.arguments.clone(), self.message.clone(), self.inputs.clone());
        let (name, pause) = (task.clone(), Duration::from_millis(ms).mul_f64(arguments.pace));
        self.background.insert(task.clone(), command.clone());
        let line = command.clone();
        self.beside.spawn(async move {
            tokio::time::sleep(pause).await;
            let day = Duration::from_secs(86_400);
            let ended = shell::run(Self::shell(&arguments, &message), &line, day).await;
            let (code, output) = ended.map_or((None, String::new()), |ended| (ended.code, ended.stdout));
            // A player that has gone does not need to be told.
            let _ = inputs.send(Input::TaskEnded { task: name, code, output });
        });
        let started = frames::system(
            self,
            "task_started",
            json!({"task_id": task, "tool_use_id": begun.id, "description": command,
                "is_backgrounded": true, "task_type": "local_bash"}),
        );
        self.send(&started).await?;
        self.background_changed().await?;
        let result = json!({"stdout": "", "stderr": "", "interrupted": false, "isImage": false,
            "backgroundTaskId": task});
        let answer = Answer::good(format!("Command running in background with ID: {task}."), result);
        self.answer_tool(&begun, answer, "config").await?;
        self.fold_in().await
    }
}
