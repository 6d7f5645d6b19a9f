//! Sub-agents: the steps of a Task, with the Task's id as parent and a separate transcript.

use super::frames;
use super::player::{Control, Exit, Player};
use super::script::{Directive, Step, ToolStep};
use super::tools::{self, ToolOutput};
use super::transcript::Transcript;
use serde_json::{Map, Value, json};

impl Player {
    /// Plays the steps of a Task, then its report. `None` if it was interrupted.
    pub(super) async fn run_sub_agent(
        &mut self,
        task: &ToolStep,
        id: &str,
        input: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, Exit> {
        let agent = frames::new_id()[..8].to_owned();
        let mut transcript = self.transcript.sub_agent(&agent)?;
        let description = input.get("description").cloned().unwrap_or_default();
        let started = frames::system(
            self,
            "task_started",
            json!({"task_id": agent, "tool_use_id": id, "description": description,
                "is_backgrounded": false, "task_type": "local_agent"}),
        );
        self.send(&started).await?;
        let prompt = json!([{"type": "text", "text": input.get("prompt")}]);
        self.emit_user(&mut transcript, id, prompt, None).await?;
        let (mut message, mut tools_used) = (None, 0);
        for step in &task.steps {
            let step = Step::parse(step.clone()).expect("the script was validated when it was loaded");
            let block = match step {
                Step::Play(Directive::Wait { ms }) => {
                    if self.pause(ms).await? == Control::Stop {
                        return Ok(None);
                    }
                    continue;
                }
                Step::Play(_) => continue,
                Step::Text(text) => json!({"type": "text", "text": text}),
                Step::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": ""}),
                Step::Tool(tool) => {
                    tools_used += 1;
                    let message = message.take().unwrap_or_else(new_message_id);
                    if !self.child_tool(&mut transcript, id, &message, *tool).await? {
                        return Ok(None);
                    }
                    continue;
                }
            };
            let message = message.get_or_insert_with(new_message_id).clone();
            self.emit_assistant(&mut transcript, id, &message, block).await?;
        }
        let report = task.result.clone().unwrap_or_default();
        let last = json!({"type": "text", "text": report});
        let message = message.unwrap_or_else(new_message_id);
        self.emit_assistant(&mut transcript, id, &message, last.clone()).await?;
        let ended = frames::system(
            self,
            "task_notification",
            json!({"task_id": agent, "tool_use_id": id, "status": "completed", "output_file": "",
                "summary": description}),
        );
        self.send(&ended).await?;
        let result = json!({"status": "completed", "agentId": agent, "prompt": input.get("prompt"),
            "content": [last], "totalToolUseCount": tools_used, "totalTokens": 0, "totalDurationMs": 0});
        Ok(Some(ToolOutput::ok(report, result)))
    }

    /// Runs a tool of the sub-agent. Returns false if it was interrupted.
    async fn child_tool(
        &mut self,
        transcript: &mut Transcript,
        parent: &str,
        message: &str,
        tool: ToolStep,
    ) -> Result<bool, Exit> {
        let id = format!("toolu_{}", frames::new_id().replace('-', ""));
        let input = tools::absolute(tool.input, &self.arguments.cwd);
        let block = json!({"type": "tool_use", "id": id, "name": tool.name, "input": input});
        self.emit_assistant(transcript, parent, message, block).await?;
        let (arguments, user_message, todos) = (self.arguments.clone(), self.message.clone(), json!([]));
        let output = match (tools::required(&tool.name), tool.result) {
            (None, Some(result)) => Some(ToolOutput::ok(result.clone(), json!({"content": result}))),
            _ => {
                let work = tools::run(&tool.name, &input, Self::shell(&arguments, &user_message), &todos);
                self.run_interruptible(work).await?
            }
        };
        let Some(output) = output else { return Ok(false) };
        let content = json!([{"tool_use_id": id, "type": "tool_result", "content": output.content,
            "is_error": output.is_error}]);
        self.emit_user(transcript, parent, content, Some(output.result)).await?;
        Ok(true)
    }

    async fn emit_assistant(
        &mut self,
        transcript: &mut Transcript,
        parent: &str,
        message: &str,
        block: Value,
    ) -> Result<(), Exit> {
        let uuid = frames::new_id();
        let message = frames::message(self, message, block, None);
        transcript.append_message(&uuid, json!({"type": "assistant", "message": message}))?;
        let frame = frames::assistant(self, &uuid, message, Some(parent));
        self.send_mirrored(transcript, frame).await
    }

    async fn emit_user(
        &mut self,
        transcript: &mut Transcript,
        parent: &str,
        content: Value,
        result: Option<Value>,
    ) -> Result<(), Exit> {
        let uuid = frames::new_id();
        let message = json!({"role": "user", "content": content});
        let mut frame = frames::user(self, &uuid, content, Some(parent));
        let mut entry = json!({"type": "user", "message": message});
        if let Some(result) = result {
            entry["toolUseResult"] = result.clone();
            frame["tool_use_result"] = result;
        }
        transcript.append_message(&uuid, entry)?;
        self.send_mirrored(transcript, frame).await
    }

    async fn send_mirrored(&mut self, transcript: &mut Transcript, frame: Value) -> Result<(), Exit> {
        self.send(&frame).await?;
        match transcript.mirror() {
            Some(mirror) if self.arguments.session_mirror => self.send(&mirror).await,
            _ => Ok(()),
        }
    }
}

fn new_message_id() -> String {
    format!("msg_{}", frames::new_id().replace('-', ""))
}
