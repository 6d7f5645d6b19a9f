//! The toolbox API: operations inside of a running sandbox.

use super::machine::{Machine, SessionCommand};
use super::{ApiRequest, ApiResponse, Operation, refusal};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a command whose request sets none.
const DEFAULT_TIMEOUT_SECS: u64 = 10;

pub(super) async fn perform(
    machine: &Arc<Machine>,
    operation: Operation,
    request: &ApiRequest,
) -> ApiResponse {
    let body = request.json();
    let session = request.path.get(3).map(String::as_str).unwrap_or_default();
    match operation {
        Operation::Execute => execute(machine, &body).await,
        Operation::Upload => {
            let path = request.query.get("path").map(String::as_str).unwrap_or_default();
            match machine.write(Path::new(path), &request.body) {
                Ok(()) => (200, json!({})),
                Err(error) => refusal(400, &error.to_string()),
            }
        }
        Operation::OpenSession => match machine.open(body["sessionId"].as_str().unwrap_or_default()) {
            true => (201, json!({})),
            false => refusal(409, "session already exists"),
        },
        Operation::GetSession => match machine.session(session) {
            Some(commands) => {
                let commands: Vec<Value> = commands.iter().map(command).collect();
                (200, json!({"sessionId": session, "commands": commands}))
            }
            None => refusal(404, "session not found"),
        },
        Operation::RunInSession => {
            match machine.run_in(session, body["command"].as_str().unwrap_or_default()) {
                Some(id) => (202, json!({"cmdId": id})),
                None => refusal(404, "session not found"),
            }
        }
        Operation::CloseSession => match machine.close(session) {
            true => (204, json!({})),
            false => refusal(404, "session not found"),
        },
        Operation::Create
        | Operation::Find
        | Operation::List
        | Operation::Delete
        | Operation::Resize
        | Operation::Preview => refusal(404, "Cannot do that here"),
    }
}

async fn execute(machine: &Machine, body: &Value) -> ApiResponse {
    let secs = body["timeout"].as_u64().unwrap_or(DEFAULT_TIMEOUT_SECS);
    let command = body["command"].as_str().unwrap_or_default();
    match machine.run(command, Duration::from_secs(secs)).await {
        Some(output) => {
            let text = [output.stdout, output.stderr].concat();
            let code = output.status.code().unwrap_or(-1);
            (200, json!({"exitCode": code, "result": String::from_utf8_lossy(&text)}))
        }
        None => refusal(408, "command execution timeout"),
    }
}

fn command(command: &SessionCommand) -> Value {
    let mut json = json!({"id": command.id, "command": command.command});
    if let Some(code) = command.exit_code {
        json["exitCode"] = json!(code);
    }
    json
}
