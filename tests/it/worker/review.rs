//! What becomes of a task when everything around it ends and begins again.

use super::resuming::{child_of, kill};
use super::{GATED, OPERATOR, Stage, types};
use kit::claude::Home;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};
use std::io::Write;
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
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": GATED})))
            .always("", Reply::text("Now it is done."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        assert_eq!(worker.terminate().await, Some(0));
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
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": GATED})))
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
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": GATED})))
            .always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        worker.kill().await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
        // Ends the command of the first agent, which has outlived its worker.
        stage.let_go();
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

#[test]
fn an_interrupt_while_the_agent_is_down_is_what_comes_next() {
    offline(async {
        let script = Script::new()
            .when("begin", bash(&format!("echo once >> log.txt; {GATED}")))
            .when("do this instead", Reply::text("Done differently."))
            .always("", Reply::text("It went on as if nothing had been said."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        kill(child_of(worker.id()));
        stage.let_go();
        stage.until_any("agent.stream_error").await;
        let message = stage.say("interrupt", "do this instead").await;
        let interrupted = stage.until_any("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["message_id"], message.as_str());
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Done differently.");
        let log = std::fs::read_to_string(stage.home.workspace.join("log.txt")).unwrap_or_default();
        assert!(log.len() <= "once\n".len(), "what was interrupted is not taken up again");
    });
}

#[test]
fn a_stop_while_the_agent_is_down_keeps_it_from_going_on() {
    offline(async {
        let script = Script::new()
            .when("begin", bash(&format!("echo once >> log.txt; {GATED}")))
            .when("go on then", Reply::text("Done."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        kill(child_of(worker.id()));
        stage.let_go();
        stage.until_any("agent.stream_error").await;
        let stop = stage.say("stop", "Stop.").await;
        stage.receipt(&stop, "completed").await;
        stage.until_any("agent.waiting").await;
        let message = stage.say("user_message", "go on then").await;
        stage.receipt(&message, "completed").await;
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Done.");
        let log = std::fs::read_to_string(stage.home.workspace.join("log.txt")).unwrap_or_default();
        assert!(log.len() <= "once\n".len(), "what was stopped is not taken up again");
    });
}

#[test]
fn a_stop_between_iterations_holds_the_next_one() {
    offline(async {
        let script = Script::new()
            .when("go on then", Reply::text("TASK_COMPLETE"))
            .always("", Reply::error(400, None));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[
            ("TASK_DESCRIPTION", "begin"),
            ("CONTINUOUS_MODE", "true"),
            ("HEARTBEAT_INTERVAL", "1"),
        ]);
        stage.until_any("iteration.failed").await;
        let stop = stage.say("stop", "Stop.").await;
        stage.receipt(&stop, "completed").await;
        stage.until("agent.waiting", |data| data["message"].to_string().contains("stopped")).await;
        // One each second, and so for longer than the pause before the next iteration would have been.
        let heartbeats = |shown: &Value| shown["heartbeats"]["count"].as_u64().unwrap();
        let before = heartbeats(&stage.shown().await);
        stage.until_shown(|shown| heartbeats(shown) >= before + 5).await;
        assert_eq!(count(&stage.log().await, "iteration.started"), 1);
        stage.say("user_message", "go on then").await;
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "TASK_COMPLETE", "{completed}");
        assert_eq!(count(&stage.log().await, "continuous.started"), 1);
    });
}

#[test]
fn a_record_that_was_torn_within_a_character_is_gone_on_with() {
    offline(async {
        let script = Script::new().when("begin", bash(GATED)).always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let started = stage.until_any("agent.started").await;
        stage.until_any("agent.tool_use").await;
        let record = stage.home.transcript(started["event_data"]["session_id"].as_str().unwrap());
        // What is told is not yet written by the agent itself.
        let written = async {
            while !record.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), written).await.expect("the agent keeps a record");
        kill(child_of(worker.id()));
        worker.kill().await;
        stage.let_go();
        let mut file = std::fs::OpenOptions::new().append(true).open(record).unwrap();
        file.write_all(b"{\"type\":\"user\",\"text\":\"\xc3").unwrap();
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
    });
}

#[test]
fn an_agent_that_was_given_up_is_started_again_for_a_message() {
    offline(async {
        let stage = Stage::new(Script::new().when("hello", Reply::text("Hello."))).await;
        let late = stage.home.home().join("late-claude");
        let _worker =
            stage.worker(&[("TASK_DESCRIPTION", "anything"), ("CLAUDE_PATH", late.to_str().unwrap())]);
        stage.until_any("agent.failed").await;
        std::os::unix::fs::symlink(kit::claude::binary(), &late).unwrap();
        let message = stage.say("user_message", "hello").await;
        stage.receipt(&message, "completed").await;
        let log = stage.log().await;
        assert_eq!((count(&log, "agent.failed"), count(&log, "agent.completed")), (1, 0), "it ends once");
    });
}

#[test]
fn a_worker_that_fetches_a_repository_goes_when_it_is_told_to() {
    offline(async {
        let stage = Stage::new(Script::new()).await;
        // It takes the connection, and says nothing.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/acme/app.git", silent.local_addr().unwrap());
        let worker = stage.worker(&[("TASK_DESCRIPTION", "anything"), ("REPOSITORY_URL", &url)]);
        let (_held, _) = silent.accept().await.unwrap();
        assert_eq!(worker.terminate().await, Some(0));
        stage.until("agent.shutdown", |data| data["reason"] == "signal").await;
    });
}

#[test]
fn a_copy_of_a_session_does_not_tell_what_was_done_before_it() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("This was before."))
            .when("go elsewhere", bash(GATED))
            .always("", Reply::text("This is after."));
        let mut stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        let started = stage.until_any("agent.started").await;
        stage.until_any("agent.completed").await;
        worker.terminate().await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        let body = json!({"sandbox_id": "other", "org": "acme", "resumes": session});
        let answer = stage.plane.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        stage.token = answer.body["worker_token"].as_str().unwrap().to_owned();
        stage.sandbox = "other".into();
        stage.home = Home::new();
        let variables = [
            ("RESUME_SESSION_ID", session.as_str()),
            ("FORK_SESSION", "true"),
            ("TASK_DESCRIPTION", "go elsewhere"),
        ];
        let worker = stage.worker(&variables);
        stage.until_any("agent.tool_use").await;
        worker.kill().await;
        let _worker = stage.worker(&variables);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "This is after.");
        assert_ne!(completed["event_data"]["session_id"], session.as_str(), "a session of its own");
        let log = stage.log().await;
        let text = serde_json::to_string(&log).unwrap();
        assert!(!text.contains("This was before."), "{text}");
        let said = |event: &&Value| {
            event["event_type"] == "agent.user_message" && event["event_data"]["content"] == "go elsewhere"
        };
        assert_eq!(log.iter().filter(said).count(), 1, "the task is said once");
        // Ends the command of the first agent, which has outlived its worker.
        stage.let_go();
    });
}
