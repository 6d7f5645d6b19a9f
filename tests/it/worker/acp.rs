//! An agent that implements the Agent Client Protocol (ACP).

use super::{Fixture, GATED, data_of, event_types};
use contract::payloads::{
    AgentCompleted, AgentMessage, AgentStreamError, AgentSystemMessage, AgentTurnCompleted, MessageDelivered,
};
use kit::acp::with_program;
use kit::model::Script;
use serde_json::{Value, json};

fn message(text: &str) -> Value {
    json!({"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})
}

fn call(method: &str, params: Value) -> Value {
    json!({"call": {"method": method, "params": params}})
}

/// A turn that requests permission, edits a file, and then waits for the file `go`.
fn edit_turn() -> Value {
    let edit = json!({"sessionUpdate": "tool_call", "toolCallId": "edit-1", "title": "Edit a.txt", "kind": "edit",
        "status": "pending", "rawInput": {"path": "a.txt"}});
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"}]);
    let diff = json!([{"type": "diff", "path": "a.txt", "oldText": "old\n", "newText": "new\n"}]);
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "edit-1", "status": "completed",
        "content": diff});
    let wait = json!({"command": "sh", "args": ["-c", GATED]});
    json!([
        message("I will edit it."),
        {"update": edit},
        call("session/request_permission", json!({"toolCall": {"toolCallId": "edit-1"}, "options": options})),
        call("fs/write_text_file", json!({"path": "a.txt", "content": "new\n"})),
        {"update": done},
        call("terminal/create", wait),
        call("terminal/wait_for_exit", json!({"terminalId": "terminal-1"})),
        message("Edited."),
    ])
}

#[test]
fn acp_agent_emits_the_same_events_as_other_agents() {
    let turns = json!([
        edit_turn(),
        [message("That, too.")],
        [message("I begin."), "wait_for_cancel"],
        [message("Something else, then.")],
    ]);
    with_program(&json!({"turns": turns}), |program| async move {
        let fixture = Fixture::new(Script::new()).await;
        std::fs::write(fixture.home.workspace.join("a.txt"), "old\n").unwrap();
        let agent = format!("acp:{program}");
        let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Edit it")]);
        let edited = fixture.wait_for_event("agent.file_edited").await;
        assert_eq!(edited["event_data"]["tool_use_id"], "edit-1", "{edited}");
        assert!(edited["event_data"]["full_diff"].as_str().unwrap().ends_with("-old\n+new\n"), "{edited}");
        let decided = fixture.wait_for_event("agent.permission_decided").await;
        assert_eq!(decided["event_data"]["decision"], "allow", "{decided}");

        // The protocol has no steering: the worker holds a message during a turn, and does not report it as delivered.
        let held = fixture.send_message("user_message", "and that").await;
        fixture.wait_for_receipt(&held, "fetched").await;
        fixture.wait_for_event("agent.message_injected").await;
        assert!(data_of::<MessageDelivered>(&fixture.log().await).is_empty(), "the message is held");
        fixture.open_gate();
        for state in ["delivered", "started", "completed"] {
            fixture.wait_for_receipt(&held, state).await;
        }
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "That, too.", "{completed}");

        let third = fixture.send_message("user_message", "work").await;
        fixture.wait_for_receipt(&third, "started").await;
        let interrupt = fixture.send_message("interrupt", "do something else").await;
        let interrupted = fixture.wait_for_event("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["message_id"], interrupt.as_str(), "{interrupted}");
        fixture.wait_for_receipt(&third, "cancelled").await;
        fixture.wait_for_receipt(&interrupt, "completed").await;
        fixture.wait_for(|message: &AgentMessage| message.content == "Something else, then.").await;

        assert_eq!(worker.terminate().await, Some(0));
        let log = fixture.log().await;
        let types = event_types(&log);
        for expected in ["agent.tool_use", "agent.tool_completed", "agent.file_edited", "agent.completed"] {
            assert_eq!(
                types.iter().filter(|found| **found == expected).count(),
                1,
                "{expected} in {types:?}"
            );
        }
        assert!(!types.contains(&"agent.unparsed"), "{types:?}");
        assert_eq!(types.last(), Some(&"agent.shutdown"));
        let turns: Vec<AgentTurnCompleted> = data_of(&log);
        let reasons: Vec<&str> = turns.iter().filter_map(|turn| turn.stop_reason.as_deref()).collect();
        assert_eq!(reasons, ["end_turn", "end_turn", "cancelled", "end_turn"]);
    });
}

#[test]
fn acp_agent_that_keeps_crashing_fails_its_task() {
    let script = json!({"turns": [[message("I begin."), "crash"]]});
    with_program(&script, |program| async move {
        let fixture = Fixture::new(Script::new()).await;
        let agent = format!("acp:{program}");
        let _worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it")]);
        let crashed = fixture.wait_for_event("agent.stream_error").await;
        assert_eq!(crashed["event_data"]["restarts"], true, "{crashed}");
        let failed = fixture.wait_for_event("agent.failed").await;
        assert!(failed["event_data"]["error"].as_str().unwrap().contains("exit code"), "{failed}");
        let log = fixture.log().await;
        assert_eq!(data_of::<AgentStreamError>(&log).len(), 4, "three restarts, then the task fails");
    });
}

#[test]
fn acp_agent_resumes_its_session_after_a_worker_kill() {
    let capabilities = json!({"sessionCapabilities": {"resume": {}}});
    let script = json!({"capabilities": capabilities, "turns": [[message("Done.")]]});
    with_program(&script, |program| async move {
        let fixture = Fixture::new(Script::new()).await;
        let agent = format!("acp:{program}");
        let worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it")]);
        fixture.wait_for_event("agent.completed").await;
        worker.kill().await;
        let _worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it")]);
        let is_resumed = |message: &AgentSystemMessage| message.metadata["resumed"] == true;
        let resumed = fixture.wait_for(is_resumed).await;
        let log = fixture.log().await;
        let messages: Vec<AgentSystemMessage> = data_of(&log);
        let first = &messages[0].metadata["session_id"];
        assert_eq!(&resumed["event_data"]["metadata"]["session_id"], first, "the same session");
        assert_eq!(data_of::<AgentCompleted>(&log).len(), 1);
    });
}

#[test]
fn acp_agent_resumes_the_configured_session() {
    let capabilities = json!({"sessionCapabilities": {"resume": {}}});
    with_program(&json!({"capabilities": capabilities}), |program| async move {
        let fixture = Fixture::new(Script::new()).await;
        let agent = format!("acp:{program}");
        let _worker = fixture.start_worker(&[("AGENT", &agent), ("RESUME_SESSION_ID", "sess_7")]);
        let named = |message: &AgentSystemMessage| message.metadata["session_id"] == "sess_7";
        let resumed = fixture.wait_for(named).await;
        assert_eq!(resumed["event_data"]["metadata"]["resumed"], true, "{resumed}");
    });
}
