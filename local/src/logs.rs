//! `sunaba logs`: shows the log of a sandbox's worker.

use crate::config::commands::Logs;
use crate::tasks::{answered, plane};
use anyhow::Context;
use client::{Plane, Refused};
use contract::sandboxes::LogPage;
use domain::SandboxId;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// How often `--follow` asks for new lines.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Most lines that `--follow` asks for at a time: the most that there can be.
const LINES: usize = 1000;
/// As a shell says it.
const INTERRUPTED: u8 = 130;

/// Shows the last lines; with `--follow` also those that come, until the sandbox has ended.
pub async fn run(options: &Logs) -> anyhow::Result<ExitCode> {
    let sandbox = SandboxId::parse(&options.sandbox)?;
    let plane = plane(&options.address)?;
    let path = format!("/api/v1/sandboxes/{sandbox}/logs?lines={}", options.lines);
    let page = page(answered(&options.address, plane.get(&path).await)?)?;
    show(&page.lines);
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

/// Shows what comes after an offset, until the sandbox has ended and nothing more comes.
async fn follow(plane: &Plane, sandbox: &SandboxId, mut after: u64) -> anyhow::Result<()> {
    loop {
        // Until its provider has removed it, a sandbox that has ended may still print something.
        let released = format!("/api/v1/sandboxes/{sandbox}/events?event_type=sandbox.released&limit=1");
        let released = read(plane, &released).await?["events"].get(0).is_some();
        let path = format!("/api/v1/sandboxes/{sandbox}/logs?lines={LINES}&after={after}");
        let page = page(read(plane, &path).await?)?;
        show(&page.lines);
        if released && page.lines.is_empty() {
            return Ok(());
        }
        after = page.after;
        sleep(POLL_INTERVAL).await;
    }
}

/// Reads something. A plane that is away is waited for.
async fn read(plane: &Plane, path: &str) -> anyhow::Result<Value> {
    let answer = plane.get_in_time(path).await;
    answer.map_err(|Refused::ByPlane(problem)| anyhow::anyhow!("{}", problem.detail))
}

fn page(answer: Value) -> anyhow::Result<LogPage> {
    serde_json::from_value(answer).context("the plane gave no useful answer")
}

/// In one piece: a log may have a thousand lines.
fn show(lines: &[String]) {
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    terminal::print(&text);
}
