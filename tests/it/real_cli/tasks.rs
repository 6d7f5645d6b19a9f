//! What takes long, and what goes on after a turn has ended.

use super::{GATED, let_go, session};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};

/// A build that goes on until it is let go.
fn build() -> Value {
    json!({"command": format!("{GATED} echo built"), "description": "Build", "run_in_background": true})
}

#[test]
fn a_task_in_the_background_starts_a_turn_when_it_ends() {
    offline(async {
        let script = Script::new()
            .when("build it", Reply::tool("Bash", build()))
            .when("running in background", Reply::text("It builds."))
            .when("task-notification", Reply::text("It is built."));
        let (home, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("build it").await;
        let result = cli.result().await;
        assert_eq!(result["result"], "It builds.", "{result}");
        let_go(&home);
        let result = cli.result().await;
        assert_eq!(result["result"], "It is built.", "{result}");
        model.until_told("task-notification").await;
        let (_, recording) = cli.close().await;
        recording.save("background");
    });
}

#[test]
fn the_end_of_the_input_waits_for_a_task_in_the_background() {
    offline(async {
        let script = Script::new()
            .when("build it", Reply::tool("Bash", build()))
            .when("running in background", Reply::text("It builds."))
            .when("task-notification", Reply::text("It is built."));
        let (home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("build it").await;
        cli.result().await;
        cli.hang_up();
        let_go(&home);
        let result = cli.result().await;
        assert_eq!(result["result"], "It is built.", "{result}");
        let (status, recording) = cli.close().await;
        recording.save("background_closed");
        assert!(status.success(), "{status}");
    });
}

#[test]
fn a_task_in_the_background_can_be_stopped() {
    offline(async {
        let script = Script::new()
            .when("build it", Reply::tool("Bash", build()))
            .when("running in background", Reply::text("It builds."))
            .always("task-notification", Reply::text("It was stopped."));
        let (_home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("build it").await;
        let task = cli.until(|frame| frame["subtype"] == "task_started").await["task_id"].clone();
        cli.result().await;
        let answer = cli.control(json!({"subtype": "stop_task", "task_id": task})).await;
        assert_eq!(answer["subtype"], "success", "{answer}");
        let (status, recording) = cli.close().await;
        recording.save("background_stopped");
        assert!(status.success(), "{status}");
        let none = recording.told().rfind(|frame| frame["subtype"] == "background_tasks_changed").unwrap();
        assert_eq!(none["tasks"], json!([]));
    });
}

#[test]
fn a_command_that_takes_long_is_told_as_a_task() {
    offline(async {
        let command = json!({"command": "sleep 4; echo slept", "description": "Wait"});
        let script =
            Script::new().when("wait", Reply::tool("Bash", command)).when("slept", Reply::text("Waited."));
        let (_home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("wait").await;
        let task = cli.until(|frame| frame["subtype"] == "task_started").await;
        assert_eq!((&task["tool_use_id"], &task["is_backgrounded"]), (&json!("toolu_0001"), &json!(false)));
        let result = cli.result().await;
        assert_eq!(result["result"], "Waited.", "{result}");
        let (_, recording) = cli.close().await;
        recording.save("slow");
    });
}
