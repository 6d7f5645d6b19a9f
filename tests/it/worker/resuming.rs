//! Agents and workers that are killed and resume.

use super::{Fixture, GATED, OPERATOR};
use contract::payloads::{AgentMessage, AgentToolUse, AgentUserMessage};
use kit::claude::Home;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

impl Fixture {
    /// Registers a sandbox that resumes a session and returns its worker token.
    pub(super) async fn register_resuming(&self, sandbox: &str, session: &str) -> String {
        let body = json!({"sandbox_id": sandbox, "org": "acme", "resumes": session});
        let response = self.plane.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(response.status, 201, "{}", response.body);
        response.body["worker_token"].as_str().unwrap().to_owned()
    }

    /// Waits until the session's transcript at the plane contains a text.
    async fn wait_for_entries(&self, path: &str, needle: &str) {
        let stored = async {
            while !self.plane.get(path, OPERATOR).await.body["entries"].to_string().contains(needle) {
                tokio::time::sleep(super::POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(super::DEADLINE, stored).await.expect("the transcript reaches the plane");
    }
}

#[test]
fn agent_killed_during_a_tool_call_resumes() {
    offline(async {
        let script = Script::new().when("begin", bash(GATED)).always("", Reply::text("Finished."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.tool_use").await;
        let agent = agent_process_of(worker.id());
        kill(agent);
        fixture.open_gate();
        let killed = fixture.wait_for_event("agent.stream_error").await;
        assert_eq!(killed["event_data"]["error_type"], "sigkill", "{killed}");
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
    });
}

#[test]
fn session_resumes_in_another_sandbox_and_folder() {
    offline(async {
        let script = Script::new()
            .when("begin", bash("echo first step"))
            .when("first step", bash(GATED))
            .always("", Reply::text("Finished elsewhere."));
        let mut fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for(|call: &AgentToolUse| call.tool_input.to_string().contains(GATED)).await;
        let started = fixture.wait_for_event("agent.started").await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        // Wait until the plane has the transcript before killing both processes.
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        fixture.wait_for_entries(&path, "[ -e go ]").await;
        kill(agent_process_of(worker.id()));
        worker.kill().await;
        fixture.token = fixture.register_resuming("other", &session).await;
        fixture.sandbox = "other".into();
        fixture.home = Home::new();
        let _worker = fixture.start_worker(&[("RESUME_SESSION_ID", &session), ("TASK_DESCRIPTION", "begin")]);
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished elsewhere.");
        let log = fixture.log().await;
        let types = super::event_types(&log);
        assert!(!types.contains(&"agent.tool_use"), "earlier steps are not emitted again: {types:?}");
        let prompts = fixture.model.prompts().iter().filter(|prompt| prompt.contains("begin")).count();
        assert_eq!(prompts, 1, "the turn resumes without a second prompt");
        let requests = fixture.model.requests();
        let last = requests.iter().rev().find(|request| !request.is_side_request).unwrap();
        assert!(last.body.to_string().contains("echo first step"), "the model has the history");
    });
}

#[test]
fn killed_worker_loses_no_events() {
    offline(async {
        let script = Script::new()
            .when("begin", bash("echo first"))
            .when("first", bash(GATED))
            .always("", Reply::text("Finished."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for(|call: &AgentToolUse| call.tool_input["command"] == GATED).await;
        worker.kill().await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "begin")]);
        fixture.wait_for_event("agent.completed").await;
        let log = fixture.log().await;
        let mut ids: Vec<&str> = log.iter().map(|event| event["id"].as_str().unwrap()).collect();
        let total = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), total, "no event is duplicated");
        let prompts = log.iter().filter(|event| {
            event["event_type"] == "agent.user_message" && event["event_data"]["content"] == "begin"
        });
        assert_eq!(prompts.count(), 1, "the task is prompted once");
        // Ends the command of the first agent, which outlived its worker.
        fixture.open_gate();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_survives_a_worker_kill_and_is_delivered_once() {
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[
        super::command(GATED),
        super::turn_end(),
        super::text("I read: ${message}"),
        super::turn_end(),
    ]);
    let variables = [("AGENT", agent.as_str()), ("TASK_DESCRIPTION", "begin")];
    let worker = fixture.start_worker(&variables);
    fixture.wait_for_event("agent.tool_use").await;
    let message = fixture.send_message("user_message", "mind the gap").await;
    fixture.wait_for_receipt(&message, "fetched").await;
    worker.kill().await;
    fixture.open_gate();
    let worker = fixture.start_worker(&variables);
    fixture.wait_for_receipt(&message, "completed").await;
    // A receipt may overtake events; after the shutdown all events are sent.
    worker.terminate().await;
    let log = fixture.log().await;
    let read: Vec<AgentUserMessage> = super::data_of(&log);
    let read = read.iter().filter(|message| message.content == "mind the gap").count();
    assert_eq!(read, 1, "{:?}", log.iter().map(super::describe).collect::<Vec<_>>());
}

#[test]
fn forked_session_leaves_the_original_unchanged() {
    offline(async {
        let script = Script::new()
            .when("remember blue", Reply::text("Noted."))
            .when("which colour", Reply::text("Blue."));
        let mut fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "remember blue")]);
        let completed = fixture.wait_for_event("agent.completed").await;
        let session = completed["event_data"]["session_id"].as_str().unwrap().to_owned();
        worker.terminate().await;
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        let first = fixture.plane.get(&path, OPERATOR).await.ok();
        assert!(first.to_string().contains("Noted."), "{first}");

        fixture.token = fixture.register_resuming("copy", &session).await;
        fixture.sandbox = "copy".into();
        fixture.home = Home::new();
        let _worker = fixture.start_worker(&[
            ("RESUME_SESSION_ID", &session),
            ("FORK_SESSION", "true"),
            ("TASK_DESCRIPTION", "which colour"),
        ]);
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Blue.");
        let copy = completed["event_data"]["session_id"].as_str().unwrap().to_owned();
        assert_ne!(copy, session);
        let messages = fixture.model.until_prompted("which colour").await.body["messages"].to_string();
        assert!(messages.contains("remember blue") && messages.contains("Noted."), "{messages}");
        let log = fixture.log().await;
        let texts: Vec<String> =
            super::data_of(&log).into_iter().map(|message: AgentMessage| message.content).collect();
        assert_eq!(texts, ["Blue."], "messages of the original session are not emitted again");
        assert_eq!(fixture.plane.get(&path, OPERATOR).await.ok(), first, "the original is unchanged");
        let own = format!("/api/v1/sandboxes/copy/sessions/{copy}/entries");
        fixture.wait_for_entries(&own, "Blue.").await;
    });
}

/// The agent process that the worker started.
pub(super) fn agent_process_of(worker: u32) -> u32 {
    let children =
        std::fs::read_to_string(format!("/proc/{worker}/task/{worker}/children")).unwrap_or_default();
    let processes: Vec<u32> = std::fs::read_dir(format!("/proc/{worker}/task"))
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect();
    // The worker also runs git and the bridge, so match the name of the agent's program.
    let is_agent = |id: &&u32| {
        let command = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.contains("claude") && !command.contains("git\0") && !command.contains("\0bridge\0")
    };
    *processes.iter().find(is_agent).unwrap_or_else(|| panic!("no agent among {processes:?} {children}"))
}

pub(super) fn kill(process: u32) {
    let status = std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(status.success());
}
