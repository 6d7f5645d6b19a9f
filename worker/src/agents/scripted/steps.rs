//! The steps of a turn.

use super::arguments::Crash;
use super::frames::{self, Ending};
use super::permission::Permission;
use super::player::{By, Heard, Leave, Player, Said};
use super::script::{Directive, Step, ToolStep, fill};
use super::tools::{self, Answer};
use super::transcript::Unanswered;
use super::wire::Input;
use super::{listen, shell};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::time::Duration;

/// What is said when the script has nothing left.
const THE_END: &str =
    "That was the whole script. I have read your message, and there is nothing left for me to play.";

/// A step went well, or the turn ends with it.
type Played = Result<(), Ending>;

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

    async fn rest(&mut self, milliseconds: u64) -> Result<Played, Leave> {
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

    /// A message of one text that is not in the script.
    pub(super) async fn say(&mut self, text: &str, next: Option<usize>) -> Result<Played, Leave> {
        let played = self.write_block("text", text, next).await?;
        if played.is_ok() {
            self.close_message("end_turn").await?;
        }
        Ok(played)
    }

    /// Writes a text word by word.
    async fn write_block(&mut self, kind: &str, text: &str, next: Option<usize>) -> Result<Played, Leave> {
        self.open_message().await?;
        let delta = if kind == "text" { "text_delta" } else { "thinking_delta" };
        let mut empty = json!({"type": kind, kind: ""});
        if kind == "thinking" {
            empty["signature"] = "".into();
        }
        self.partial_block("content_block_start", json!({"content_block": empty})).await?;
        let words: Vec<&str> = match self.script.header.word_ms {
            0 => vec![text],
            _ => text.split_inclusive(char::is_whitespace).collect(),
        };
        let mut written = 0;
        let mut played = Ok(());
        for word in words {
            self.partial_block("content_block_delta", json!({"delta": {"type": delta, kind: word}})).await?;
            written += word.len();
            played = self.rest(self.script.header.word_ms).await?;
            if played.is_err() {
                break;
            }
        }
        self.turn.words += text[..written].split_whitespace().count() as u64;
        let aborted = played.is_err() && written < text.len();
        let mut block = empty;
        block[kind] = text[..written].into();
        self.put_block(block, next, aborted).await?;
        if !aborted {
            self.partial_block("content_block_stop", json!({})).await?;
        }
        self.turn.blocks += 1;
        if kind == "text" {
            text[..written].clone_into(&mut self.turn.last_text);
        }
        self.mirror().await?;
        Ok(played)
    }

    /// Writes a whole block down, then prints it. The result is its name.
    async fn put_block(&mut self, block: Value, next: Option<usize>, aborted: bool) -> Result<String, Leave> {
        let id = self.open_message().await?;
        let uuid = frames::name();
        let stop_reason = if block["type"] == "tool_use" { Some("tool_use") } else { None };
        let message = frames::message(self, &id, block, None);
        let mut kept = message.clone();
        kept["stop_reason"] = stop_reason.into();
        let mut entry = json!({"type": "assistant", "message": kept, "apiBlockIndex": self.turn.blocks});
        if let Some(next) = next {
            entry["scriptNext"] = next.into();
        }
        let mut frame = frames::assistant(self, &uuid, message, None);
        if aborted {
            entry["isAbortedMidStream"] = true.into();
            frame["aborted"] = true.into();
        }
        self.transcript.link(&uuid, entry)?;
        self.replay_prompt().await?;
        if let (0, Some(said)) = (self.turn.blocks, self.turn.said.first()) {
            frame["user_message_uuid"] = said.as_str().into();
            frame["user_message_uuids"] = json!(self.turn.said);
        }
        self.stamp(&mut frame);
        self.send(&frame).await?;
        Ok(uuid)
    }

    /// Uses a tool: or again, if the player was killed before it had an answer.
    async fn use_tool(&mut self, tool: &ToolStep) -> Result<Played, Leave> {
        let begun = match self.unanswered.take() {
            Some(begun) => begun,
            None => {
                let mut input = Value::Object(tools::absolute(tool.input.clone(), &self.arguments.cwd));
                if tool.name != "Bash" {
                    fill(&mut input, "${message}", &self.message);
                }
                self.begin_tool(&tool.name, input.as_object().cloned().unwrap_or_default()).await?
            }
        };
        let (answer, source, ending) = match self.permission(tool, &begun.id, begun.input.clone()).await? {
            Permission::Granted { input, source } => match self.run_tool(tool, &begun.id, &input).await? {
                Some(answer) => (answer, source, None),
                None => (stopped(&tool.name), source, Some(Ending::STOPPED_TOOL)),
            },
            Permission::Denied { message, stop } => {
                self.turn.denials.push(json!({"tool_name": tool.name, "tool_use_id": begun.id,
                    "tool_input": begun.input}));
                (Answer::bad(message), "denied", stop.then_some(Ending::STOPPED_TOOL))
            }
            Permission::Stopped => (stopped(&tool.name), "denied", Some(Ending::STOPPED_TOOL)),
        };
        self.answer_tool(&begun, answer, source).await?;
        match ending {
            Some(ending) => Ok(Err(ending)),
            None => self.fold_in().await,
        }
    }

    async fn begin_tool(&mut self, name: &str, input: Map<String, Value>) -> Result<Unanswered, Leave> {
        self.open_message().await?;
        let id = format!("toolu_{}", frames::name().replace('-', ""));
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        self.partial_block("content_block_start", json!({"content_block": block})).await?;
        let written = serde_json::to_string(&input).map_err(std::io::Error::from)?;
        let delta = json!({"delta": {"type": "input_json_delta", "partial_json": written}});
        self.partial_block("content_block_delta", delta).await?;
        let mut block = block;
        block["input"] = Value::Object(input.clone());
        let entry = self.put_block(block, Some(self.next), false).await?;
        self.partial_block("content_block_stop", json!({})).await?;
        self.turn.blocks += 1;
        self.turn.words += 10;
        self.close_message("tool_use").await?;
        Ok(Unanswered { id, entry, input })
    }

    /// Nothing if it was stopped.
    async fn run_tool(
        &mut self,
        tool: &ToolStep,
        id: &str,
        input: &Map<String, Value>,
    ) -> Result<Option<Answer>, Leave> {
        if tool.name == "Task" {
            return self.run_sub_agent(tool, id, input).await;
        }
        if let (None, Some(result)) = (tools::required(&tool.name), &tool.result) {
            return Ok(Some(Answer::good(result.clone(), json!({"content": result}))));
        }
        let (arguments, message) = (self.arguments.clone(), self.message.clone());
        let todos = self.todos.clone();
        let work = tools::run(&tool.name, input, Self::shell(&arguments, &message), &todos);
        let answer = self.during(work).await?;
        if tool.name == "TodoWrite" {
            self.todos = input.get("todos").cloned().unwrap_or_default();
        }
        Ok(answer)
    }

    /// Writes an answer down, then prints it.
    async fn answer_tool(&mut self, begun: &Unanswered, answer: Answer, source: &str) -> Result<(), Leave> {
        self.next += 1;
        let uuid = frames::name();
        let content = json!([{"tool_use_id": begun.id, "type": "tool_result", "content": answer.content,
            "is_error": answer.is_error}]);
        self.transcript.link(
            &uuid,
            json!({"type": "user", "message": {"role": "user", "content": content},
                "toolUseResult": answer.result, "sourceToolAssistantUUID": begun.entry,
                "scriptNext": self.next}),
        )?;
        let mut frame = frames::user(self, &uuid, content, None);
        frame["tool_use_result"] = answer.result;
        let decision = if source == "denied" { "reject" } else { "accept" };
        let source = if source == "denied" { "user_reject" } else { source };
        frame["tool_result_meta"] =
            json!([{"id": begun.id, "permission_decision": {"decision": decision, "source": source}}]);
        self.stamp(&mut frame);
        self.send(&frame).await?;
        self.mirror().await
    }

    /// Reads what was said while a tool was used.
    async fn fold_in(&mut self) -> Result<Played, Leave> {
        // Whatever is there already, even if the tool was too quick to listen meanwhile.
        while let Ok(input) = self.inbox.try_recv() {
            if self.take(input).await? == Heard::Stop {
                return Ok(Err(Ending::STOPPED_TALKING));
            }
        }
        while let Some(at) = self.queue.iter().position(|said| said.by == By::User) {
            let Some(said) = self.queue.remove(at) else { break };
            if let Err(ending) = self.hear(said).await? {
                return Ok(Err(ending));
            }
        }
        Ok(Ok(()))
    }

    async fn hear(&mut self, said: Said) -> Result<Played, Leave> {
        let (text, delivery) = (said.text(), frames::name());
        self.transcript.link(
            &frames::name(),
            json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": text,
                "source_uuid": said.uuid, "delivery_id": delivery, "commandMode": "prompt",
                "timestamp": said.at}}),
        )?;
        self.transcript.note(json!({"type": "queue-operation", "operation": "remove", "content": text,
            "reason": "absorbed_mid_turn", "commandUuid": said.uuid, "deliveryId": delivery}))?;
        self.replay(&said).await?;
        let started = frames::lifecycle(self, &said.uuid, "started");
        self.send(&started).await?;
        self.turn.said.push(said.uuid.clone());
        self.message.clone_from(&text);
        self.turn.commands.push(said.uuid.clone());
        let played = self.say(&format!("(Heard: {text})"), None).await?;
        if played.is_ok() {
            self.turn.commands.retain(|command| *command != said.uuid);
            let completed = frames::lifecycle(self, &said.uuid, "completed");
            self.send(&completed).await?;
        }
        Ok(played)
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

/// What a tool answers that was stopped.
fn stopped(name: &str) -> Answer {
    let text = "The user doesn't want to proceed with this tool use. The tool use was rejected.";
    match name {
        "Bash" => Answer {
            content: text.to_owned(),
            is_error: true,
            result: json!({"stdout": "", "stderr": "", "interrupted": true, "isImage": false}),
        },
        _ => Answer::bad(text),
    }
}
