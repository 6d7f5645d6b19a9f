//! How a worker goes.

use super::{GATED, OPERATOR, Stage};
use kit::model::{Reply, Script};
use kit::offline::offline;
use reqwest::Method;
use serde_json::json;

fn sleeper() -> Script {
    let command = json!({"command": GATED, "description": "Wait"});
    Script::new().when("wait", Reply::tool("Bash", command))
}

#[test]
fn a_worker_that_is_told_to_stop_interrupts_its_agent_and_is_gone() {
    offline(async {
        let stage = Stage::new(sleeper()).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "wait")]);
        stage.until_any("agent.tool_use").await;
        assert_eq!(worker.terminate().await, Some(0));
        let interrupted = stage.until_any("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["reason"], "shutdown");
        let last = stage.log().await.pop().unwrap();
        assert_eq!(last["event_type"], "agent.shutdown", "its last word");
    });
}

#[test]
fn a_worker_whose_sandbox_has_ended_goes_by_itself() {
    offline(async {
        let stage = Stage::new(sleeper()).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "wait")]);
        stage.until_any("agent.tool_use").await;
        let ended = stage.plane.call(Method::DELETE, "/api/v1/sandboxes/box", Some(OPERATOR), None).await;
        assert_eq!(ended.status, 200);
        assert_eq!(worker.ended().await, Some(0));
        let shutdown = stage.until_any("agent.shutdown").await;
        assert_eq!(shutdown["event_data"]["reason"], "sandbox_finished");
    });
}

#[test]
fn a_worker_that_was_replaced_stops_at_once() {
    offline(async {
        let stage = Stage::new(sleeper()).await;
        let worker = stage.worker(&[("TASK_DESCRIPTION", "wait")]);
        stage.until_any("agent.tool_use").await;
        let epoch = stage.plane.get("/api/v1/sandboxes/box", OPERATOR).await.ok()["epoch"].as_u64().unwrap();
        let newer = crate::support::batch(epoch + 1, 1, 1, 1);
        stage.plane.post_events("box", &stage.token, newer).await.ok();
        stage.say("user_message", "something to tell of").await;
        assert_eq!(worker.ended().await, Some(3));
    });
}

#[test]
fn an_agent_that_is_not_there_fails_the_task_in_words() {
    offline(async {
        let stage = Stage::new(Script::new()).await;
        let worker = stage.worker(&[
            ("TASK_DESCRIPTION", "anything"),
            ("CLAUDE_PATH", "/nowhere/claude"),
            ("EXIT_WHEN_DONE", "true"),
        ]);
        let failed = stage.until_any("agent.failed").await;
        let error = failed["event_data"]["error"].as_str().unwrap();
        assert!(error.contains("/nowhere/claude"), "{error}");
        assert_eq!(worker.ended().await, Some(0));
    });
}
