//! A tool that is used: asked for, run, answered, and what was said meanwhile.

use super::frames::{self, Ending};
use super::permission::Permission;
use super::player::{By, Heard, Leave, Player, Said};
use super::script::{ToolStep, fill};
use super::steps::Played;
use super::tools::{self, Answer};
use super::transcript::Unanswered;
use serde_json::{Map, Value, json};

impl Player {
    /// Uses a tool: or again, if the player was killed before it had an answer.
    pub(super) async fn use_tool(&mut self, tool: &ToolStep) -> Result<Played, Leave> {
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

    /// Tells that a tool is used.
    pub(super) async fn begin_tool(
        &mut self,
        name: &str,
        input: Map<String, Value>,
    ) -> Result<Unanswered, Leave> {
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
    pub(super) async fn answer_tool(
        &mut self,
        begun: &Unanswered,
        answer: Answer,
        source: &str,
    ) -> Result<(), Leave> {
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
    pub(super) async fn fold_in(&mut self) -> Result<Played, Leave> {
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
