//! Long-running and background commands.

use super::{GATED, open_gate, session};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};

/// A background command that runs until its gate is opened.
fn build() -> Value {
    json!({"command": format!("{GATED} echo built"), "description": "Build", "run_in_background": true})
}

#[test]
fn finished_background_task_starts_a_turn() {
    offline(async {
        let script = Script::new()
            .when("build it", Reply::tool("Bash", build()))
            .when("running in background", Reply::text("It builds."))
            .when("task-notification", Reply::text("It is built."));
        let (home, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.send_message("build it").await;
        let result = cli.result().await;
        assert_eq!(result["result"], "It builds.", "{result}");
        open_gate(&home);
        let result = cli.result().await;
        assert_eq!(result["result"], "It is built.", "{result}");
        model.until_prompted("task-notification").await;
        let (_, recording) = cli.close().await;
        recording.save("background");
    });
}

#[test]
fn closed_input_waits_for_background_tasks() {
    offline(async {
        let script = Script::new()
            .when("build it", Reply::tool("Bash", build()))
            .when("running in background", Reply::text("It builds."))
            .when("task-notification", Reply::text("It is built."));
        let (home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.send_message("build it").await;
        cli.result().await;
        cli.close_input();
        open_gate(&home);
        let result = cli.result().await;
        assert_eq!(result["result"], "It is built.", "{result}");
        let (status, recording) = cli.close().await;
        recording.save("background_closed");
        assert!(status.success(), "{status}");
    });
}

#[test]
fn background_task_can_be_stopped() {
    offline(async {
        let script = Script::new()
            .when("build it", Reply::tool("Bash", build()))
            .when("running in background", Reply::text("It builds."))
            .always("task-notification", Reply::text("It was stopped."));
        let (_home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.send_message("build it").await;
        let task = cli.until(|frame| frame["subtype"] == "task_started").await["task_id"].clone();
        cli.result().await;
        let response = cli.control(json!({"subtype": "stop_task", "task_id": task})).await;
        assert_eq!(response["subtype"], "success", "{response}");
        let (status, recording) = cli.close().await;
        recording.save("background_stopped");
        assert!(status.success(), "{status}");
        let last_change =
            recording.output().rfind(|frame| frame["subtype"] == "background_tasks_changed").unwrap();
        assert_eq!(last_change["tasks"], json!([]));
    });
}

#[test]
fn long_running_command_is_reported_as_a_task() {
    offline(async {
        let command = json!({"command": "sleep 4; echo slept", "description": "Wait"});
        let script =
            Script::new().when("wait", Reply::tool("Bash", command)).when("slept", Reply::text("Waited."));
        let (_home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.send_message("wait").await;
        let task = cli.until(|frame| frame["subtype"] == "task_started").await;
        assert_eq!((&task["tool_use_id"], &task["is_backgrounded"]), (&json!("toolu_0001"), &json!(false)));
        let result = cli.result().await;
        assert_eq!(result["result"], "Waited.", "{result}");
        let (_, recording) = cli.close().await;
        recording.save("slow");
    });
}
