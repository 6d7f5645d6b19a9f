//! `sunaba tasks`, `sunaba cancel` and `sunaba retry`.

use crate::config::commands::{Address, Task, Tasks};
use anyhow::bail;
use client::{Attempt, CODE_HOST_UNAVAILABLE, Failed, Plane};
use domain::TaskId;
use domain::url::percent_encoded;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use terminal::print_line;

/// Timeout of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub async fn list(options: &Tasks) -> anyhow::Result<ExitCode> {
    let plane = plane(&options.address)?;
    let status = options.status.as_ref().map(|status| format!("&status={}", percent_encoded(status)));
    let path = format!("/api/v1/tasks?limit={}{}", options.limit, status.unwrap_or_default());
    let response = response_body(&options.address, plane.get(&path).await)?;
    let tasks = response["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    if tasks.is_empty() {
        print_line("No tasks found.");
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

pub async fn cancel(options: &Task) -> anyhow::Result<ExitCode> {
    change(options, "cancel", "cancelled; its sandbox, if any, is being deleted").await
}

pub async fn retry(options: &Task) -> anyhow::Result<ExitCode> {
    change(options, "retry", "queued for another attempt").await
}

async fn change(options: &Task, action: &str, result: &str) -> anyhow::Result<ExitCode> {
    let task = TaskId::parse(&options.task)?;
    let plane = plane(&options.address)?;
    response_body(&options.address, plane.post(&format!("/api/v1/tasks/{task}/{action}"), &json!({})).await)?;
    print_line(&format!("Task {task} {result}."));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn plane(address: &Address) -> anyhow::Result<Plane> {
    Ok(Plane::new(address.plane(), address.token()?, TIMEOUT))
}

/// The response, or an error message for the user.
pub(crate) fn response_body(address: &Address, attempt: Attempt<Value>) -> anyhow::Result<Value> {
    match attempt {
        Attempt::Answered(response) => Ok(response),
        Attempt::Refused(problem) => bail!("{}", problem.detail),
        Attempt::Failed(failed) => bail!("{}", failure_text(address, failed)),
    }
}

/// Why there was no usable response, for the user.
pub(crate) fn failure_text(address: &Address, failed: Failed) -> String {
    match failed.kind {
        "unreachable" => {
            format!(
                "cannot connect to {}; start a local plane with `sunaba dev`, or set --url",
                address.plane()
            )
        }
        "timeout" => {
            format!("the plane at {} did not answer within {} s", address.plane(), TIMEOUT.as_secs())
        }
        "rate_limited" | "unavailable" => "the plane is busy; try again later".to_owned(),
        CODE_HOST_UNAVAILABLE => {
            "the code host of the repository does not respond (the plane does); try again later".to_owned()
        }
        other => format!("the plane at {} sent an invalid response ({other})", address.plane()),
    }
}

/// A string field; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
