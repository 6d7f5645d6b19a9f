//! How a worker exits.

use super::{Fixture, GATED, OPERATOR, tool};
use kit::model::{Reply, Script};
use kit::offline::offline;
use reqwest::Method;
use serde_json::json;
use tokio::process::Command;

fn waiting_script() -> Script {
    let command = json!({"command": GATED, "description": "Wait"});
    Script::new().when("wait", Reply::tool("Bash", command))
}

#[test]
fn sigterm_interrupts_the_agent_and_exits_cleanly() {
    offline(async {
        let fixture = Fixture::new(waiting_script()).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "wait")]);
        fixture.wait_for_event("agent.tool_use").await;
        assert_eq!(worker.terminate().await, Some(0));
        let interrupted = fixture.wait_for_event("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["reason"], "shutdown");
        let last = fixture.log().await.pop().unwrap();
        assert_eq!(last["event_type"], "agent.shutdown", "the final event");
    });
}

/// After the first signal the worker waits for its agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_signal_exits_immediately() {
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[tool("Bash", json!({"command": "sleep 30"}))]);
    let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "wait")]);
    fixture.wait_for_event("agent.tool_use").await;
    // Two different signals: the second of two equal ones is lost if the first is not handled yet.
    let id = worker.id().to_string();
    let sent = Command::new("sh").args(["-c", "kill -TERM \"$0\" && kill -INT \"$0\"", &id]).status().await;
    assert!(sent.unwrap().success());
    assert_eq!(worker.wait_for_exit().await, Some(130));
}

#[test]
fn worker_exits_when_its_sandbox_is_terminated() {
    offline(async {
        let fixture = Fixture::new(waiting_script()).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "wait")]);
        fixture.wait_for_event("agent.tool_use").await;
        let terminated =
            fixture.plane.call(Method::DELETE, "/api/v1/sandboxes/box", Some(OPERATOR), None).await;
        assert_eq!(terminated.status, 200);
        assert_eq!(worker.wait_for_exit().await, Some(0));
        let shutdown = fixture.wait_for_event("agent.shutdown").await;
        assert_eq!(shutdown["event_data"]["reason"], "sandbox_finished");
    });
}

#[test]
fn superseded_worker_exits_immediately() {
    offline(async {
        let fixture = Fixture::new(waiting_script()).await;
        let worker = fixture.start_worker(&[("TASK_DESCRIPTION", "wait")]);
        fixture.wait_for_event("agent.tool_use").await;
        let epoch =
            fixture.plane.get("/api/v1/sandboxes/box", OPERATOR).await.ok()["epoch"].as_u64().unwrap();
        let newer = crate::support::batch(epoch + 1, 1, 1, 1);
        fixture.plane.post_events("box", &fixture.token, newer).await.ok();
        fixture.send_message("user_message", "hello").await;
        assert_eq!(worker.wait_for_exit().await, Some(3));
    });
}

#[test]
fn missing_agent_binary_fails_the_task_with_a_reason() {
    offline(async {
        let fixture = Fixture::new(Script::new()).await;
        let worker = fixture.start_worker(&[
            ("TASK_DESCRIPTION", "anything"),
            ("CLAUDE_PATH", "/nowhere/claude"),
            ("EXIT_WHEN_DONE", "true"),
        ]);
        let failed = fixture.wait_for_event("agent.failed").await;
        let error = failed["event_data"]["error"].as_str().unwrap();
        assert!(error.contains("/nowhere/claude"), "{error}");
        assert_eq!(worker.wait_for_exit().await, Some(0));
    });
}
