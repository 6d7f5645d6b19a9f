//! Tasks that are ended early leave no process and no file behind.

use super::{PlaneProcess, slow_script};
use serde_json::{Value, json};

/// Starts a slow task; returns the ids of its ticket, task and sandbox.
async fn start_slow_task(plane: &PlaneProcess, fields: Value) -> (String, String, String) {
    let mut fields = fields;
    fields["agent"] = json!(plane.write_script(&slow_script()));
    let ticket = plane.create_ticket(fields).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let text = |field: &str| task[field].as_str().unwrap().to_owned();
    (ticket, text("id"), text("sandbox_id"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_a_task_stops_all_processes_of_its_sandbox() {
    let plane = PlaneProcess::start(&["--max-concurrent-tasks-per-org", "1"]).await;
    let (ticket, task, sandbox) = start_slow_task(&plane, json!({})).await;
    plane.wait_for_command(&sandbox, super::SLOW_COMMAND).await;
    let agent = plane.write_script(&super::quick_script());
    let next = plane.create_ticket(json!({"agent": agent})).await;
    assert_eq!(plane.wait_for_task(&next, |_| true).await["status"], "pending", "there is one slot");
    plane.post(&format!("/api/v1/tasks/{task}/cancel"), json!({"reason": "not needed"})).await;
    let task = plane.wait_for_status(&ticket, "cancelled").await;
    assert_eq!(task["error_message"], "not needed");
    assert_eq!(plane.wait_until_released(&sandbox).await["status"], "terminated");
    plane.check_removed(&sandbox);
    plane.wait_for_status(&next, "completed").await;
    assert_eq!(plane.active_tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_that_exceeds_its_timeout_fails() {
    let plane = PlaneProcess::start(&[]).await;
    let agent = plane.write_script(&slow_script());
    let ticket = plane.create_ticket(json!({"agent": agent, "timeout_seconds": 2})).await;
    // The task may finish before a poll sees it running, so check its events.
    let task = plane.wait_for_status(&ticket, "failed").await;
    let event_types = plane.event_types("tasks", task["id"].as_str().unwrap()).await;
    assert!(event_types.iter().any(|name| name == "task.started"), "{event_types:?}");
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    assert_eq!(task["error_message"], "The task exceeded its timeout.");
    assert_eq!(task["attempt"], 1, "timeouts are not retried");
    assert_eq!(plane.wait_until_released(&sandbox).await["status"], "failed");
    plane.check_removed(&sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sandbox_is_terminated() {
    // Twelve seconds, so that a slow start does not count as idle.
    let plane =
        PlaneProcess::start(&["--idle-threshold-minutes", "0.2", "--heartbeat-timeout-seconds", "40"]).await;
    let mut socket = plane.subscribe().await;
    let (ticket, _, sandbox) = start_slow_task(&plane, json!({})).await;
    let stop = json!({"message_type": "stop", "content": "Stop."});
    plane.post(&format!("/api/v1/sandboxes/{sandbox}/messages"), stop).await;
    let received = tokio::time::timeout(super::TIMEOUT, async {
        loop {
            let frame = socket.next().await.unwrap();
            if frame["event_type"] == "SANDBOX_TERMINATED_IDLE" {
                return frame;
            }
        }
    });
    let payload = received.await.expect("the socket receives SANDBOX_TERMINATED_IDLE")["payload"].clone();
    assert_eq!(payload["reason"], "idle_timeout");
    assert!(payload["idle_duration_seconds"].as_f64().unwrap() >= 12.0, "{payload}");
    assert_eq!(payload["transcript_saved"], true);
    assert_eq!(
        plane.wait_for_status(&ticket, "failed").await["error_message"],
        "The agent was idle for too long."
    );
    assert_eq!(plane.wait_until_released(&sandbox).await["status"], "terminated");
    plane.check_removed(&sandbox);
}
