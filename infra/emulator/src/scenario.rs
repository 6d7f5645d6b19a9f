//! End-to-end test of the deployed plane with real clients: which steps run, and in which order.

use crate::account::Account;
use crate::plane::{Plane, TIMEOUT, receive};
use crate::report::Report;
use crate::stack::Stack;
use crate::{events, messages, schedules, sessions, tickets};
use anyhow::ensure;
use kit::daytona::Daytona;
use kit::socket::Socket;
use reqwest::Method;
use serde_json::json;
use tokio::time::timeout;

/// Runs all steps. The order keeps waits short. Schedules run only once a minute, so their steps wait for them while the
/// others run.
pub async fn run(
    report: &mut Report,
    account: &Account,
    plane: &Plane,
    daytona: &Daytona,
    stack: Stack,
) -> anyhow::Result<()> {
    report.step("health check needs no token", check_health(plane)).await?;
    let failing = schedules::fail_and_recover(report.clone(), account);
    let idle = schedules::end_idle_sandbox(report.clone(), account, plane, daytona);
    tokio::try_join!(failing, idle, run_others(report, account, plane, daytona, stack))?;
    report.step("schedule has requested this work", schedules::check_requests(account)).await?;
    report.step("no other function has logged an error", check_logs(account)).await
}

/// The steps that do not wait for a schedule, and the search for a lost task, which needs Daytona without faults.
async fn run_others(
    report: &mut Report,
    account: &Account,
    plane: &Plane,
    daytona: &Daytona,
    stack: Stack,
) -> anyhow::Result<()> {
    // Opened first, because it is closed only after ten seconds.
    let unauthenticated = Socket::open(&plane.sockets).await;
    let mut unauthenticated = unauthenticated
        .map_err(|status| anyhow::anyhow!("a socket without a token was rejected: {status}"))?;
    events::run(report, account, plane).await?;
    messages::run(report, account, plane).await?;
    sessions::run(report, plane).await?;
    tickets::run(report, account, plane, daytona).await?;
    let lost = schedules::find_lost_task(report.clone(), account, plane);
    let rest = async {
        let closed = async {
            let frame = receive(&mut unauthenticated).await?;
            ensure!(frame["code"] == "unauthorized", "{frame}");
            let end = timeout(TIMEOUT, unauthenticated.next()).await;
            ensure!(matches!(end, Ok(None)), "the socket was left open");
            Ok(())
        };
        report.step("unauthenticated socket is closed by a job", closed).await?;
        deny_access(report, account, plane, stack).await
    };
    tokio::try_join!(lost, rest)?;
    Ok(())
}

async fn check_health(plane: &Plane) -> anyhow::Result<()> {
    let (status, body) = plane.call(Method::GET, "/api/v1/sandboxes/health", None, None).await?;
    ensure!(status == 200 && body["status"] == "ok", "{status} {body}");
    Ok(())
}

/// Verifies that the emulator enforces IAM policies: a function fails without a permission that it needs. No other step
/// needs this function from here on.
async fn deny_access(
    report: &mut Report,
    account: &Account,
    plane: &Plane,
    stack: Stack,
) -> anyhow::Result<()> {
    let stack = stack.without("SandboxesRegisterFunction", "dynamodb:PutItem")?;
    report.step("sam removes a permission from a function", stack.deploy(account)).await?;
    let denied = async {
        let (body, operator) = (json!({"sandbox_id": "s-4", "org": "acme"}), Some(plane.operator.as_str()));
        let (status, body) = plane.call(Method::POST, "/api/v1/sandboxes", operator, Some(body)).await?;
        ensure!(status == 500 && body["code"] == "internal", "{status} {body}");
        let line = account.wait_for_log(WITHOUT_PERMISSION, "AccessDenied", 20).await?;
        ensure!(line.contains("dynamodb:PutItem"), "{line}");
        let (status, _) = plane.call(Method::GET, "/api/v1/sandboxes/s-4", operator, None).await?;
        ensure!(status == 404, "the sandbox was stored");
        Ok(())
    };
    report.step("function without the permission fails and logs the reason", denied).await
}

const WITHOUT_PERMISSION: &str = "sandboxes-register";

/// Two functions have failed on purpose.
async fn check_logs(account: &Account) -> anyhow::Result<()> {
    let errors = account.errors(&[WITHOUT_PERMISSION, schedules::FAILING]).await?;
    ensure!(errors.is_empty(), "{errors}");
    Ok(())
}
