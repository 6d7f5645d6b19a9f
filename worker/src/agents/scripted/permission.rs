//! Whether a tool may be used: by rule, by mode, or because somebody was asked.

use super::player::{Heard, Leave, Player};
use super::script::ToolStep;
use super::wire::Input;
use super::{frames, tools};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Whether a tool may be used.
#[derive(Debug, Clone, PartialEq)]
pub enum Permission {
    /// With this input.
    Granted {
        /// As it was asked for, or changed.
        input: Map<String, Value>,
        /// Who said so: `config` or `user_temporary`.
        source: &'static str,
    },
    /// It may not.
    Denied {
        /// What the model is told.
        message: String,
        /// Whether the turn ends, too.
        stop: bool,
    },
    /// The turn was stopped while somebody was asked.
    Stopped,
}

/// First words of commands that change nothing.
const HARMLESS: [&str; 14] = [
    "ls", "cat", "echo", "sleep", "pwd", "true", "false", "head", "tail", "wc", "grep", "test", "exit",
    "printf",
];

impl Player {
    /// Finds out whether a tool may be used, and asks if nothing else decides it.
    pub(super) async fn permission(
        &mut self,
        tool: &ToolStep,
        id: &str,
        input: Map<String, Value>,
    ) -> Result<Permission, Leave> {
        if let Some(reason) = &tool.deny {
            let denied = frames::system(
                self,
                "permission_denied",
                json!({"tool_name": tool.name, "tool_use_id": id, "message": reason}),
            );
            self.send(&denied).await?;
            return Ok(Permission::Denied { message: reason.clone(), stop: false });
        }
        if listed(&self.arguments.disallowed_tools, &tool.name) {
            let message = format!("Permission to use {} has been denied.", tool.name);
            return Ok(Permission::Denied { message, stop: false });
        }
        let free = listed(&self.arguments.allowed_tools, &tool.name) || harmless(&tool.name, &input);
        let mode = match self.mode.as_str() {
            "bypassPermissions" | "auto" => true,
            "acceptEdits" => matches!(tool.name.as_str(), "Write" | "Edit"),
            _ => false,
        };
        if free || mode {
            return Ok(Permission::Granted { input, source: "config" });
        }
        if self.mode == "dontAsk" {
            let message = format!("Permission to use {} has been denied: nobody is asked.", tool.name);
            return Ok(Permission::Denied { message, stop: false });
        }
        self.ask(&tool.name, id, input).await
    }

    async fn ask(&mut self, name: &str, id: &str, input: Map<String, Value>) -> Result<Permission, Leave> {
        let request = frames::name();
        let description = match (input.get("file_path"), input.get("description").or(input.get("command"))) {
            (Some(Value::String(path)), _) => {
                Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned())
            }
            (_, Some(Value::String(text))) => Some(text.clone()),
            _ => None,
        };
        let frame = json!({"type": "control_request", "request_id": request, "request": {
            "subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": input,
            "description": description, "tool_use_id": id,
            "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]}});
        self.send(&frame).await?;
        self.mirror().await?;
        loop {
            let heard = self.inbox.recv().await.expect("the player holds a sender itself");
            let answer = match &heard {
                Input::Frame(frame) if frame["response"]["request_id"] == request.as_str() => {
                    Some(frame["response"].clone())
                }
                // Nobody is there any more who could answer.
                Input::Closed => Some(json!({"subtype": "error", "error": "Stream closed"})),
                _ => None,
            };
            if self.take(heard).await? == Heard::Stop {
                self.send(&json!({"type": "control_cancel_request", "request_id": request})).await?;
                return Ok(Permission::Stopped);
            }
            if let Some(answer) = answer {
                return Ok(read(&answer, input));
            }
        }
    }
}

/// What an answer means.
fn read(answer: &Value, asked: Map<String, Value>) -> Permission {
    let response = &answer["response"];
    if answer["subtype"] == "success" && response["behavior"] == "allow" {
        let input = response["updatedInput"].as_object().cloned().unwrap_or(asked);
        return Permission::Granted { input, source: "user_temporary" };
    }
    let message = response["message"].as_str().or(answer["error"].as_str());
    Permission::Denied {
        message: message.unwrap_or("The user doesn't want to proceed with this tool use.").to_owned(),
        stop: response["interrupt"] == true,
    }
}

/// Whether a rule names a tool. What a rule has in brackets is for the real CLI.
fn listed(rules: &[String], name: &str) -> bool {
    rules.iter().any(|rule| rule.split('(').next() == Some(name))
}

/// Whether a tool changes nothing, as far as can be told from its words.
fn harmless(name: &str, input: &Map<String, Value>) -> bool {
    if name != "Bash" {
        return !matches!(name, "Write" | "Edit") && tools::required(name).is_some();
    }
    let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
    !command.contains(['>', '`', '(', '\n'])
        && command
            .split([';', '&', '|'])
            .map(|part| part.split_whitespace().next())
            .all(|word| word.is_none_or(|word| HARMLESS.contains(&word)))
}
