//! Whatever dies, a task goes on or says why it does not.

use super::{SOON, Stage, slow};
use serde_json::json;
use std::process::Command;
use tokio::time::{sleep, timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_go_better_is_tried_again_and_then_given_up() {
    let stage = Stage::start(&[]).await;
    let agent = stage.script(&[json!({"play": "fail", "error": "API rate limit exceeded", "status": 429})]);
    let ticket = stage.ticket(json!({"agent": agent, "max_retries": 1})).await;
    let task = stage.until_status(&ticket, "failed").await;
    assert_eq!((&task["attempt"], &task["retry_count"]), (&json!(2), &json!(1)), "{task:#}");
    assert!(task["error_message"].as_str().unwrap().contains("rate limit"), "{task:#}");
    let names = stage.names("tasks", task["id"].as_str().unwrap()).await;
    let tries = ["claimed", "assigned", "started"];
    let expected = [&["created", "ready"][..], &tries, &["retrying", "ready"], &tries, &["failed"]].concat();
    assert_eq!(names, expected.iter().map(|turn| format!("task.{turn}")).collect::<Vec<_>>());
    stage.until_released(task["sandbox_id"].as_str().unwrap()).await;
    assert_eq!(stage.running().await, 0);
    assert_eq!(stage.processes(""), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_is_missed_at_once_and_its_task_tried_again_elsewhere() {
    let stage = Stage::start(&[]).await;
    let marker = stage.folder.path().join("again");
    let command = format!("if [ -e {0} ]; then echo again; else touch {0}; sleep 300; fi", marker.display());
    let agent = stage.script(&[
        json!({"type": "tool_use", "name": "Bash", "input": {"command": command, "timeout": 400_000}}),
        json!({"type": "text", "text": "Done."}),
    ]);
    let ticket = stage.ticket(json!({"agent": agent})).await;
    let first = stage.until_status(&ticket, "running").await["sandbox_id"].as_str().unwrap().to_owned();
    timeout(SOON, async {
        while !marker.exists() {
            sleep(super::LOOK).await;
        }
    })
    .await
    .expect("the agent begins");
    // All of it, so that nobody is left to say that it ends.
    for id in stage.processes(&first) {
        let _gone = Command::new("kill").args(["-9", &id.to_string()]).status();
    }
    let task = stage.until_status(&ticket, "completed").await;
    let second = task["sandbox_id"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert_eq!(task["attempt"], 2);
    assert_eq!(stage.until_released(&first).await["status"], "failed");
    let log = stage.log("sandboxes", &first).await;
    let failed = log.iter().find(|event| event["event_type"] == "sandbox.failed").unwrap();
    let data = &failed["event_data"];
    let expected = ("lost", "The worker was ended by signal 9.");
    assert_eq!((data["reason"].as_str().unwrap(), data["message"].as_str().unwrap()), expected, "{data:#}");
    let printed = data["worker_log"].as_str().expect("what it printed is told");
    assert!(!printed.is_empty() && printed.len() <= 2_048 && !printed.contains("swt_"), "{printed}");
    stage.until_released(&second).await;
    stage.check_gone(&first);
    stage.check_gone(&second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_falls_silent_is_dead() {
    let stage = Stage::start(&["--heartbeat-timeout-seconds", "10"]).await;
    let agent = stage.script(&slow());
    let ticket = stage.ticket(json!({"agent": agent, "max_retries": 0})).await;
    let sandbox = stage.until_status(&ticket, "running").await["sandbox_id"].as_str().unwrap().to_owned();
    // It is there, and does nothing: nobody sees it end.
    for id in stage.until_processes(&sandbox, 4).await {
        let _stopped = Command::new("kill").args(["-STOP", &id.to_string()]).status();
    }
    let task = stage.until_status(&ticket, "failed").await;
    assert_eq!(task["error_message"], "The worker stopped giving signs of life.");
    stage.until_released(&sandbox).await;
    stage.check_gone(&sandbox);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plane_that_was_away_for_longer_than_a_worker_may_be_silent_blames_nobody() {
    let mut stage = Stage::start(&["--heartbeat-timeout-seconds", "10"]).await;
    let mark = |name: &str| stage.folder.path().join(name);
    let (begun, late, go) = (mark("begun"), mark("late"), mark("go"));
    let command = format!(
        "touch {}; sleep 12; touch {}; until [ -e {} ]; do sleep 0.1; done",
        begun.display(),
        late.display(),
        go.display()
    );
    let agent = stage.script(&[
        json!({"type": "tool_use", "name": "Bash", "input": {"command": command, "timeout": 400_000}}),
        json!({"type": "text", "text": "Done."}),
    ]);
    let ticket = stage.ticket(json!({"agent": agent})).await;
    let task = stage.until_status(&ticket, "running").await;
    let path = format!("/api/v1/sandboxes/{}", task["sandbox_id"].as_str().unwrap());
    let until = async |marker: &std::path::Path| {
        let there = async {
            while !marker.exists() {
                sleep(super::LOOK).await;
            }
        };
        timeout(SOON, there).await.expect("the agent goes on");
    };
    until(&begun).await;
    stage.kill().await;
    // Longer than a sandbox may be silent.
    until(&late).await;
    stage.start_again().await;
    // Heartbeats after the restart: the plane has had the time to end the sandbox.
    let heartbeats = |shown: &serde_json::Value| shown["heartbeats"]["count"].as_u64().unwrap();
    let before = heartbeats(&stage.get(&path).await);
    stage.until(&path, "heartbeats after the restart", |shown| heartbeats(shown) >= before + 3).await;
    std::fs::write(&go, "").unwrap();
    let task = stage.until_status(&ticket, "completed").await;
    assert_eq!((&task["attempt"], &task["retry_count"]), (&json!(1), &json!(0)), "{task:#}");
    let sandbox = task["sandbox_id"].as_str().unwrap();
    assert_eq!(stage.until_released(sandbox).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plane_that_is_killed_goes_on_when_it_is_started_again() {
    let mut stage = Stage::start(&[]).await;
    let agent = stage.script(&[
        json!({"type": "text", "text": "I begin."}),
        json!({"play": "wait", "ms": 4_000}),
        json!({"type": "text", "text": "I am done."}),
    ]);
    // One that works, and one that may be anywhere between the ticket and its first event.
    let ticket = stage.ticket(json!({"agent": agent})).await;
    stage.until_status(&ticket, "running").await;
    let other = stage.ticket(json!({"agent": agent})).await;
    stage.kill().await;
    stage.start_again().await;
    for ticket in [&ticket, &other] {
        let task = stage.until_status(ticket, "completed").await;
        assert_eq!(task["attempt"], 1, "{task:#}");
        let names = stage.names("tasks", task["id"].as_str().unwrap()).await;
        for once in ["task.claimed", "task.started", "task.completed"] {
            assert_eq!(names.iter().filter(|name| *name == once).count(), 1, "{names:?}");
        }
        let sandbox = task["sandbox_id"].as_str().unwrap();
        stage.until_released(sandbox).await;
        let log = stage.names("sandboxes", sandbox).await;
        assert_eq!(log.iter().filter(|name| *name == "agent.completed").count(), 1, "{log:?}");
    }
    assert_eq!(stage.processes(""), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_go_on_when_the_plane_is_stopped_and_are_found_again() {
    let mut stage = Stage::start(&[]).await;
    let agent = stage.script(&slow());
    let ticket = stage.ticket(json!({"agent": agent})).await;
    let task = stage.until_status(&ticket, "running").await;
    let sandbox = task["sandbox_id"].as_str().unwrap().to_owned();
    stage.until_processes(&sandbox, 4).await;
    assert_eq!(stage.plane.take().unwrap().terminate().await, Some(0));
    let before = stage.processes(&sandbox);
    assert!(before.len() >= 4, "{before:?}");
    stage.start_again().await;
    let task_id = task["id"].as_str().unwrap();
    stage.post(&format!("/api/v1/tasks/{task_id}/cancel"), json!({})).await;
    stage.until_released(&sandbox).await;
    stage.check_gone(&sandbox);
}
