//! An agent that speaks the Agent Client Protocol, through the same worker.

use super::{GATED, Stage, of, types};
use kit::acp::with_program;
use kit::model::Script;
use serde_json::{Value, json};

fn says(text: &str) -> Value {
    json!({"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}})
}

fn calls(method: &str, params: Value) -> Value {
    json!({"call": {"method": method, "params": params}})
}

/// A turn that edits a file, after asking, and goes on until there is a file `go`.
fn editing() -> Value {
    let edit = json!({"sessionUpdate": "tool_call", "toolCallId": "edit-1", "title": "Edit a.txt", "kind": "edit",
        "status": "pending", "rawInput": {"path": "a.txt"}});
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"}]);
    let diff = json!([{"type": "diff", "path": "a.txt", "oldText": "old\n", "newText": "new\n"}]);
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "edit-1", "status": "completed",
        "content": diff});
    let wait = json!({"command": "sh", "args": ["-c", GATED]});
    json!([
        says("I look at it."),
        {"update": edit},
        calls("session/request_permission", json!({"toolCall": {"toolCallId": "edit-1"}, "options": options})),
        calls("fs/write_text_file", json!({"path": "a.txt", "content": "new\n"})),
        {"update": done},
        calls("terminal/create", wait),
        calls("terminal/wait_for_exit", json!({"terminalId": "terminal-1"})),
        says("Edited."),
    ])
}

#[test]
fn an_acp_agent_is_driven_like_any_other() {
    let turns = json!([
        editing(),
        [says("That, too.")],
        [says("I begin."), "wait_for_cancel"],
        [says("Something else, then.")],
    ]);
    with_program(&json!({"turns": turns}), |program| async move {
        let stage = Stage::new(Script::new()).await;
        std::fs::write(stage.home.workspace.join("a.txt"), "old\n").unwrap();
        let agent = format!("acp:{program}");
        let worker = stage.worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Edit it")]);
        let edited = stage.until_any("agent.file_edited").await;
        assert_eq!(edited["event_data"]["tool_use_id"], "edit-1", "{edited}");
        assert!(edited["event_data"]["full_diff"].as_str().unwrap().ends_with("-old\n+new\n"), "{edited}");
        let decided = stage.until_any("agent.permission_decided").await;
        assert_eq!(decided["event_data"]["decision"], "allow", "{decided}");

        // The protocol has no steering: what is said meanwhile is held, and nobody says that the agent has it.
        let held = stage.say("user_message", "and that").await;
        stage.receipt(&held, "fetched").await;
        stage.until_any("agent.message_injected").await;
        assert!(of(&stage.log().await, "message.delivered").is_empty(), "it is held");
        stage.let_go();
        for state in ["delivered", "started", "completed"] {
            stage.receipt(&held, state).await;
        }
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "That, too.", "{completed}");

        let third = stage.say("user_message", "work").await;
        stage.receipt(&third, "started").await;
        let interrupt = stage.say("interrupt", "do something else").await;
        let interrupted = stage.until_any("agent.interrupted").await;
        assert_eq!(interrupted["event_data"]["message_id"], interrupt.as_str(), "{interrupted}");
        stage.receipt(&third, "cancelled").await;
        stage.receipt(&interrupt, "completed").await;
        stage.until("agent.message", |data| data["content"] == "Something else, then.").await;

        assert_eq!(worker.terminate().await, Some(0));
        let log = stage.log().await;
        let types = types(&log);
        for once in ["agent.tool_use", "agent.tool_completed", "agent.file_edited", "agent.completed"] {
            assert_eq!(types.iter().filter(|found| **found == once).count(), 1, "{once} in {types:?}");
        }
        assert!(!types.contains(&"agent.unparsed"), "{types:?}");
        assert_eq!(types.last(), Some(&"agent.shutdown"));
        let turns = of(&log, "agent.turn_completed");
        let reasons: Vec<&Value> = turns.iter().map(|turn| &turn["stop_reason"]).collect();
        assert_eq!(reasons, ["end_turn", "end_turn", "cancelled", "end_turn"]);
    });
}

#[test]
fn an_acp_agent_that_dies_again_and_again_fails_its_task() {
    let script = json!({"turns": [[says("I begin."), "die"]]});
    with_program(&script, |program| async move {
        let stage = Stage::new(Script::new()).await;
        let agent = format!("acp:{program}");
        let _worker = stage.worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it")]);
        let died = stage.until_any("agent.stream_error").await;
        assert_eq!(died["event_data"]["restarts"], true, "{died}");
        let failed = stage.until_any("agent.failed").await;
        assert!(failed["event_data"]["error"].as_str().unwrap().contains("exit code"), "{failed}");
        let log = stage.log().await;
        assert_eq!(of(&log, "agent.stream_error").len(), 4, "three times in a row, and no more");
    });
}

#[test]
fn an_acp_agent_goes_on_with_its_session_after_its_worker_was_killed() {
    let capabilities = json!({"sessionCapabilities": {"resume": {}}});
    let script = json!({"capabilities": capabilities, "turns": [[says("Done.")]]});
    with_program(&script, |program| async move {
        let stage = Stage::new(Script::new()).await;
        let agent = format!("acp:{program}");
        let worker = stage.worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it")]);
        stage.until_any("agent.completed").await;
        worker.kill().await;
        let _worker = stage.worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Do it")]);
        let is_resumed = |data: &Value| data["metadata"]["resumed"] == true;
        let resumed = stage.until("agent.system_message", is_resumed).await;
        let log = stage.log().await;
        let first = &of(&log, "agent.system_message")[0]["metadata"]["session_id"];
        assert_eq!(&resumed["event_data"]["metadata"]["session_id"], first, "the same session");
        assert_eq!(of(&log, "agent.completed").len(), 1);
    });
}

#[test]
fn an_acp_agent_is_given_the_session_that_somebody_names() {
    let capabilities = json!({"sessionCapabilities": {"resume": {}}});
    with_program(&json!({"capabilities": capabilities}), |program| async move {
        let stage = Stage::new(Script::new()).await;
        let agent = format!("acp:{program}");
        let _worker = stage.worker(&[("AGENT", &agent), ("RESUME_SESSION_ID", "sess_7")]);
        let named = |data: &Value| data["metadata"]["session_id"] == "sess_7";
        let resumed = stage.until("agent.system_message", named).await;
        assert_eq!(resumed["event_data"]["metadata"]["resumed"], true, "{resumed}");
    });
}
