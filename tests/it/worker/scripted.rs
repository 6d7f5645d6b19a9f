//! The scripted agent.

use super::{Fixture, data_of, event_types, text, turn_end};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use contract::payloads::{AgentMessage, AgentStarted};
use kit::model::Script;
use serde_json::json;

/// `cargo xtask worker` fails if the worker for sandboxes contains this text. The search must be able to find it.
#[test]
fn sunaba_contains_a_script_as_text() {
    let script = include_bytes!("../../../worker/scripted-agent/scripts/hello.jsonl");
    let program = std::fs::read(env!("CARGO_BIN_EXE_sunaba")).unwrap();
    let found = program.windows(script.len()).any(|part| part[0] == script[0] && part == script);
    assert!(found, "change SCRIPT in xtask/src/worker.rs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_demo_completes() {
    let fixture = Fixture::new(Script::new()).await;
    let worker = fixture.start_worker(&[
        ("AGENT", "scripted:hello"),
        ("TASK_DESCRIPTION", "Say hello"),
        ("PLAY_SPEED", "0"),
        ("EXIT_WHEN_DONE", "true"),
    ]);
    let completed = fixture.wait_for_event("agent.completed").await;
    assert_eq!(completed["event_data"]["success"], true, "{completed}");
    assert_eq!(worker.wait_for_exit().await, Some(0));
    let log = fixture.log().await;
    let types = event_types(&log);
    for expected in
        ["agent.thinking", "agent.tool_use", "agent.tool_completed", "agent.file_edited", "agent.message"]
    {
        assert!(types.contains(&expected), "{expected} is missing in {types:?}");
    }
    assert!(!types.contains(&"agent.unparsed"), "{types:?}");
    let started: Vec<AgentStarted> = data_of(&log);
    assert_eq!(started[0].worker_version, env!("CARGO_PKG_VERSION"), "the version of the workspace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_demo_recovers_and_completes() {
    let fixture = Fixture::new(Script::new()).await;
    let _worker = fixture.start_worker(&[
        ("AGENT", "scripted:trouble"),
        ("TASK_DESCRIPTION", "Mend it"),
        ("PLAY_SPEED", "0"),
    ]);
    let killed = fixture.wait_for_event("agent.stream_error").await;
    assert_eq!(killed["event_data"]["error_type"], "sigkill", "{killed}");
    let completed = fixture.wait_for_event("agent.completed").await;
    assert_eq!(completed["event_data"]["success"], true, "{completed}");
    fixture.wait_for_event("agent.unparsed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_carries_task_and_spec_ids() {
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[text("Done.")]);
    let task = json!({"task": {"id": "t-1", "description": "Do it"}, "spec": {"id": "spec-1"}});
    let task = BASE64_STANDARD.encode(task.to_string());
    // An empty variable does not override the task data.
    let worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DATA_BASE64", &task),
        ("SPEC_ID", ""),
        ("EXIT_WHEN_DONE", "true"),
    ]);
    assert_eq!(worker.wait_for_exit().await, Some(0));
    for event in fixture.log().await.iter().filter(|event| event["source"] != "system") {
        let data = &event["event_data"];
        assert_eq!((&data["task_id"], &data["spec_id"]), (&json!("t-1"), &json!("spec-1")), "{event}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripted_session_resumes_in_another_sandbox() {
    let mut fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[text("First."), turn_end(), text("Second.")]);
    let worker =
        fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it"), ("EXIT_WHEN_DONE", "true")]);
    assert_eq!(worker.wait_for_exit().await, Some(0));
    let started = fixture.wait_for_event("agent.started").await;
    let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
    fixture.token = fixture.register_resuming("other", &session).await;
    fixture.sandbox = "other".into();
    let first_home = std::mem::take(&mut fixture.home);
    let worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Go on"),
        ("RESUME_SESSION_ID", &session),
        ("EXIT_WHEN_DONE", "true"),
    ]);
    assert_eq!(worker.wait_for_exit().await, Some(0));
    drop(first_home);
    let log = fixture.log().await;
    let texts: Vec<String> = data_of(&log).into_iter().map(|message: AgentMessage| message.content).collect();
    assert_eq!(texts, ["Second."], "it resumes at its position and repeats nothing");
}
