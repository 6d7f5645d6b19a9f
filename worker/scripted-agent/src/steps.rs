//! The steps of a turn.

use super::arguments::Crash;
use super::frames::{self, Ending};
use super::player::{Control, Exit, Player};
use super::script::{Directive, Step};
use super::tools::ToolOutput;
use super::wire::Input;
use super::{listen, shell};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use std::io::Write as _;
use std::time::Duration;

/// The reply to messages after the last step.
const SCRIPT_FINISHED: &str =
    "The script is finished. Your message was received, but there are no steps left to play.";

/// `Err` ends the turn.
pub(super) type StepResult = Result<(), Ending>;

impl Player {
    /// Plays steps until one ends the turn.
    pub(super) async fn play_steps(&mut self) -> Result<Ending, Exit> {
        if self.next >= self.script.steps.len() {
            return Ok(self.write_message(SCRIPT_FINISHED, None).await?.err().unwrap_or(Ending::COMPLETED));
        }
        while let Some(step) = self.script.steps.get(self.next).cloned() {
            if let Err(ending) = self.play_step(step).await? {
                return Ok(ending);
            }
        }
        Ok(Ending::COMPLETED)
    }

    async fn play_step(&mut self, step: Step) -> Result<StepResult, Exit> {
        if self.turn.message.is_none()
            && self.arguments.max_turns.is_some_and(|max| self.turn.messages >= max)
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
            Step::Play(directive) => self.run_directive(directive).await,
        }
    }

    async fn run_directive(&mut self, directive: Directive) -> Result<StepResult, Exit> {
        if let Directive::Background { command, ms } = directive {
            return self.start_background(command, ms).await;
        }
        self.next += 1;
        match directive {
            Directive::Wait { ms } => return self.wait(ms).await,
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
                return self.wait(delay_ms).await;
            }
            Directive::Exit { code } => {
                self.save_position().await?;
                return Err(Exit::Code(code));
            }
            Directive::Crash {} => {
                self.save_position().await?;
                if self.arguments.crash == Crash::Kill {
                    kill_process(getpid(), Signal::KILL).map_err(std::io::Error::from)?;
                }
                return Err(Exit::Code(137));
            }
            Directive::Stderr { text } => {
                // Stderr may be closed.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            Directive::UnknownFrame { frame } => self.send(&frame).await?,
            Directive::Listen { seconds, port } => {
                let page = listen::serve(port, Duration::from_secs(seconds)).await?;
                self.tasks.spawn(page);
            }
            Directive::Background { .. } => unreachable!("handled above"),
        }
        Ok(Ok(()))
    }

    pub(super) async fn wait(&mut self, milliseconds: u64) -> Result<StepResult, Exit> {
        Ok(match self.pause(milliseconds).await? {
            Control::Continue => Ok(()),
            Control::Stop => Err(Ending::INTERRUPTED_STREAMING),
        })
    }

    /// Records the position for a step that has no transcript entry of its own.
    async fn save_position(&mut self) -> Result<(), Exit> {
        let entry = json!({"type": "last-prompt", "lastPrompt": self.message, "scriptNext": self.next});
        self.transcript.append(entry)?;
        self.mirror().await
    }

    /// Starts a background command.
    async fn start_background(&mut self, command: String, ms: u64) -> Result<StepResult, Exit> {
        let input = json!({"command": command, "run_in_background": true, "description": command});
        let pending = match self.pending_tool.take() {
            Some(pending) => pending,
            None => self.begin_tool("Bash", input.as_object().cloned().unwrap_or_default()).await?,
        };
        let task = format!("b{}", &frames::new_id()[..8]);
        let (arguments, message, inputs) =
            (self.arguments.clone(), self.message.clone(), self.inputs.clone());
        let (name, pause) = (task.clone(), Duration::from_millis(ms).mul_f64(arguments.pace));
        self.background.insert(task.clone(), command.clone());
        let line = command.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            let timeout = Duration::from_secs(86_400);
            let result = shell::run(Self::shell(&arguments, &message), &line, timeout).await;
            let (code, output) = result.map_or((None, String::new()), |output| (output.code, output.stdout));
            // Fails only if the player has exited.
            let _ = inputs.send(Input::TaskEnded { task: name, code, output });
        });
        let started = frames::system(
            self,
            "task_started",
            json!({"task_id": task, "tool_use_id": pending.id, "description": command,
                "is_backgrounded": true, "task_type": "local_bash"}),
        );
        self.send(&started).await?;
        self.background_changed().await?;
        let result = json!({"stdout": "", "stderr": "", "interrupted": false, "isImage": false,
            "backgroundTaskId": task});
        let output = ToolOutput::ok(format!("Command running in background with ID: {task}."), result);
        self.finish_tool(&pending, output, "config").await?;
        self.absorb_messages().await
    }
}
