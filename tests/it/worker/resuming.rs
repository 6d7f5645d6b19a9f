//! What dies, and goes on.

use super::{OPERATOR, Stage};
use kit::claude::Home;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

#[test]
fn an_agent_that_is_killed_in_the_middle_of_a_tool_goes_on() {
    offline(async {
        let script = Script::new()
            .when("begin", bash("echo once >> log.txt; sleep 3; echo slept"))
            .always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until_any("agent.tool_use").await;
        let agent = child_of(worker.id());
        kill(agent);
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
            .when("first step", bash("sleep 20; echo slept"))
            .always("", Reply::text("Finished elsewhere."));
        let mut stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until("agent.tool_use", |data| data["input"].to_string().contains("sleep 20")).await;
        let started = stage.until_any("agent.started").await;
        let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
        // The plane has what the agent wrote down before everything dies.
        let path = format!("/api/v1/sandboxes/box/sessions/{session}/entries");
        let holds_tool = async {
            loop {
                let page = stage.plane.get(&path, OPERATOR).await;
                if page.body["entries"].to_string().contains("sleep 20") {
                    return;
                }
                tokio::time::sleep(super::LOOK).await;
            }
        };
        tokio::time::timeout(super::SOON, holds_tool).await.expect("the record reaches the plane");
        kill(child_of(worker.id()));
        worker.kill().await;
        let body = json!({"sandbox_id": "other", "org": "acme", "resumes": session});
        let answer = stage.plane.post("/api/v1/sandboxes", OPERATOR, body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        stage.token = answer.body["worker_token"].as_str().unwrap().to_owned();
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
            .when("first", bash("sleep 4; echo second"))
            .always("", Reply::text("Finished."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "begin")]);
        stage.until("agent.tool_use", |data| data["input"]["command"] == "sleep 4; echo second").await;
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
