//! Tasks across restarts of the agent and the worker.

use super::resuming::{agent_process_of, kill};
use super::{Fixture, GATED, OPERATOR, event_types};
use contract::payloads::{AgentShutdown, AgentWaiting};
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
    event_types(log).iter().filter(|found| **found == event_type).count()
}

#[test]
fn task_interrupted_by_shutdown_resumes_on_restart() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": GATED})))
            .always("", Reply::text("Now it is done."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        assert_eq!(worker.terminate().await, Some(0));
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Now it is done.", "{completed}");
        let prompts = fixture.model.prompts().iter().filter(|prompt| prompt.contains("begin")).count();
        assert_eq!(prompts, 1, "the task is prompted once");
    });
}

#[test]
fn stopped_task_stays_stopped_on_restart() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": GATED})))
            .when("go on then", Reply::text("Now it is done."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        let stop = fixture.send_message("stop", "Stop.").await;
        fixture.wait_for_receipt(&stop, "completed").await;
        fixture.wait_for(|waiting: &AgentWaiting| waiting.message.contains("Stopped")).await;
        worker.kill().await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        let message = fixture.send_message("user_message", "go on then").await;
        fixture.wait_for_receipt(&message, "completed").await;
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Now it is done.", "{completed}");
        let log = fixture.log().await;
        assert_eq!(count(&log, "agent.completed"), 1);
    });
}

#[test]
fn agent_killed_after_text_and_a_tool_resumes() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin.").and_tool("Bash", json!({"command": GATED})))
            .always("", Reply::text("Finished."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        worker.kill().await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
        // Ends the command of the first agent, which outlived its worker.
        fixture.open_gate();
    });
}

#[test]
fn queued_messages_are_delivered_after_a_restart() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("word ".repeat(600).trim()).with_word_delay(Duration::from_millis(50)))
            .always("", Reply::text("Finished."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.model.until_prompted("begin").await;
        let message = fixture.send_message("user_message", "mind the gap").await;
        fixture.wait_for_receipt(&message, "delivered").await;
        worker.terminate().await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_receipt(&message, "completed").await;
        fixture.model.until_prompted("mind the gap").await;
    });
}

#[test]
fn interrupt_while_the_agent_is_down_runs_next() {
    offline(async {
        let script = Script::new()
            .when("begin", bash(&format!("echo once >> log.txt; {GATED}")))
            .when("do this instead", Reply::text("Done differently."))
            .always("", Reply::text("The interrupt was ignored."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        kill(agent_process_of(worker.id()));
        fixture.open_gate();
        fixture.wait_for_event("agent.stream_error").await;
        let message = fixture.send_message("interrupt", "do this instead").await;
        let interrupted = fixture.wait_for_event("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["message_id"], message.as_str());
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Done differently.");
        let log = std::fs::read_to_string(fixture.home.workspace.join("log.txt")).unwrap_or_default();
        assert!(log.len() <= "once\n".len(), "the interrupted command is not repeated");
    });
}

#[test]
fn stop_while_the_agent_is_down_prevents_resuming() {
    offline(async {
        let script = Script::new()
            .when("begin", bash(&format!("echo once >> log.txt; {GATED}")))
            .when("go on then", Reply::text("Done."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        kill(agent_process_of(worker.id()));
        fixture.open_gate();
        fixture.wait_for_event("agent.stream_error").await;
        let stop = fixture.send_message("stop", "Stop.").await;
        fixture.wait_for_receipt(&stop, "completed").await;
        fixture.wait_for_event("agent.waiting").await;
        let message = fixture.send_message("user_message", "go on then").await;
        fixture.wait_for_receipt(&message, "completed").await;
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Done.");
        let log = std::fs::read_to_string(fixture.home.workspace.join("log.txt")).unwrap_or_default();
        assert!(log.len() <= "once\n".len(), "the stopped command is not repeated");
    });
}

#[test]
fn stop_between_iterations_holds_the_next_one() {
    offline(async {
        let script = Script::new()
            .when("go on then", Reply::text("TASK_COMPLETE"))
            .always("", Reply::error(400, None));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[
            ("TASK_DESCRIPTION", "begin"),
            ("CONTINUOUS_MODE", "true"),
            ("HEARTBEAT_INTERVAL", "1"),
        ]);
        fixture.wait_for_event("iteration.failed").await;
        let stop = fixture.send_message("stop", "Stop.").await;
        fixture.wait_for_receipt(&stop, "completed").await;
        fixture.wait_for(|waiting: &AgentWaiting| waiting.message.contains("Stopped")).await;
        // One heartbeat per second: wait longer than the pause before the next iteration.
        let heartbeats = |sandbox: &Value| sandbox["heartbeats"]["count"].as_u64().unwrap();
        let before = heartbeats(&fixture.sandbox_details().await);
        fixture.wait_for_sandbox(|sandbox| heartbeats(sandbox) >= before + 5).await;
        assert_eq!(count(&fixture.log().await, "iteration.started"), 1);
        fixture.send_message("user_message", "go on then").await;
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "TASK_COMPLETE", "{completed}");
        assert_eq!(count(&fixture.log().await, "continuous.started"), 1);
    });
}

#[test]
fn session_resumes_from_a_transcript_torn_within_a_character() {
    offline(async {
        let script = Script::new().when("begin", bash(GATED)).always("", Reply::text("Finished."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        let started = fixture.wait_for_event("agent.started").await;
        fixture.wait_for_event("agent.tool_use").await;
        let transcript = fixture.home.transcript(started["event_data"]["session_id"].as_str().unwrap());
        // The agent emits frames before it writes its transcript.
        let written = async {
            while !transcript.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), written).await.expect("the agent writes a transcript");
        kill(agent_process_of(worker.id()));
        worker.kill().await;
        fixture.open_gate();
        let mut file = std::fs::OpenOptions::new().append(true).open(transcript).unwrap();
        file.write_all(b"{\"type\":\"user\",\"text\":\"\xc3").unwrap();
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
    });
}

#[test]
fn message_restarts_an_agent_that_failed_to_start() {
    offline(async {
        let fixture = Fixture::new(Script::new().when("hello", Reply::text("Hello."))).await;
        let path = fixture.home.home().join("late-claude");
        let _worker = fixture
            .start_worker(&[("TASK_DESCRIPTION", "anything"), ("CLAUDE_PATH", path.to_str().unwrap())]);
        fixture.wait_for_event("agent.failed").await;
        std::os::unix::fs::symlink(kit::claude::binary(), &path).unwrap();
        let message = fixture.send_message("user_message", "hello").await;
        fixture.wait_for_receipt(&message, "completed").await;
        let log = fixture.log().await;
        assert_eq!(
            (count(&log, "agent.failed"), count(&log, "agent.completed")),
            (1, 0),
            "the task ends once"
        );
    });
}

#[test]
fn sigterm_ends_a_worker_that_is_cloning() {
    offline(async {
        let fixture = Fixture::new(Script::new()).await;
        // Accepts the connection and never responds.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let url = format!("http://{host}/acme/app.git");
        let variables = [("TASK_DESCRIPTION", "anything"), ("REPOSITORY_URL", &url), ("NETWORK", &host)];
        let worker = fixture.start_worker(&variables);
        let (_connection, _) = listener.accept().await.unwrap();
        assert_eq!(worker.terminate().await, Some(0));
        fixture.wait_for(|shutdown: &AgentShutdown| shutdown.reason == "signal").await;
    });
}

#[test]
fn forked_session_does_not_repeat_earlier_events() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("This was before."))
            .when("go elsewhere", bash(GATED))
            .always("", Reply::text("This is after."));
        let mut fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        let started = fixture.wait_for_event("agent.started").await;
        fixture.wait_for_event("agent.completed").await;
        worker.terminate().await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        let body = json!({"sandbox_id": "other", "org": "acme", "resumes": session});
        let response = fixture.plane.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(response.status, 201, "{}", response.body);
        fixture.token = response.body["worker_token"].as_str().unwrap().to_owned();
        fixture.sandbox = "other".into();
        fixture.home = Home::new();
        let variables = [
            ("RESUME_SESSION_ID", session.as_str()),
            ("FORK_SESSION", "true"),
            ("TASK_DESCRIPTION", "go elsewhere"),
        ];
        let worker = fixture.start_worker(&variables);
        fixture.wait_for_event("agent.tool_use").await;
        worker.kill().await;
        let _worker = fixture.start_worker(&variables);
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "This is after.");
        assert_ne!(completed["event_data"]["session_id"], session.as_str(), "the fork is a new session");
        let log = fixture.log().await;
        let text = serde_json::to_string(&log).unwrap();
        assert!(!text.contains("This was before."), "{text}");
        let is_prompt = |event: &&Value| {
            event["event_type"] == "agent.user_message" && event["event_data"]["content"] == "go elsewhere"
        };
        assert_eq!(log.iter().filter(is_prompt).count(), 1, "the task is prompted once");
        // Ends the command of the first agent, which outlived its worker.
        fixture.open_gate();
    });
}
