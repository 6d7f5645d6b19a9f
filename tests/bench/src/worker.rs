//! Latency of messages to a worker that drives the real Claude Code: from the POST to the agent's receipt.
//!
//! Runs in its own network namespace, as the tests do: the CLI can reach only the scripted model of this process.

use crate::load::{Connection, post};
use crate::report::{Measured, Report};
use crate::scenarios::{Plane, resident};
use crate::watcher::Watcher;
use kit::claude::{Home, binary};
use kit::model::{Model, Reply, Script};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Internal flag: runs only this scenario.
pub const FLAG: &str = "--worker-only";

const SANDBOX: &str = "bench-worker";
/// The agent reads messages between two tool calls, so the duration of a call is part of the latency.
const TOOL: &str = "sleep 0.15; echo and on";

/// Runs this program again in a network namespace that has only the loopback.
pub fn measure_offline(arguments: &[String]) {
    let this = std::env::current_exe().expect("this process has a binary");
    let inside = "ip link set lo up && exec \"$0\" \"$@\"";
    let ended = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", inside])
        .arg(this)
        .arg(FLAG)
        .args(arguments)
        .status();
    assert!(
        ended.is_ok_and(|status| status.success()),
        "the worker scenario failed in its network namespace; if unshare or ip is missing, run `cargo xtask tools`"
    );
}

/// Sends messages and interrupts to an agent that works continuously.
pub async fn measure(report: &mut Report, plane: &Plane, scale: usize) {
    let bash = Reply::tool("Bash", json!({"command": TOOL, "description": "Work"}));
    let model = Model::start(Script::new().always("", bash)).await;
    let home = Home::new();
    let token = plane.register(SANDBOX).await;
    let mut worker = tokio::process::Command::new(crate::sibling("sunaba-worker"))
        .env_clear()
        .envs(home.environment(&model))
        .env("SANDBOX_ID", SANDBOX)
        .env("SANDBOX_TOKEN", &token)
        .env("CALLBACK_URL", format!("http://{}", plane.address))
        .env("CWD", &home.workspace)
        .env("STATE_DIR", home.home().join("state"))
        .env("CLAUDE_PATH", binary())
        .env("SETTING_SOURCES", "user")
        .env("ALLOWED_TOOLS", "Bash")
        .env("MAX_TURNS", "100000")
        .env("MAX_BUDGET_USD", "100000")
        .env("TASK_DESCRIPTION", "work on and on")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the worker can be started");
    let mut watcher = Watcher::open(plane, &format!("/api/v1/sandbox/{SANDBOX}/ws")).await;
    watcher.until("SANDBOX_AGENT_TOOL_COMPLETED", |_| true).await;

    let begun = Instant::now();
    let mut started = Vec::new();
    for _ in 0..40 / scale {
        let (id, sent) = send(plane, "user_message").await;
        watcher.until("SANDBOX_MESSAGE_STARTED", |payload| payload["message_id"] == id).await;
        started.push(sent.elapsed());
    }
    let measured = Measured::new(started, begun.elapsed());
    report.times("message POST to started, busy Claude Code", &measured, "p50 ≤ 300 ms");
    let begun = Instant::now();
    let mut interrupted = Vec::new();
    for _ in 0..20 / scale {
        let (id, sent) = send(plane, "interrupt").await;
        watcher.until("SANDBOX_AGENT_INTERRUPTED", |payload| payload["message_id"] == id).await;
        interrupted.push(sent.elapsed());
        watcher.until("SANDBOX_AGENT_TOOL_COMPLETED", |_| true).await;
    }
    let measured = Measured::new(interrupted, begun.elapsed());
    report.times("interrupt POST to agent.interrupted", &measured, "≤ 1 s");
    let worker_id = worker.id().expect("it runs");
    report.value("resident memory of the worker", resident(worker_id), "≤ 25 MB");
    worker.kill().await.expect("a child can be killed");
}

/// Sends a message. Returns its id and the time of sending.
async fn send(plane: &Plane, message_type: &str) -> (String, Instant) {
    let mut connection = Connection::open(&plane.address).await;
    let body = json!({"content": "mind the tests", "message_type": message_type}).to_string();
    let request = post(&format!("/api/v1/sandboxes/{SANDBOX}/messages"), &plane.token, &body);
    let sent = Instant::now();
    let answer: Value = serde_json::from_slice(connection.request(&request).await).expect("JSON");
    (answer["message_id"].as_str().expect("an id").to_owned(), sent)
}
