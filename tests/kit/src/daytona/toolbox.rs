//! What can be done inside a sandbox that has started.

use super::machine::{Machine, Ran};
use super::{Asked, Operation, Said, refusal};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a command may take that does not say so itself.
const DEADLINE_SECS: u64 = 10;

pub(super) async fn perform(machine: &Arc<Machine>, operation: Operation, asked: &Asked) -> Said {
    let body = asked.json();
    let session = asked.path.get(3).map(String::as_str).unwrap_or_default();
    match operation {
        Operation::Execute => execute(machine, &body).await,
        Operation::Upload => {
            let path = asked.query.get("path").map(String::as_str).unwrap_or_default();
            match machine.write(Path::new(path), &asked.body) {
                Ok(()) => (200, json!({})),
                Err(error) => refusal(400, &error.to_string()),
            }
        }
        Operation::OpenSession => match machine.open(body["sessionId"].as_str().unwrap_or_default()) {
            true => (201, json!({})),
            false => refusal(409, "session already exists"),
        },
        Operation::LookAtSession => match machine.session(session) {
            Some(ran) => {
                let commands: Vec<Value> = ran.iter().map(command).collect();
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

async fn execute(machine: &Machine, body: &Value) -> Said {
    let secs = body["timeout"].as_u64().unwrap_or(DEADLINE_SECS);
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

fn command(ran: &Ran) -> Value {
    let mut command = json!({"id": ran.id, "command": ran.command});
    if let Some(code) = ran.exit_code {
        command["exitCode"] = json!(code);
    }
    command
}
