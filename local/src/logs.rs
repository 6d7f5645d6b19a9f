//! `sunaba logs`: prints the log of a sandbox's worker.

use crate::config::commands::Logs;
use crate::tasks::{plane, response_body};
use anyhow::Context;
use client::{Plane, Refused};
use contract::sandboxes::LogPage;
use domain::SandboxId;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// How often `--follow` polls for new lines.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Page size of `--follow`: the maximum that the API allows.
const PAGE_LINES: usize = 1000;
/// 128 + SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

/// Prints the last lines; with `--follow` also new ones, until the sandbox has ended.
pub async fn run(options: &Logs) -> anyhow::Result<ExitCode> {
    let sandbox = SandboxId::parse(&options.sandbox)?;
    let plane = plane(&options.address)?;
    let path = format!("/api/v1/sandboxes/{sandbox}/logs?lines={}", options.lines);
    let page = page(response_body(&options.address, plane.get(&path).await)?)?;
    print(&page.lines);
    if !options.follow {
        return Ok(ExitCode::SUCCESS);
    }
    tokio::select! {
        followed = follow(&plane, &sandbox, page.after) => followed.map(|()| ExitCode::SUCCESS),
        pressed = tokio::signal::ctrl_c() => {
            pressed.context("cannot wait for Ctrl-C")?;
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// Prints the log after an offset, until the sandbox has ended and the log is complete.
async fn follow(plane: &Plane, sandbox: &SandboxId, mut after: u64) -> anyhow::Result<()> {
    loop {
        // A sandbox that has ended may still print something until its provider has deleted it.
        let released = format!("/api/v1/sandboxes/{sandbox}/events?event_type=sandbox.released&limit=1");
        let released = read(plane, &released).await?["events"].get(0).is_some();
        let path = format!("/api/v1/sandboxes/{sandbox}/logs?lines={PAGE_LINES}&after={after}");
        let page = page(read(plane, &path).await?)?;
        print(&page.lines);
        if released && page.lines.is_empty() {
            return Ok(());
        }
        after = page.after;
        sleep(POLL_INTERVAL).await;
    }
}

/// Retries while the plane is unreachable.
async fn read(plane: &Plane, path: &str) -> anyhow::Result<Value> {
    let response = plane.get_with_retries(path).await;
    response.map_err(|Refused::ByPlane(problem)| anyhow::anyhow!("{}", problem.detail))
}

fn page(response: Value) -> anyhow::Result<LogPage> {
    serde_json::from_value(response).context("the plane sent an invalid response")
}

/// A single write, because a log may have a thousand lines.
fn print(lines: &[String]) {
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    terminal::print(&text);
}
