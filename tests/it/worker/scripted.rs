//! The scripted agent, through the same worker.

use super::{Stage, types};
use kit::model::Script;

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
