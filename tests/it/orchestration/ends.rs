//! What ends a task before it is done, and that nothing of it is left.

use super::{Stage, slow};
use serde_json::{Value, json};

/// A slow task that runs, and its sandbox.
async fn running(stage: &Stage, fields: Value) -> (String, String, String) {
    let mut fields = fields;
    fields["agent"] = json!(stage.script(&slow()));
    let ticket = stage.ticket(fields).await;
    let task = stage.until_status(&ticket, "running").await;
    let text = |field: &str| task[field].as_str().unwrap().to_owned();
    (ticket, text("id"), text("sandbox_id"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_called_off_ends_with_all_that_it_started() {
    let stage = Stage::start(&["--max-concurrent-tasks-per-org", "1"]).await;
    let (ticket, task, sandbox) = running(&stage, json!({})).await;
    // The worker, the player, the shell and what that started.
    stage.until_processes(&sandbox, 4).await;
    let agent = stage.script(&super::quick());
    let next = stage.ticket(json!({"agent": agent})).await;
    assert_eq!(stage.until_task(&next, |_| true).await["status"], "pending", "there is one slot");
    stage.post(&format!("/api/v1/tasks/{task}/cancel"), json!({"reason": "not needed"})).await;
    let task = stage.until_status(&ticket, "cancelled").await;
    assert_eq!(task["error_message"], "not needed");
    assert_eq!(stage.until_released(&sandbox).await["status"], "terminated");
    stage.check_gone(&sandbox);
    stage.until_status(&next, "completed").await;
    assert_eq!(stage.running().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_runs_for_longer_than_it_may_fails_and_says_so() {
    let stage = Stage::start(&[]).await;
    let agent = stage.script(&slow());
    let ticket = stage.ticket(json!({"agent": agent, "timeout_seconds": 2})).await;
    // It may be over before a poll sees it run: the log says that it did.
    let task = stage.until_status(&ticket, "failed").await;
    let names = stage.names("tasks", task["id"].as_str().unwrap()).await;
    assert!(names.iter().any(|name| name == "task.started"), "{names:?}");
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    assert_eq!(task["error_message"], "The task ran for longer than it may.");
    assert_eq!(task["attempt"], 1, "it would take as long again");
    assert_eq!(stage.until_released(&sandbox).await["status"], "failed");
    stage.check_gone(&sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_whose_agent_has_nothing_to_do_goes_away() {
    // Twelve seconds: an agent that is slow to begin is not idle.
    let stage = Stage::start(&["--idle-threshold-minutes", "0.2", "--heartbeat-timeout-seconds", "40"]).await;
    let mut socket = stage.socket().await;
    let (ticket, _, sandbox) = running(&stage, json!({})).await;
    let stop = json!({"message_type": "stop", "content": "Stop."});
    stage.post(&format!("/api/v1/sandboxes/{sandbox}/messages"), stop).await;
    let heard = tokio::time::timeout(super::SOON, async {
        loop {
            let frame = socket.next().await.unwrap();
            if frame["event_type"] == "SANDBOX_TERMINATED_IDLE" {
                return frame;
            }
        }
    });
    let payload = heard.await.expect("SANDBOX_TERMINATED_IDLE is heard")["payload"].clone();
    assert_eq!(payload["reason"], "idle_timeout");
    assert!(payload["idle_duration_seconds"].as_f64().unwrap() >= 12.0, "{payload}");
    assert_eq!(payload["transcript_saved"], true);
    assert_eq!(stage.until_status(&ticket, "failed").await["error_message"], "The agent had nothing to do.");
    assert_eq!(stage.until_released(&sandbox).await["status"], "terminated");
    stage.check_gone(&sandbox);
}
