//! What an agent does on its own, and what it may.

use super::{Stage, of, types};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};

fn write(path: &str) -> Reply {
    Reply::tool("Write", json!({"file_path": path, "content": "hello\n"}))
}

#[test]
fn a_task_is_worked_on_and_told_step_by_step() {
    offline(async {
        let script = Script::new()
            .when("greet the world", write("hello.txt"))
            .when("created", Reply::text("There it is."));
        let stage = Stage::new(script).await;
        let worker = stage.worker(&[
            ("TASK_DESCRIPTION", "greet the world"),
            ("TASK_ID", "t-1"),
            ("PERMISSION_MODE", "default"),
        ]);
        let completed = stage.until_any("agent.completed").await;
        let data = &completed["event_data"];
        assert_eq!(data["success"], true, "{data}");
        assert_eq!(data["final_output"], "There it is.");
        assert_eq!(data["task_id"], "t-1", "every event says which task it belongs to");
        assert!(data["cost_usd"].as_f64().unwrap() > 0.0, "{data}");
        assert_eq!(std::fs::read_to_string(stage.home.workspace.join("hello.txt")).unwrap(), "hello\n");
        let log = stage.log().await;
        let types = types(&log);
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
        let mut rest = types.iter();
        for expected in order {
            assert!(
                rest.any(|found| *found == expected),
                "{expected} is missing, or too early, in {types:?}"
            );
        }
        let uses: Vec<_> =
            log.iter().filter(|event| event["event_data"]["tool_use_id"].is_string()).collect();
        assert!(
            uses.iter().all(|event| event["event_data"]["turn"] == 1),
            "the turn is right everywhere: {uses:?}"
        );
        let edits = types.iter().filter(|found| **found == "agent.file_edited").count();
        assert_eq!(edits, 1, "a file that a tool told of is not told of again");
        assert_eq!(worker.terminate().await, Some(0));
        let shutdown = stage.until_any("agent.shutdown").await;
        assert_eq!(shutdown["event_data"]["reason"], "signal");
    });
}

#[test]
fn every_turn_has_its_number_and_is_billed_once() {
    offline(async {
        let script = Script::new()
            .when("first", write("one.txt"))
            .when("created", Reply::text("One."))
            .when("second", write("two.txt"))
            .when("created", Reply::text("Two."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "first")]);
        stage.until_any("agent.completed").await;
        let message = stage.say("user_message", "second").await;
        stage.receipt(&message, "completed").await;
        stage.until("agent.turn_completed", |data| data["final_output"] == "Two.").await;
        let log = stage.log().await;
        let turns = of(&log, "agent.turn_completed");
        let costs: Vec<f64> = turns.iter().map(|turn| turn["cost_usd"].as_f64().unwrap()).collect();
        let total = turns.last().unwrap()["total_cost_usd"].as_f64().unwrap();
        assert_eq!(costs.len(), 2);
        assert!((costs.iter().sum::<f64>() - total).abs() < 1e-9, "{costs:?} are not {total}");
        assert!((costs[0] - costs[1]).abs() < 1e-9, "both did the same: {costs:?}");
        let used: Vec<&Value> = of(&log, "agent.tool_use").iter().map(|used| &used["tool_use_id"]).collect();
        let numbers: Vec<Vec<&Value>> = used
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
fn what_lies_outside_of_the_workspace_is_not_touched() {
    offline(async {
        let elsewhere = tempfile::tempdir().unwrap();
        let file = elsewhere.path().join("unrelated.txt");
        let script = Script::new()
            .when("write elsewhere", write(file.to_str().unwrap()))
            .when("is outside of", Reply::text("Then I leave it."));
        let stage = Stage::new(script).await;
        let _worker =
            stage.worker(&[("TASK_DESCRIPTION", "write elsewhere"), ("PERMISSION_MODE", "default")]);
        let decided = stage.until_any("agent.permission_decided").await;
        assert_eq!(decided["event_data"]["decision"], "deny", "{decided}");
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "Then I leave it.");
        assert!(!file.exists());
    });
}

#[test]
fn a_budget_ends_a_task_with_its_reason() {
    offline(async {
        let expensive = kit::model::Usage { input: 100_000, ..kit::model::Usage::default() };
        let script = Script::new().always(
            "",
            Reply::tool("Bash", json!({"command": "echo more", "description": "Work"})).billed(expensive),
        );
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "go on for ever"), ("MAX_BUDGET_USD", "0.5")]);
        let failed = stage.until_any("agent.failed").await;
        assert_eq!(failed["event_data"]["stop_reason"], "max_cost_reached", "{failed}");
        stage.until_any("agent.waiting").await;
    });
}

#[test]
fn a_model_that_is_out_of_order_fails_the_task_and_says_why() {
    offline(async {
        let stage = Stage::new(Script::new().always("", Reply::error(400, None))).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "anything")]);
        let failed = stage.until_any("agent.failed").await;
        let error = failed["event_data"]["error"].as_str().unwrap();
        assert!(error.contains("400"), "{error}");
    });
}
