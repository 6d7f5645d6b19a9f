//! Tool permissions: by rule, by mode, or by a permission request.

use super::player::{Control, Exit, Player};
use super::script::ToolStep;
use super::wire::Input;
use super::{frames, tools};
use serde_json::{Map, Value, json};
use std::path::Path;

#[derive(Debug, Clone, PartialEq)]
pub enum Permission {
    Granted {
        /// As requested, or changed by the response.
        input: Map<String, Value>,
        /// `config` or `user_temporary`.
        source: &'static str,
    },
    Denied {
        /// The text for the model.
        message: String,
        /// Whether the turn is stopped, too.
        stop: bool,
    },
    /// The turn was interrupted while a request was pending.
    Stopped,
}

/// Read-only shell commands.
const READ_ONLY_COMMANDS: [&str; 14] = [
    "ls", "cat", "echo", "sleep", "pwd", "true", "false", "head", "tail", "wc", "grep", "test", "exit",
    "printf",
];

impl Player {
    /// Decides whether a tool may be used. Sends a permission request if no rule applies.
    pub(super) async fn permission(
        &mut self,
        tool: &ToolStep,
        id: &str,
        input: Map<String, Value>,
    ) -> Result<Permission, Exit> {
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
        let allowed = listed(&self.arguments.allowed_tools, &tool.name) || is_read_only(&tool.name, &input);
        let allowed_by_mode = match self.mode.as_str() {
            "bypassPermissions" | "auto" => true,
            "acceptEdits" => matches!(tool.name.as_str(), "Write" | "Edit"),
            _ => false,
        };
        if allowed || allowed_by_mode {
            return Ok(Permission::Granted { input, source: "config" });
        }
        if self.mode == "dontAsk" {
            let message = format!("Permission to use {} has been denied by the permission mode.", tool.name);
            return Ok(Permission::Denied { message, stop: false });
        }
        self.request_permission(&tool.name, id, input).await
    }

    async fn request_permission(
        &mut self,
        name: &str,
        id: &str,
        input: Map<String, Value>,
    ) -> Result<Permission, Exit> {
        let request = frames::new_id();
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
            let received = self.inbox.recv().await.expect("the player holds a sender itself");
            let response = match &received {
                Input::Frame(frame) if frame["response"]["request_id"] == request.as_str() => {
                    Some(frame["response"].clone())
                }
                // No response can follow.
                Input::Closed => Some(json!({"subtype": "error", "error": "Stream closed"})),
                _ => None,
            };
            if self.handle_input(received).await? == Control::Stop {
                self.send(&json!({"type": "control_cancel_request", "request_id": request})).await?;
                return Ok(Permission::Stopped);
            }
            if let Some(response) = response {
                return Ok(decode(&response, input));
            }
        }
    }
}

fn decode(response: &Value, requested: Map<String, Value>) -> Permission {
    let body = &response["response"];
    if response["subtype"] == "success" && body["behavior"] == "allow" {
        let input = body["updatedInput"].as_object().cloned().unwrap_or(requested);
        return Permission::Granted { input, source: "user_temporary" };
    }
    let message = body["message"].as_str().or(response["error"].as_str());
    Permission::Denied {
        message: message.unwrap_or("The user doesn't want to proceed with this tool use.").to_owned(),
        stop: body["interrupt"] == true,
    }
}

/// Whether a rule names the tool. Patterns in parentheses are ignored here.
fn listed(rules: &[String], name: &str) -> bool {
    rules.iter().any(|rule| rule.split('(').next() == Some(name))
}

/// Whether a tool call looks read-only.
fn is_read_only(name: &str, input: &Map<String, Value>) -> bool {
    if name != "Bash" {
        return !matches!(name, "Write" | "Edit") && tools::required(name).is_some();
    }
    let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
    !command.contains(['>', '`', '(', '\n'])
        && command
            .split([';', '&', '|'])
            .map(|part| part.split_whitespace().next())
            .all(|word| word.is_none_or(|word| READ_ONLY_COMMANDS.contains(&word)))
}
