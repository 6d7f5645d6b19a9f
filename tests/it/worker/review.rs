//! What becomes of a task when everything around it ends and begins again.

use super::{Stage, types};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};
use std::time::Duration;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

fn count(log: &[Value], event_type: &str) -> usize {
    types(log).iter().filter(|found| **found == event_type).count()
}

#[test]
fn a_task_that_was_cut_off_by_a_shutdown_goes_on_in_the_next_run() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": "sleep 60"})))
            .always("", Reply::text("Now it is done."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        let (code, _) = worker.terminate().await;
        assert_eq!(code, Some(0));
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Now it is done.", "{completed}");
        let said = stage.model.told().iter().filter(|told| told.contains("begin")).count();
        assert_eq!(said, 1, "the task is said once");
    });
}

#[test]
fn a_task_that_somebody_stopped_stays_stopped_in_the_next_run() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": "sleep 60"})))
            .when("go on then", Reply::text("Now it is done."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        let stop = stage.say("stop", "Stop.").await;
        stage.receipt(&stop, "completed").await;
        stage.until("agent.waiting", |data| data["message"].to_string().contains("stopped")).await;
        worker.kill().await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let message = stage.say("user_message", "go on then").await;
        stage.receipt(&message, "completed").await;
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Now it is done.", "{completed}");
        let log = stage.log().await;
        assert_eq!(count(&log, "agent.completed"), 1);
    });
}

#[test]
fn an_agent_that_dies_after_text_and_a_tool_goes_on() {
    offline(async {
        let script = Script::new()
            .when(
                "begin",
                Reply::text("I begin.").and_tool("Bash", json!({"command": "sleep 3; echo slept"})),
            )
            .always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        worker.kill().await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
    });
}

#[test]
fn messages_that_wait_during_a_shutdown_are_said_in_the_next_run() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("word ".repeat(600).trim()).slowly(Duration::from_millis(50)))
            .always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.model.until_told("begin").await;
        let message = stage.say("user_message", "mind the gap").await;
        stage.receipt(&message, "delivered").await;
        worker.terminate().await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.receipt(&message, "completed").await;
        stage.model.until_told("mind the gap").await;
    });
}
