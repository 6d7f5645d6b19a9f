//! Turns of an agent: events, costs, permissions and budgets.

use super::{Fixture, data_of, event_types};
use contract::payloads::{AgentToolUse, AgentTurnCompleted};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};

fn write(path: &str) -> Reply {
    Reply::tool("Write", json!({"file_path": path, "content": "hello\n"}))
}

#[test]
fn task_emits_its_events_in_order() {
    offline(async {
        let script = Script::new()
            .when("greet the world", write("hello.txt"))
            .when("created", Reply::text("There it is."));
        let fixture = Fixture::new(script).await;
        let worker = fixture.start_worker(&[
            ("TASK_DESCRIPTION", "greet the world"),
            ("TASK_ID", "t-1"),
            ("PERMISSION_MODE", "default"),
        ]);
        let completed = fixture.wait_for_event("agent.completed").await;
        let data = &completed["event_data"];
        assert_eq!(data["success"], true, "{data}");
        assert_eq!(data["final_output"], "There it is.");
        assert_eq!(data["task_id"], "t-1", "every event carries its task id");
        assert!(data["cost_usd"].as_f64().unwrap() > 0.0, "{data}");
        assert_eq!(std::fs::read_to_string(fixture.home.workspace.join("hello.txt")).unwrap(), "hello\n");
        let log = fixture.log().await;
        let types = event_types(&log);
        let order = [
            "agent.started",
            "agent.user_message",
            "agent.tool_use",
            "agent.permission_decided",
            "agent.tool_completed",
            "agent.file_edited",
            "agent.message",
            "agent.turn_completed",
            "agent.completed",
            "agent.waiting",
        ];
        let mut remaining = types.iter();
        for expected in order {
            assert!(
                remaining.any(|found| *found == expected),
                "{expected} is missing or out of order in {types:?}"
            );
        }
        let tool_events: Vec<_> =
            log.iter().filter(|event| event["event_data"]["tool_use_id"].is_string()).collect();
        assert!(
            tool_events.iter().all(|event| event["event_data"]["turn"] == 1),
            "every event has the right turn: {tool_events:?}"
        );
        let edits = types.iter().filter(|found| **found == "agent.file_edited").count();
        assert_eq!(edits, 1, "a change reported by a tool is not reported again");
        assert_eq!(worker.terminate().await, Some(0));
        let shutdown = fixture.wait_for_event("agent.shutdown").await;
        assert_eq!(shutdown["event_data"]["reason"], "signal");
    });
}

#[test]
fn turns_are_numbered_and_billed_once() {
    offline(async {
        let script = Script::new()
            .when("first", write("one.txt"))
            .when("created", Reply::text("One."))
            .when("second", write("two.txt"))
            .when("created", Reply::text("Two."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "first")]);
        fixture.wait_for_event("agent.completed").await;
        let message = fixture.send_message("user_message", "second").await;
        fixture.wait_for_receipt(&message, "completed").await;
        fixture.wait_for(|turn: &AgentTurnCompleted| turn.final_output == "Two.").await;
        let log = fixture.log().await;
        let turns: Vec<AgentTurnCompleted> = data_of(&log);
        let costs: Vec<f64> = turns.iter().map(|turn| turn.cost_usd).collect();
        let total = turns.last().unwrap().total_cost_usd;
        assert_eq!(costs.len(), 2);
        assert!(
            (costs.iter().sum::<f64>() - total).abs() < 1e-9,
            "the costs {costs:?} do not add up to {total}"
        );
        assert!((costs[0] - costs[1]).abs() < 1e-9, "both turns cost the same: {costs:?}");
        let ids: Vec<String> = data_of(&log).into_iter().map(|call: AgentToolUse| call.tool_use_id).collect();
        let numbers: Vec<Vec<&Value>> = ids
            .iter()
            .map(|id| {
                let events = log.iter().map(|event| &event["event_data"]);
                events.filter(|data| data["tool_use_id"] == **id).map(|data| &data["turn"]).collect()
            })
            .collect();
        for turn in &numbers {
            assert!(turn.len() >= 3 && turn.iter().all(|number| *number == turn[0]), "{numbers:?}");
        }
        assert_ne!(numbers[0][0], numbers[1][0], "{numbers:?}");
    });
}

#[test]
fn writes_outside_the_workspace_are_denied() {
    offline(async {
        let elsewhere = tempfile::tempdir().unwrap();
        let file = elsewhere.path().join("unrelated.txt");
        let script = Script::new()
            .when("write elsewhere", write(file.to_str().unwrap()))
            .when("is outside of", Reply::text("Then I leave it."));
        let fixture = Fixture::new(script).await;
        let _worker =
            fixture.start_worker(&[("TASK_DESCRIPTION", "write elsewhere"), ("PERMISSION_MODE", "default")]);
        let decided = fixture.wait_for_event("agent.permission_decided").await;
        assert_eq!(decided["event_data"]["decision"], "deny", "{decided}");
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Then I leave it.");
        assert!(!file.exists());
    });
}

#[test]
fn exceeded_budget_fails_the_task_with_its_reason() {
    offline(async {
        let expensive = kit::model::Usage { input: 100_000, ..kit::model::Usage::default() };
        let script = Script::new().always(
            "",
            Reply::tool("Bash", json!({"command": "echo more", "description": "Work"})).with_usage(expensive),
        );
        let fixture = Fixture::new(script).await;
        let _worker =
            fixture.start_worker(&[("TASK_DESCRIPTION", "go on for ever"), ("MAX_BUDGET_USD", "0.5")]);
        let failed = fixture.wait_for_event("agent.failed").await;
        assert_eq!(failed["event_data"]["stop_reason"], "max_cost_reached", "{failed}");
        fixture.wait_for_event("agent.waiting").await;
    });
}

#[test]
fn model_error_fails_the_task_with_the_error() {
    offline(async {
        let fixture = Fixture::new(Script::new().always("", Reply::error(400, None))).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "anything")]);
        let failed = fixture.wait_for_event("agent.failed").await;
        let error = failed["event_data"]["error"].as_str().unwrap();
        assert!(error.contains("400"), "{error}");
    });
}
