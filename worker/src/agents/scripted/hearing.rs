//! What reaches the player at any time, and what it answers at once.

use super::frames;
use super::player::{By, Heard, Leave, Player, Said};
use super::wire::Input;
use crate::clock;
use serde_json::{Value, json};
use std::collections::VecDeque;

impl Player {
    /// Reads one input.
    pub(super) async fn take(&mut self, input: Input) -> Result<Heard, Leave> {
        let frame = match input {
            Input::Frame(frame) => frame,
            Input::Garbage(line) => {
                super::refuse(&format!("Error parsing streaming input line: {line}"));
                return Err(Leave::With(1));
            }
            Input::Closed => {
                self.closed = true;
                return Ok(Heard::GoOn);
            }
            Input::TaskEnded { task, code, output } => {
                self.task_ended(&task, code, &output).await?;
                return Ok(Heard::GoOn);
            }
        };
        match frame["type"].as_str() {
            Some("user") => self.enqueue(&frame).await?,
            Some("control_request") => return self.request(&frame).await,
            // The CLI says these back, too.
            Some("control_response") if self.arguments.replay_user_messages => self.send(&frame).await?,
            _ => {}
        }
        Ok(Heard::GoOn)
    }

    async fn enqueue(&mut self, frame: &Value) -> Result<(), Leave> {
        let uuid = frame["uuid"].as_str().map_or_else(frames::name, str::to_owned);
        let content = frame["message"]["content"].clone();
        let at = clock::now().to_string();
        let said = Said { uuid, content, at, by: By::User };
        if !self.heard.insert(said.uuid.clone()) {
            // Said twice, read once.
            return self.replay(&said).await;
        }
        self.transcript.note(json!({"type": "queue-operation", "operation": "enqueue",
            "content": said.text()}))?;
        let queued = frames::lifecycle(self, &said.uuid, "queued");
        self.queue.push_back(said);
        self.send(&queued).await?;
        if self.busy { self.mirror().await } else { Ok(()) }
    }

    async fn request(&mut self, frame: &Value) -> Result<Heard, Leave> {
        let id = frame["request_id"].as_str().unwrap_or_default();
        let request = &frame["request"];
        let answer = match request["subtype"].as_str().unwrap_or_default() {
            "initialize" => frames::initialized(self, id),
            "interrupt" => {
                let response = if request["cancel_queued"] == true {
                    let cancelled = self.cancel(|_| true).await?;
                    json!({"still_queued": [], "cancelled": cancelled})
                } else {
                    let queued = self.queue.iter().filter(|said| said.by == By::User);
                    json!({"still_queued": queued.map(|said| &said.uuid).collect::<Vec<_>>()})
                };
                self.send(&frames::answer(id, response)).await?;
                return Ok(if self.busy { Heard::Stop } else { Heard::GoOn });
            }
            "cancel_async_message" => {
                let uuid = request["message_uuid"].as_str().unwrap_or_default();
                let cancelled = self.cancel(|said| said.uuid == uuid).await?;
                frames::answer(id, json!({"cancelled": !cancelled.is_empty()}))
            }
            "set_permission_mode" => {
                request["mode"].as_str().unwrap_or("default").clone_into(&mut self.mode);
                frames::answer(id, json!({"mode": self.mode}))
            }
            "set_model" => {
                let model = request["model"].as_str().unwrap_or("scripted");
                model.clone_into(&mut self.arguments.model);
                frames::answer(id, json!({}))
            }
            "get_session_cost" => frames::answer(
                id,
                json!({"text": format!("Total cost:            ${:.4}", self.totals.cost)}),
            ),
            other => frames::unsupported(id, other),
        };
        self.send(&answer).await?;
        Ok(Heard::GoOn)
    }

    /// Forgets what the user said and has not been begun.
    async fn cancel(&mut self, which: impl Fn(&Said) -> bool) -> Result<Vec<String>, Leave> {
        let (gone, kept): (VecDeque<_>, VecDeque<_>) =
            self.queue.drain(..).partition(|said| said.by == By::User && which(said));
        self.queue = kept;
        let mut names = Vec::new();
        for said in gone {
            self.transcript.note(json!({"type": "queue-operation", "operation": "remove",
                "content": said.text(), "reason": "cleared_on_cancel", "commandUuid": said.uuid}))?;
            let cancelled = frames::lifecycle(self, &said.uuid, "cancelled");
            self.send(&cancelled).await?;
            names.push(said.uuid);
        }
        Ok(names)
    }

    /// Tells that a background task has ended; a turn about it follows.
    async fn task_ended(&mut self, task: &str, code: Option<i32>, output: &str) -> Result<(), Leave> {
        let Some(command) = self.background.remove(task) else { return Ok(()) };
        let status = if code == Some(0) { "completed" } else { "failed" };
        let ended = frames::system(
            self,
            "task_notification",
            json!({"task_id": task, "status": status, "output_file": "", "summary": command}),
        );
        self.send(&ended).await?;
        self.background_changed().await?;
        let text = format!(
            "<task-notification>\n<task-id>{task}</task-id>\n<status>{status}</status>\n\
             <summary>{command}</summary>\n<output>{output}</output>\n</task-notification>"
        );
        let at = clock::now().to_string();
        self.queue.push_back(Said { uuid: frames::name(), content: text.into(), at, by: By::Task });
        Ok(())
    }

    /// Tells which background tasks there are.
    pub(super) async fn background_changed(&mut self) -> Result<(), Leave> {
        let tasks: Vec<Value> = self
            .background
            .iter()
            .map(
                |(task, command)| json!({"task_id": task, "task_type": "local_bash", "description": command}),
            )
            .collect();
        let changed = frames::system(self, "background_tasks_changed", json!({"tasks": tasks}));
        self.send(&changed).await
    }
}
