//! Tool calls: permission, execution, result, and messages that arrived meanwhile.

use super::frames::{self, Ending};
use super::permission::Permission;
use super::player::{Control, Exit, Origin, Player, QueuedMessage};
use super::script::{ToolStep, substitute};
use super::steps::StepResult;
use super::tools::{self, ToolOutput};
use super::transcript::PendingTool;
use serde_json::{Map, Value, json};

impl Player {
    /// Uses a tool. On resume, runs it again if the player was killed before the result was written.
    pub(super) async fn use_tool(&mut self, tool: &ToolStep) -> Result<StepResult, Exit> {
        let pending = match self.pending_tool.take() {
            Some(pending) => pending,
            None => {
                let mut input = Value::Object(tools::absolute(tool.input.clone(), &self.arguments.cwd));
                if tool.name != "Bash" {
                    substitute(&mut input, "${message}", &self.message);
                }
                self.begin_tool(&tool.name, input.as_object().cloned().unwrap_or_default()).await?
            }
        };
        let (output, source, ending) = match self.permission(tool, &pending.id, pending.input.clone()).await?
        {
            Permission::Granted { input, source } => match self.run_tool(tool, &pending.id, &input).await? {
                Some(output) => (output, source, None),
                None => (interrupted(&tool.name), source, Some(Ending::INTERRUPTED_TOOL)),
            },
            Permission::Denied { message, stop } => {
                self.turn.denials.push(json!({"tool_name": tool.name, "tool_use_id": pending.id,
                    "tool_input": pending.input}));
                (ToolOutput::error(message), "denied", stop.then_some(Ending::INTERRUPTED_TOOL))
            }
            Permission::Stopped => (interrupted(&tool.name), "denied", Some(Ending::INTERRUPTED_TOOL)),
        };
        self.finish_tool(&pending, output, source).await?;
        match ending {
            Some(ending) => Ok(Err(ending)),
            None => self.absorb_messages().await,
        }
    }

    /// Prints a tool call.
    pub(super) async fn begin_tool(
        &mut self,
        name: &str,
        input: Map<String, Value>,
    ) -> Result<PendingTool, Exit> {
        self.open_message().await?;
        let id = format!("toolu_{}", frames::new_id().replace('-', ""));
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        self.partial_block("content_block_start", json!({"content_block": block})).await?;
        let written = serde_json::to_string(&input).map_err(std::io::Error::from)?;
        let delta = json!({"delta": {"type": "input_json_delta", "partial_json": written}});
        self.partial_block("content_block_delta", delta).await?;
        let mut block = block;
        block["input"] = Value::Object(input.clone());
        let entry = self.emit_block(block, Some(self.next), false).await?;
        self.partial_block("content_block_stop", json!({})).await?;
        self.turn.blocks += 1;
        self.turn.words += 10;
        self.close_message("tool_use").await?;
        Ok(PendingTool { id, entry, input })
    }

    /// Executes a tool. `None` if it was interrupted.
    async fn run_tool(
        &mut self,
        tool: &ToolStep,
        id: &str,
        input: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, Exit> {
        if tool.name == "Task" {
            return self.run_sub_agent(tool, id, input).await;
        }
        if let (None, Some(result)) = (tools::required(&tool.name), &tool.result) {
            return Ok(Some(ToolOutput::ok(result.clone(), json!({"content": result}))));
        }
        let (arguments, message) = (self.arguments.clone(), self.message.clone());
        let todos = self.todos.clone();
        let work = tools::run(&tool.name, input, Self::shell(&arguments, &message), &todos);
        let output = self.run_interruptible(work).await?;
        if tool.name == "TodoWrite" {
            self.todos = input.get("todos").cloned().unwrap_or_default();
        }
        Ok(output)
    }

    /// Appends a tool result to the transcript, then prints it.
    pub(super) async fn finish_tool(
        &mut self,
        pending: &PendingTool,
        output: ToolOutput,
        source: &str,
    ) -> Result<(), Exit> {
        self.next += 1;
        let uuid = frames::new_id();
        let content = json!([{"tool_use_id": pending.id, "type": "tool_result", "content": output.content,
            "is_error": output.is_error}]);
        self.transcript.append_message(
            &uuid,
            json!({"type": "user", "message": {"role": "user", "content": content},
                "toolUseResult": output.result, "sourceToolAssistantUUID": pending.entry,
                "scriptNext": self.next}),
        )?;
        let mut frame = frames::user(self, &uuid, content, None);
        frame["tool_use_result"] = output.result;
        let decision = if source == "denied" { "reject" } else { "accept" };
        let source = if source == "denied" { "user_reject" } else { source };
        frame["tool_result_meta"] =
            json!([{"id": pending.id, "permission_decision": {"decision": decision, "source": source}}]);
        self.mark_resumed(&mut frame);
        self.send(&frame).await?;
        self.mirror().await
    }

    /// Delivers messages that arrived during a tool call.
    pub(super) async fn absorb_messages(&mut self) -> Result<StepResult, Exit> {
        // A fast tool may finish before its inputs were handled.
        while let Ok(input) = self.inbox.try_recv() {
            if self.handle_input(input).await? == Control::Stop {
                return Ok(Err(Ending::INTERRUPTED_STREAMING));
            }
        }
        while let Some(index) = self.queue.iter().position(|message| message.origin == Origin::User) {
            let Some(message) = self.queue.remove(index) else { break };
            if let Err(ending) = self.absorb_message(message).await? {
                return Ok(Err(ending));
            }
        }
        Ok(Ok(()))
    }

    async fn absorb_message(&mut self, message: QueuedMessage) -> Result<StepResult, Exit> {
        let (text, delivery) = (message.text(), frames::new_id());
        self.transcript.append_message(
            &frames::new_id(),
            json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": text,
                "source_uuid": message.uuid, "delivery_id": delivery, "commandMode": "prompt",
                "timestamp": message.at}}),
        )?;
        self.transcript.append(json!({"type": "queue-operation", "operation": "remove", "content": text,
            "reason": "absorbed_mid_turn", "commandUuid": message.uuid, "deliveryId": delivery}))?;
        self.replay(&message).await?;
        let started = frames::lifecycle(self, &message.uuid, "started");
        self.send(&started).await?;
        self.turn.message_ids.push(message.uuid.clone());
        self.message.clone_from(&text);
        self.turn.commands.push(message.uuid.clone());
        let result = self.write_message(&format!("(Received: {text})"), None).await?;
        if result.is_ok() {
            self.turn.commands.retain(|command| *command != message.uuid);
            let completed = frames::lifecycle(self, &message.uuid, "completed");
            self.send(&completed).await?;
        }
        Ok(result)
    }
}

/// The result of an interrupted tool.
fn interrupted(name: &str) -> ToolOutput {
    let text = "The user doesn't want to proceed with this tool use. The tool use was rejected.";
    match name {
        "Bash" => ToolOutput {
            content: text.to_owned(),
            is_error: true,
            result: json!({"stdout": "", "stderr": "", "interrupted": true, "isImage": false}),
        },
        _ => ToolOutput::error(text),
    }
}
