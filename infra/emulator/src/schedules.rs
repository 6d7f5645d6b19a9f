//! End-to-end test of the scheduled functions: the orchestrator finds a task whose job was lost, the idle check ends an idle
//! sandbox, and a failed run ends in the dead-letter queue.
//!
//! Each of these steps waits for a schedule, so they run at the same time as the others, with tickets in orgs of their own.

use crate::account::Account;
use crate::plane::Plane;
use crate::report::Report;
use crate::tickets::{Agent, LIFECYCLE_TIMEOUT, post, wait_for_end, wait_for_event, wait_for_status};
use anyhow::{Context, ensure};
use kit::daytona::Daytona;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The shortest idle threshold that the template accepts, as a stack parameter.
pub const IDLE_THRESHOLD: &str = "IdleThresholdMinutes=1";
/// The function whose scheduled run fails.
pub const FAILING: &str = "platform-check";

/// The emulator runs a schedule of one minute every 60 to 70 s.
const RUN_TIMEOUT_SECS: u32 = 90;
/// Two runs of a schedule: a sandbox may become idle just after the first. Then the sandbox is deleted.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 + 2 * 70 + 60);
/// One run of a schedule, and the whole lifecycle of a sandbox.
const LOST_TIMEOUT: Duration = Duration::from_secs(70 + 60);

/// A sandbox whose agent was stopped, and that nothing uses any more, is ended by the scheduled check.
pub async fn end_idle_sandbox(
    mut report: Report,
    account: &Account,
    plane: &Plane,
    daytona: &Daytona,
) -> anyhow::Result<()> {
    // A plane counts timeouts from its first sweep, and the schedule runs the first one only after a minute.
    account.invoke("sandboxes-sweep").await?;
    let ticket = post(plane, "idle", "Work until you are stopped", Agent::Working).await?;
    let stopped = report.step("running agent is stopped and waits", stop_agent(plane, &ticket));
    let sandbox = stopped.await?;
    let ended = async {
        let event = wait_for_event(plane, &sandbox, "sandbox.terminated_idle", IDLE_TIMEOUT).await?;
        ensure!(event["event_data"]["reason"] == "idle_timeout", "{event}");
        let task = wait_for_status(plane, &ticket, "failed", LIFECYCLE_TIMEOUT).await?;
        ensure!(task["error_message"] == "The agent was idle for too long.", "{task}");
        wait_for_event(plane, &sandbox, "sandbox.released", LIFECYCLE_TIMEOUT).await?;
        let mut live = daytona.live_sandboxes();
        live.retain(|found| found.name == sandbox);
        ensure!(live.is_empty(), "it was not deleted: {live:?}");
        Ok(())
    };
    report.step("scheduled idle check ends the idle sandbox", ended).await
}

/// Waits until the agent works, then stops it. Returns its sandbox.
async fn stop_agent(plane: &Plane, ticket: &str) -> anyhow::Result<String> {
    let task = wait_for_status(plane, ticket, "running", LIFECYCLE_TIMEOUT).await?;
    let sandbox = task["sandbox_id"].as_str().context("the task has no sandbox")?;
    wait_for_event(plane, sandbox, "agent.tool_use", LIFECYCLE_TIMEOUT).await?;
    let stop = json!({"message_type": "stop", "content": "Stop."});
    let path = format!("/api/v1/sandboxes/{sandbox}/messages");
    let (status, body) = plane.call(Method::POST, &path, Some(&plane.operator), Some(stop)).await?;
    ensure!(status == 200, "{status} {body}");
    wait_for_event(plane, sandbox, "agent.waiting", LIFECYCLE_TIMEOUT).await?;
    Ok(sandbox.to_owned())
}

/// A ticket is created by a function that may not send jobs. Only the schedule can find its task.
pub async fn find_lost_task(mut report: Report, account: &Account, plane: &Plane) -> anyhow::Result<()> {
    const CREATE: &str = "tickets-create";
    let lost = async {
        account.deny(CREATE, "sqs:SendMessage").await?;
        let ticket = post(plane, "lost", "Say hello although your job was lost", Agent::Hello).await?;
        let line = account.wait_for_log(CREATE, "Could not enqueue Dispatch", 20).await?;
        ensure!(line.contains("AccessDenied"), "{line}");
        account.allow(CREATE).await?;
        Ok(ticket)
    };
    let ticket = report.step("ticket is created, and its job is lost", lost).await?;
    let found = async {
        let (task, _) = wait_for_end(plane, &ticket, LOST_TIMEOUT).await?;
        ensure!(task["attempt"] == 1, "{task}");
        Ok(())
    };
    report.step("scheduled orchestrator finds the task, and it is completed", found).await
}

/// Takes the permission to read the table from a scheduled function, and returns it after a failed run.
pub async fn fail_and_recover(mut report: Report, account: &Account) -> anyhow::Result<()> {
    account.deny(FAILING, "dynamodb:BatchGetItem").await?;
    let failed = account.wait_for_log(FAILING, "AccessDenied", RUN_TIMEOUT_SECS);
    report.step("scheduled run without a permission fails", failed).await?;
    report.step("failed run is in the dead-letter queue", find_failed_run(account)).await?;
    account.allow(FAILING).await?;
    let recovered = account.wait_for_log(FAILING, "HealthChecks", RUN_TIMEOUT_SECS);
    report.step("next scheduled run succeeds and logs its metrics", recovered).await?;
    Ok(())
}

/// The emulator's scheduler ignores failures, so this invokes the function as EventBridge Scheduler does.
async fn find_failed_run(account: &Account) -> anyhow::Result<()> {
    let queues = account.queues("sunaba-dev-schedule-failed").await?;
    let queue = queues.first().context("there is no dead-letter queue")?;
    account.invoke_async(FAILING).await?;
    let failed = account.receive(queue, 20).await?.context("the dead-letter queue is empty")?;
    let function = failed["requestContext"]["functionArn"].as_str().unwrap_or_default();
    ensure!(function.ends_with(FAILING), "{failed}");
    ensure!(failed["responseContext"]["functionError"].is_string(), "{failed}");
    Ok(())
}

/// The sweep has requested at least the lost task and the idle sandbox.
pub async fn check_requests(account: &Account) -> anyhow::Result<()> {
    let lines = account.find_in_log("sandboxes-sweep", "ReconcileRequests").await?;
    let metrics = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests: f64 = metrics.filter_map(|metric| metric["ReconcileRequests"].as_f64()).sum();
    ensure!(requests >= 2.0, "it requested {requests}: {lines}");
    Ok(())
}
