//! What dies, and goes on.

use super::{GATED, OPERATOR, Stage};
use kit::claude::Home;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

impl Stage {
    /// The token of a further sandbox, which goes on with a session.
    pub(super) async fn register_resuming(&self, sandbox: &str, session: &str) -> String {
        let body = json!({"sandbox_id": sandbox, "org": "acme", "resumes": session});
        let answer = self.plane.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["worker_token"].as_str().unwrap().to_owned()
    }

    /// Waits until a session's record at the plane holds a text.
    async fn until_entries(&self, path: &str, needle: &str) {
        let held = async {
            while !self.plane.get(path, OPERATOR).await.body["entries"].to_string().contains(needle) {
                tokio::time::sleep(super::LOOK).await;
            }
        };
        tokio::time::timeout(super::SOON, held).await.expect("the record reaches the plane");
    }
}

#[test]
fn an_agent_that_is_killed_in_the_middle_of_a_tool_goes_on() {
    offline(async {
        let script = Script::new().when("begin", bash(GATED)).always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        let agent = child_of(worker.id());
        kill(agent);
        stage.let_go();
        let died = stage.until_any("agent.stream_error").await;
        assert_eq!(died["event_data"]["error_type"], "sigkill", "{died}");
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished.");
    });
}

#[test]
fn a_session_goes_on_in_another_sandbox_and_another_folder() {
    offline(async {
        let script = Script::new()
            .when("begin", bash("echo first step"))
            .when("first step", bash(GATED))
            .always("", Reply::text("Finished elsewhere."));
        let mut stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until("agent.tool_use", |data| data["input"].to_string().contains(GATED)).await;
        let started = stage.until_any("agent.started").await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        // The plane has what the agent wrote down before everything dies.
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        stage.until_entries(&path, "[ -e go ]").await;
        kill(child_of(worker.id()));
        worker.kill().await;
        stage.token = stage.register_resuming("other", &session).await;
        stage.sandbox = "other".into();
        stage.home = Home::new();
        let _worker = stage.worker(&[("RESUME_SESSION_ID", &session), ("TASK_DESCRIPTION", "begin")]);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Finished elsewhere.");
        let log = stage.log().await;
        let told: Vec<&str> = super::types(&log);
        assert!(!told.contains(&"agent.tool_use"), "what was done elsewhere is not told again: {told:?}");
        let prompts = stage.model.told().iter().filter(|told| told.contains("begin")).count();
        assert_eq!(prompts, 1, "the turn goes on by itself; the task is not said again");
        let requests = stage.model.requests();
        let last = requests.iter().rev().find(|request| !request.aside).unwrap();
        assert!(last.body.to_string().contains("echo first step"), "the model has the history");
    });
}

#[test]
fn a_worker_that_is_killed_loses_nothing_that_its_agent_did() {
    offline(async {
        let script = Script::new()
            .when("begin", bash("echo first"))
            .when("first", bash(GATED))
            .always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until("agent.tool_use", |data| data["input"]["command"] == GATED).await;
        worker.kill().await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.completed").await;
        let log = stage.log().await;
        let mut ids: Vec<&str> = log.iter().map(|event| event["id"].as_str().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "nothing is told twice");
        let prompts = log.iter().filter(|event| {
            event["event_type"] == "agent.user_message" && event["event_data"]["content"] == "begin"
        });
        assert_eq!(prompts.count(), 1, "the task is said once");
        // Ends the command of the first agent, which has outlived its worker.
        stage.let_go();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_to_a_worker_that_is_killed_reaches_the_agent_once() {
    let stage = Stage::new(Script::new()).await;
    let agent = stage.script(&[
        super::command(GATED),
        super::turn_end(),
        super::text("I read: ${message}"),
        super::turn_end(),
    ]);
    let variables = [("AGENT", agent.as_str()), ("TASK_DESCRIPTION", "begin")];
    let worker = stage.worker(&variables);
    stage.until_any("agent.tool_use").await;
    let message = stage.say("user_message", "mind the gap").await;
    stage.receipt(&message, "fetched").await;
    worker.kill().await;
    stage.let_go();
    let worker = stage.worker(&variables);
    stage.receipt(&message, "completed").await;
    // Receipts do not wait for events; its last word does.
    worker.terminate().await;
    let log = stage.log().await;
    let read = super::of(&log, "agent.user_message");
    let read = read.iter().filter(|data| data["content"] == "mind the gap").count();
    assert_eq!(read, 1, "{:?}", log.iter().map(super::line).collect::<Vec<_>>());
}

#[test]
fn a_copy_of_a_session_goes_on_and_leaves_the_first_as_it_is() {
    offline(async {
        let script = Script::new()
            .when("remember blue", Reply::text("Noted."))
            .when("which colour", Reply::text("Blue."));
        let mut stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "remember blue")]);
        let completed = stage.until_any("agent.completed").await;
        let session = completed["event_data"]["session_id"].as_str().unwrap().to_owned();
        worker.terminate().await;
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        let first = stage.plane.get(&path, OPERATOR).await.ok();
        assert!(first.to_string().contains("Noted."), "{first}");

        stage.token = stage.register_resuming("copy", &session).await;
        stage.sandbox = "copy".into();
        stage.home = Home::new();
        let _worker = stage.worker(&[
            ("RESUME_SESSION_ID", &session),
            ("FORK_SESSION", "true"),
            ("TASK_DESCRIPTION", "which colour"),
        ]);
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Blue.");
        let copy = completed["event_data"]["session_id"].as_str().unwrap().to_owned();
        assert_ne!(copy, session);
        let asked = stage.model.until_told("which colour").await.body["messages"].to_string();
        assert!(asked.contains("remember blue") && asked.contains("Noted."), "{asked}");
        let log = stage.log().await;
        let said: Vec<_> =
            super::of(&log, "agent.message").iter().map(|data| data["content"].clone()).collect();
        assert_eq!(said, ["Blue."], "what was said in the first session is not told again");
        assert_eq!(stage.plane.get(&path, OPERATOR).await.ok(), first, "the first is as it was");
        let own = format!("/api/v1/sandboxes/copy/sessions/{copy}/entries");
        stage.until_entries(&own, "Blue.").await;
    });
}

/// The process that the worker has started.
pub(super) fn child_of(worker: u32) -> u32 {
    let children =
        std::fs::read_to_string(format!("/proc/{worker}/task/{worker}/children")).unwrap_or_default();
    let all: Vec<u32> = std::fs::read_dir(format!("/proc/{worker}/task"))
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect();
    // git comes and goes; the agent is named after its program.
    let is_agent = |id: &&u32| {
        let command = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        command.contains("claude") && !command.contains("git\0")
    };
    *all.iter().find(is_agent).unwrap_or_else(|| panic!("no agent among {all:?} {children}"))
}

pub(super) fn kill(process: u32) {
    let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}
