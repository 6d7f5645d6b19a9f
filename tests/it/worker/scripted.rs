//! The scripted agent, through the same worker.

use super::{Stage, of, text, turn_end, types};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kit::model::Script;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_runs_from_its_task_to_its_end() {
    let stage = Stage::new(Script::new()).await;
    let worker = stage.worker(&[
        ("AGENT", "scripted:hello"),
        ("TASK_DESCRIPTION", "Say hello"),
        ("PLAY_SPEED", "0"),
        ("EXIT_WHEN_DONE", "true"),
    ]);
    let completed = stage.until_any("agent.completed").await;
    assert_eq!(completed["event_data"]["success"], true, "{completed}");
    assert_eq!(worker.ended().await, Some(0));
    let log = stage.log().await;
    let types = types(&log);
    for expected in
        ["agent.thinking", "agent.tool_use", "agent.tool_completed", "agent.file_edited", "agent.message"]
    {
        assert!(types.contains(&expected), "{expected} is missing in {types:?}");
    }
    assert!(!types.contains(&"agent.unparsed"), "{types:?}");
    let started = &of(&log, "agent.started")[0]["worker_version"];
    assert_eq!(started, env!("CARGO_PKG_VERSION"), "the version of the workspace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_with_trouble_ends_well() {
    let stage = Stage::new(Script::new()).await;
    let _worker =
        stage.worker(&[("AGENT", "scripted:trouble"), ("TASK_DESCRIPTION", "Mend it"), ("PLAY_SPEED", "0")]);
    let died = stage.until_any("agent.stream_error").await;
    assert_eq!(died["event_data"]["error_type"], "sigkill", "{died}");
    let completed = stage.until_any("agent.completed").await;
    assert_eq!(completed["event_data"]["success"], true, "{completed}");
    stage.until_any("agent.unparsed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_says_what_the_task_belongs_to() {
    let stage = Stage::new(Script::new()).await;
    let agent = stage.script(&[text("Done.")]);
    let task = json!({"task": {"id": "t-1", "description": "Do it"}, "spec": {"id": "spec-1"}});
    let task = BASE64_STANDARD.encode(task.to_string());
    // A variable that is there and empty does not undo what the task says.
    let worker = stage.worker(&[
        ("AGENT", &agent),
        ("TASK_DATA_BASE64", &task),
        ("SPEC_ID", ""),
        ("EXIT_WHEN_DONE", "true"),
    ]);
    assert_eq!(worker.ended().await, Some(0));
    for event in stage.log().await.iter().filter(|event| event["source"] != "system") {
        let data = &event["event_data"];
        assert_eq!((&data["task_id"], &data["spec_id"]), (&json!("t-1"), &json!("spec-1")), "{event}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_goes_on_in_another_sandbox() {
    let mut stage = Stage::new(Script::new()).await;
    let agent = stage.script(&[text("First."), turn_end(), text("Second.")]);
    let worker =
        stage.worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it"), ("EXIT_WHEN_DONE", "true")]);
    assert_eq!(worker.ended().await, Some(0));
    let started = stage.until_any("agent.started").await;
    let session = started["event_data"]["session_id"].as_str().unwrap().to_owned();
    stage.token = stage.register_resuming("other", &session).await;
    stage.sandbox = "other".into();
    let first_home = std::mem::take(&mut stage.home);
    let worker = stage.worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Go on"),
        ("RESUME_SESSION_ID", &session),
        ("EXIT_WHEN_DONE", "true"),
    ]);
    assert_eq!(worker.ended().await, Some(0));
    drop(first_home);
    let log = stage.log().await;
    let said: Vec<&Value> = of(&log, "agent.message").iter().map(|data| &data["content"]).collect();
    assert_eq!(said, ["Second."], "it knows how far it was, and tells nothing again");
}
