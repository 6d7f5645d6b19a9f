//! A task survives the failure of its worker or of the plane, or fails with a reason.

use super::{PlaneProcess, SLOW_COMMAND, TIMEOUT, quick_script, slow_script};
use serde_json::json;
use std::process::Command;
use tokio::time::{sleep, timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retryable_failure_is_retried_up_to_max_retries() {
    let plane = PlaneProcess::start(&[]).await;
    let agent =
        plane.write_script(&[json!({"play": "fail", "error": "API rate limit exceeded", "status": 429})]);
    let ticket = plane.create_ticket(json!({"agent": agent, "max_retries": 1})).await;
    let task = plane.wait_for_status(&ticket, "failed").await;
    assert_eq!((&task["attempt"], &task["retry_count"]), (&json!(2), &json!(1)), "{task:#}");
    assert!(task["error_message"].as_str().unwrap().contains("rate limit"), "{task:#}");
    let event_types = plane.event_types("tasks", task["id"].as_str().unwrap()).await;
    let attempt = ["claimed", "assigned", "started"];
    let expected =
        [&["created", "ready"][..], &attempt, &["retrying", "ready"], &attempt, &["failed"]].concat();
    assert_eq!(event_types, expected.iter().map(|name| format!("task.{name}")).collect::<Vec<_>>());
    plane.wait_until_released(task["sandbox_id"].as_str().unwrap()).await;
    assert_eq!(plane.active_tasks().await, 0);
    assert_eq!(plane.processes(""), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_of_a_killed_worker_is_retried_in_another_sandbox() {
    let plane = PlaneProcess::start(&[]).await;
    let agent = plane.write_script(&slow_script());
    let ticket = plane.create_ticket(json!({"agent": agent})).await;
    let first = plane.wait_for_status(&ticket, "running").await["sandbox_id"].as_str().unwrap().to_owned();
    plane.wait_for_command(&first, SLOW_COMMAND).await;
    // The second attempt plays a quick script.
    let quick = plane.write_script(&quick_script());
    let path = |agent: &str| agent.trim_start_matches("scripted:").to_owned();
    std::fs::rename(path(&quick), path(&agent)).unwrap();
    // Kill every process, so that none can report the exit.
    for id in plane.processes(&first) {
        let _killed = Command::new("kill").args(["-9", &id.to_string()]).status();
    }
    let task = plane.wait_for_status(&ticket, "completed").await;
    let second = task["sandbox_id"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert_eq!(task["attempt"], 2);
    assert_eq!(plane.wait_until_released(&first).await["status"], "failed");
    let events = plane.events("sandboxes", &first).await;
    let failed = events.iter().find(|event| event["event_type"] == "sandbox.failed").unwrap();
    let data = &failed["event_data"];
    let expected = ("lost", "The worker was killed by signal 9.");
    assert_eq!((data["reason"].as_str().unwrap(), data["message"].as_str().unwrap()), expected, "{data:#}");
    let printed = data["worker_log"].as_str().expect("the event carries the worker log");
    assert!(!printed.is_empty() && printed.len() <= 2_048 && !printed.contains("swt_"), "{printed}");
    plane.wait_until_released(&second).await;
    plane.check_removed(&first);
    plane.check_removed(&second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_without_heartbeats_is_declared_dead() {
    let plane = PlaneProcess::start(&["--heartbeat-timeout-seconds", "10"]).await;
    let agent = plane.write_script(&slow_script());
    let ticket = plane.create_ticket(json!({"agent": agent, "max_retries": 0})).await;
    let sandbox = plane.wait_for_status(&ticket, "running").await["sandbox_id"].as_str().unwrap().to_owned();
    // The processes are stopped, not killed, so the provider sees no exit.
    plane.wait_for_command(&sandbox, SLOW_COMMAND).await;
    for id in plane.processes(&sandbox) {
        let _stopped = Command::new("kill").args(["-STOP", &id.to_string()]).status();
    }
    let task = plane.wait_for_status(&ticket, "failed").await;
    assert_eq!(task["error_message"], "The worker stopped sending heartbeats.");
    plane.wait_until_released(&sandbox).await;
    plane.check_removed(&sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_plane_outage_does_not_fail_running_workers() {
    let mut plane = PlaneProcess::start(&["--heartbeat-timeout-seconds", "10"]).await;
    let command = "touch begun; sleep 12; touch late; until [ -e go ]; do sleep 0.1; done";
    let agent = plane.write_script(&[
        json!({"type": "tool_use", "name": "Bash", "input": {"command": command, "timeout": 400_000}}),
        json!({"type": "text", "text": "Done."}),
    ]);
    let ticket = plane.create_ticket(json!({"agent": agent})).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sandboxes/{sandbox}");
    let [begun, late, go] = ["begun", "late", "go"].map(|name| plane.in_workspace(&sandbox, name));
    let until = async |marker: &std::path::Path| {
        let exists = async {
            while !marker.exists() {
                sleep(super::POLL_INTERVAL).await;
            }
        };
        timeout(TIMEOUT, exists).await.expect("the agent continues");
    };
    until(&begun).await;
    plane.kill().await;
    // Longer than the heartbeat timeout.
    until(&late).await;
    plane.restart().await;
    // After three more heartbeats the plane has had time to fail the sandbox wrongly.
    let heartbeats = |shown: &serde_json::Value| shown["heartbeats"]["count"].as_u64().unwrap();
    let before = heartbeats(&plane.get(&path).await);
    plane.wait_until(&path, "heartbeats after the restart", |shown| heartbeats(shown) >= before + 3).await;
    std::fs::write(&go, "").unwrap();
    let task = plane.wait_for_status(&ticket, "completed").await;
    assert_eq!((&task["attempt"], &task["retry_count"]), (&json!(1), &json!(0)), "{task:#}");
    let sandbox = task["sandbox_id"].as_str().unwrap();
    assert_eq!(plane.wait_until_released(sandbox).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_plane_resumes_all_tasks_after_restart() {
    let mut plane = PlaneProcess::start(&[]).await;
    let agent = plane.write_script(&[
        json!({"type": "text", "text": "I begin."}),
        json!({"play": "wait", "ms": 4_000}),
        json!({"type": "text", "text": "I am done."}),
    ]);
    // One task is running; the other may be anywhere between creation and its first event.
    let ticket = plane.create_ticket(json!({"agent": agent})).await;
    plane.wait_for_status(&ticket, "running").await;
    let other = plane.create_ticket(json!({"agent": agent})).await;
    plane.kill().await;
    plane.restart().await;
    for ticket in [&ticket, &other] {
        let task = plane.wait_for_status(ticket, "completed").await;
        assert_eq!(task["attempt"], 1, "{task:#}");
        let event_types = plane.event_types("tasks", task["id"].as_str().unwrap()).await;
        for event_type in ["task.claimed", "task.started", "task.completed"] {
            assert_eq!(event_types.iter().filter(|name| *name == event_type).count(), 1, "{event_types:?}");
        }
        let sandbox = task["sandbox_id"].as_str().unwrap();
        plane.wait_until_released(sandbox).await;
        let event_types = plane.event_types("sandboxes", sandbox).await;
        assert_eq!(
            event_types.iter().filter(|name| *name == "agent.completed").count(),
            1,
            "{event_types:?}"
        );
    }
    assert_eq!(plane.processes(""), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_outlive_a_stopped_plane_and_are_rediscovered() {
    let mut plane = PlaneProcess::start(&[]).await;
    let agent = plane.write_script(&slow_script());
    let ticket = plane.create_ticket(json!({"agent": agent})).await;
    let task = plane.wait_for_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    plane.wait_for_command(&sandbox, SLOW_COMMAND).await;
    assert_eq!(plane.process.take().unwrap().terminate().await, Some(0));
    let before = plane.processes(&sandbox);
    assert!(before.len() >= 4, "{before:?}");
    plane.restart().await;
    let task_id = task["id"].as_str().unwrap();
    plane.post(&format!("/api/v1/tasks/{task_id}/cancel"), json!({})).await;
    plane.wait_until_released(&sandbox).await;
    plane.check_removed(&sandbox);
}
