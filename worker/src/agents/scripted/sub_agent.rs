//! A sub-agent: the steps that a Task has, told under its name and kept in a file of their own.

use super::frames;
use super::player::{Heard, Leave, Player};
use super::script::{Directive, Step, ToolStep};
use super::tools::{self, Answer};
use super::transcript::Transcript;
use serde_json::{Map, Value, json};

impl Player {
    /// Plays the steps of a Task, then its report. Nothing if it was stopped.
    pub(super) async fn run_sub_agent(
        &mut self,
        task: &ToolStep,
        id: &str,
        input: &Map<String, Value>,
    ) -> Result<Option<Answer>, Leave> {
        let agent = frames::name()[..8].to_owned();
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
        self.put_user(&mut transcript, id, prompt, None).await?;
        let (mut message, mut tools_used) = (None, 0);
        for step in &task.steps {
            let step = Step::read(step.clone()).expect("the script was checked when it was read");
            let block = match step {
                Step::Play(Directive::Wait { ms }) => {
                    if self.pause(ms).await? == Heard::Stop {
                        return Ok(None);
                    }
                    continue;
                }
                Step::Play(_) => continue,
                Step::Text(text) => json!({"type": "text", "text": text}),
                Step::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": ""}),
                Step::Tool(tool) => {
                    tools_used += 1;
                    let message = message.take().unwrap_or_else(message_name);
                    if !self.child_tool(&mut transcript, id, &message, *tool).await? {
                        return Ok(None);
                    }
                    continue;
                }
            };
            let message = message.get_or_insert_with(message_name).clone();
            self.put_assistant(&mut transcript, id, &message, block).await?;
        }
        let report = task.result.clone().unwrap_or_default();
        let last = json!({"type": "text", "text": report});
        let message = message.unwrap_or_else(message_name);
        self.put_assistant(&mut transcript, id, &message, last.clone()).await?;
        let ended = frames::system(
            self,
            "task_notification",
            json!({"task_id": agent, "tool_use_id": id, "status": "completed", "output_file": "",
                "summary": description}),
        );
        self.send(&ended).await?;
        let result = json!({"status": "completed", "agentId": agent, "prompt": input.get("prompt"),
            "content": [last], "totalToolUseCount": tools_used, "totalTokens": 0, "totalDurationMs": 0});
        Ok(Some(Answer::good(report, result)))
    }

    /// Whether it came to its end.
    async fn child_tool(
        &mut self,
        transcript: &mut Transcript,
        parent: &str,
        message: &str,
        tool: ToolStep,
    ) -> Result<bool, Leave> {
        let id = format!("toolu_{}", frames::name().replace('-', ""));
        let input = tools::absolute(tool.input, &self.arguments.cwd);
        let block = json!({"type": "tool_use", "id": id, "name": tool.name, "input": input});
        self.put_assistant(transcript, parent, message, block).await?;
        let (arguments, said, todos) = (self.arguments.clone(), self.message.clone(), json!([]));
        let answer = match (tools::required(&tool.name), tool.result) {
            (None, Some(result)) => Some(Answer::good(result.clone(), json!({"content": result}))),
            _ => {
                let work = tools::run(&tool.name, &input, Self::shell(&arguments, &said), &todos);
                self.during(work).await?
            }
        };
        let Some(answer) = answer else { return Ok(false) };
        let content = json!([{"tool_use_id": id, "type": "tool_result", "content": answer.content,
            "is_error": answer.is_error}]);
        self.put_user(transcript, parent, content, Some(answer.result)).await?;
        Ok(true)
    }

    async fn put_assistant(
        &mut self,
        transcript: &mut Transcript,
        parent: &str,
        message: &str,
        block: Value,
    ) -> Result<(), Leave> {
        let uuid = frames::name();
        let message = frames::message(self, message, block, None);
        transcript.link(&uuid, json!({"type": "assistant", "message": message}))?;
        let frame = frames::assistant(self, &uuid, message, Some(parent));
        self.send_mirrored(transcript, frame).await
    }

    async fn put_user(
        &mut self,
        transcript: &mut Transcript,
        parent: &str,
        content: Value,
        result: Option<Value>,
    ) -> Result<(), Leave> {
        let uuid = frames::name();
        let message = json!({"role": "user", "content": content});
        let mut frame = frames::user(self, &uuid, content, Some(parent));
        let mut entry = json!({"type": "user", "message": message});
        if let Some(result) = result {
            entry["toolUseResult"] = result.clone();
            frame["tool_use_result"] = result;
        }
        transcript.link(&uuid, entry)?;
        self.send_mirrored(transcript, frame).await
    }

    async fn send_mirrored(&mut self, transcript: &mut Transcript, frame: Value) -> Result<(), Leave> {
        self.send(&frame).await?;
        match transcript.mirror() {
            Some(mirror) if self.arguments.session_mirror => self.send(&mirror).await,
            _ => Ok(()),
        }
    }
}

fn message_name() -> String {
    format!("msg_{}", frames::name().replace('-', ""))
}
