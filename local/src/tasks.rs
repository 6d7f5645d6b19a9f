//! `sunaba tasks`, `sunaba cancel` and `sunaba retry`: what there is to do, and changing one's mind about it.

use crate::config::commands::{Address, Task, Tasks};
use anyhow::bail;
use client::{Attempt, Plane};
use domain::TaskId;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use terminal::print_line;

/// How long the plane has to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lists tasks.
pub async fn list(options: &Tasks) -> anyhow::Result<ExitCode> {
    let plane = plane(&options.address)?;
    let status = options.status.as_ref().map(|status| format!("&status={}", in_query(status)));
    let path = format!("/api/v1/tasks?limit={}{}", options.limit, status.unwrap_or_default());
    let answer = answered(&options.address, plane.get(&path).await)?;
    let tasks = answer["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    if tasks.is_empty() {
        print_line("There are no such tasks.");
    }
    for task in tasks {
        let sandbox = task["sandbox_id"].as_str().unwrap_or("-");
        print_line(&format!(
            "{}  {:<14} {:<8} {:<36} {}",
            text(task, "id"),
            text(task, "status"),
            text(task, "priority"),
            sandbox,
            text(task, "title")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls a task off.
pub async fn cancel(options: &Task) -> anyhow::Result<ExitCode> {
    ask(options, "cancel", "is called off; its sandbox, if it has one, is taken down").await
}

/// Asks for a task again.
pub async fn retry(options: &Task) -> anyhow::Result<ExitCode> {
    ask(options, "retry", "will be tried again").await
}

async fn ask(options: &Task, verb: &str, said: &str) -> anyhow::Result<ExitCode> {
    let task = TaskId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    answered(&options.address, plane.post(&format!("/api/v1/tasks/{task}/{verb}"), &json!({})).await)?;
    print_line(&format!("Task {task} {said}."));
    Ok(ExitCode::SUCCESS)
}

/// The plane that a command is about.
pub(crate) fn plane(address: &Address) -> anyhow::Result<Plane> {
    Ok(Plane::new(address.plane(), address.token()?, PATIENCE))
}

/// The answer, or a sentence that says why there is none.
pub(crate) fn answered(address: &Address, attempt: Attempt<Value>) -> anyhow::Result<Value> {
    match attempt {
        Attempt::Answered(answer) => Ok(answer),
        Attempt::Refused(problem) => bail!("{}", problem.detail),
        Attempt::Failed(failed) => bail!(
            "{}",
            match failed.kind {
                "unreachable" => format!("there is no plane at {}; `sunaba dev` starts one", address.plane()),
                "timeout" =>
                    format!("the plane at {} did not answer within {} s", address.plane(), PATIENCE.as_secs()),
                "rate_limited" | "unavailable" => "the plane is busy; try again in a moment".to_owned(),
                other => format!("the plane at {} gave no useful answer ({other})", address.plane()),
            }
        ),
    }
}

/// A field for people.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Part of a query, whatever somebody typed.
fn in_query(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_~".contains(&byte);
    let part = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(part).collect()
}
