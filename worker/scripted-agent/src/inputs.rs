//! Handles inputs, which may arrive at any time.

use super::frames;
use super::player::{Control, Exit, Origin, Player, QueuedMessage};
use super::wire::Input;
use serde_json::{Value, json};
use std::collections::VecDeque;
use worker::clock;

impl Player {
    pub(super) async fn handle_input(&mut self, input: Input) -> Result<Control, Exit> {
        let frame = match input {
            Input::Frame(frame) => frame,
            Input::Invalid(line) => {
                super::print_error(&format!("Error parsing streaming input line: {line}"));
                return Err(Exit::Code(1));
            }
            Input::Closed => {
                self.closed = true;
                return Ok(Control::Continue);
            }
            Input::TaskEnded { task, code, output } => {
                self.task_ended(&task, code, &output).await?;
                return Ok(Control::Continue);
            }
        };
        match frame["type"].as_str() {
            Some("user") => self.enqueue(&frame).await?,
            Some("control_request") => return self.request(&frame).await,
            // The CLI echoes these, too.
            Some("control_response") if self.arguments.replay_user_messages => self.send(&frame).await?,
            _ => {}
        }
        Ok(Control::Continue)
    }

    async fn enqueue(&mut self, frame: &Value) -> Result<(), Exit> {
        let uuid = frame["uuid"].as_str().map_or_else(frames::new_id, str::to_owned);
        let content = frame["message"]["content"].clone();
        let at = clock::now().to_string();
        let message = QueuedMessage { uuid, content, at, origin: Origin::User };
        if !self.received.insert(message.uuid.clone()) {
            // Idempotent: a duplicate is echoed, but not queued.
            return self.replay(&message).await;
        }
        self.transcript.append(json!({"type": "queue-operation", "operation": "enqueue",
            "content": message.text()}))?;
        let queued = frames::lifecycle(self, &message.uuid, "queued");
        self.queue.push_back(message);
        self.send(&queued).await?;
        if self.busy { self.mirror().await } else { Ok(()) }
    }

    async fn request(&mut self, frame: &Value) -> Result<Control, Exit> {
        let id = frame["request_id"].as_str().unwrap_or_default();
        let request = &frame["request"];
        let response = match request["subtype"].as_str().unwrap_or_default() {
            "initialize" => frames::initialized(self, id),
            "interrupt" => {
                let response = if request["cancel_queued"] == true {
                    let cancelled = self.cancel(|_| true).await?;
                    json!({"still_queued": [], "cancelled": cancelled})
                } else {
                    let queued = self.queue.iter().filter(|message| message.origin == Origin::User);
                    json!({"still_queued": queued.map(|message| &message.uuid).collect::<Vec<_>>()})
                };
                self.send(&frames::response(id, response)).await?;
                return Ok(if self.busy { Control::Stop } else { Control::Continue });
            }
            "cancel_async_message" => {
                let uuid = request["message_uuid"].as_str().unwrap_or_default();
                let cancelled = self.cancel(|message| message.uuid == uuid).await?;
                frames::response(id, json!({"cancelled": !cancelled.is_empty()}))
            }
            "set_permission_mode" => {
                request["mode"].as_str().unwrap_or("default").clone_into(&mut self.mode);
                frames::response(id, json!({"mode": self.mode}))
            }
            "set_model" => {
                let model = request["model"].as_str().unwrap_or("scripted");
                model.clone_into(&mut self.arguments.model);
                frames::response(id, json!({}))
            }
            "get_session_cost" => frames::response(
                id,
                json!({"text": format!("Total cost:            ${:.4}", self.totals.cost)}),
            ),
            other => frames::unsupported(id, other),
        };
        self.send(&response).await?;
        Ok(Control::Continue)
    }

    /// Removes matching user messages from the queue. Returns their ids.
    async fn cancel(&mut self, matches: impl Fn(&QueuedMessage) -> bool) -> Result<Vec<String>, Exit> {
        let (cancelled, remaining): (VecDeque<_>, VecDeque<_>) =
            self.queue.drain(..).partition(|message| message.origin == Origin::User && matches(message));
        self.queue = remaining;
        let mut ids = Vec::new();
        for message in cancelled {
            self.transcript.append(json!({"type": "queue-operation", "operation": "remove",
                "content": message.text(), "reason": "cleared_on_cancel", "commandUuid": message.uuid}))?;
            let frame = frames::lifecycle(self, &message.uuid, "cancelled");
            self.send(&frame).await?;
            ids.push(message.uuid);
        }
        Ok(ids)
    }

    /// Reports the end of a background task and queues a turn for it.
    async fn task_ended(&mut self, task: &str, code: Option<i32>, output: &str) -> Result<(), Exit> {
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
        self.queue.push_back(QueuedMessage {
            uuid: frames::new_id(),
            content: text.into(),
            at,
            origin: Origin::Task,
        });
        Ok(())
    }

    /// Reports the list of background tasks.
    pub(super) async fn background_changed(&mut self) -> Result<(), Exit> {
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
