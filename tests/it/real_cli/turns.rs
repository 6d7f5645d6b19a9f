//! Turns that run to completion.

use super::session;
use kit::claude::Cli;
use kit::model::{Reply, Script, Usage};
use kit::offline::offline;
use serde_json::{Value, json};
use std::fs;

#[test]
fn allowed_tool_runs_and_the_turn_reports_its_cost() {
    offline(async {
        let script = Script::new()
            .when(
                "make a file",
                Reply::text("I will write it.").and_tool("Write", write("hello.txt", "hi\n")),
            )
            .when("File created", Reply::text("It is there."));
        let (home, model, mut cli) = session(script, &[]).await;
        let uuid = cli.send_message("make a file").await;
        let request = cli.allow().await;
        assert_eq!(request["request"]["tool_name"], "Write");
        let result = cli.result().await;
        assert_eq!(result["subtype"], "success", "{result}");
        assert_eq!(result["result"], "It is there.");
        // Two replies with 100 input and 20 output tokens each, at $3 and $15 per million tokens.
        assert!((result["total_cost_usd"].as_f64().unwrap() - 0.0012).abs() < 1e-9, "{result}");
        assert_eq!(fs::read_to_string(home.workspace.join("hello.txt")).unwrap(), "hi\n");
        cli.receipt(&uuid, "completed").await;
        assert_eq!(model.prompts()[0], "make a file");
        let (status, _) = cli.close().await;
        assert!(status.success(), "{status}");
    });
}

#[test]
fn turn_with_thinking_text_and_tools_succeeds() {
    offline(async {
        let script = Script::new()
            .when(
                "build the thing",
                Reply::thinking("First a file, then a change to it.")
                    .and_text("I will start with a file.")
                    .and_tool("Write", write("notes.md", "one\ntwo\nthree\n"))
                    .with_usage(Usage { input: 100, output: 20, cache_creation: 1000, cache_read: 0 }),
            )
            .when(
                "File created",
                Reply::tool(
                    "Edit",
                    json!({"file_path": "notes.md", "old_string": "two", "new_string": "2", "replace_all": false}),
                )
                .with_usage(Usage { input: 10, output: 20, cache_creation: 0, cache_read: 1000 }),
            )
            .when("has been updated", bash("wc -l notes.md && echo oops >&2", "Count the lines"))
            .when("3 notes.md", Reply::text("Done: one file."));
        let (home, _model, mut cli) = session(script, &[]).await;
        cli.send_message("build the thing").await;
        let result = allow_everything(&mut cli).await;
        assert_eq!(result["subtype"], "success", "{result}");
        assert_eq!(result["result"], "Done: one file.", "{result}");
        assert_eq!(fs::read_to_string(home.workspace.join("notes.md")).unwrap(), "one\n2\nthree\n");
        let (_, recording) = cli.close().await;
        recording.save("main");
    });
}

#[test]
fn failed_tool_is_reported_and_the_turn_continues() {
    offline(async {
        let script = Script::new()
            .when("try it", bash("echo partly; exit 3", "Fail"))
            .when("Exit code 3", Reply::tool("Read", json!({"file_path": "/workspace/missing.md"})))
            .when("does not exist", Reply::text("Neither works."));
        let (_home, model, mut cli) = session(script, &["--allowedTools=Bash,Read"]).await;
        cli.send_message("try it").await;
        let failed = cli.until(|frame| frame["message"]["content"][0]["is_error"] == true).await;
        assert_eq!(failed["message"]["content"][0]["tool_use_id"], "toolu_0001", "{failed}");
        let result = cli.result().await;
        assert_eq!(result["result"], "Neither works.", "{result}");
        assert!(model.prompts()[1].contains("partly"), "output before the failure is kept");
        let (_, recording) = cli.close().await;
        recording.save("failed");
    });
}

#[test]
fn denied_tool_does_not_run_and_the_model_gets_the_reason() {
    offline(async {
        let script = Script::new()
            .when("delete it", bash("rm -rf everything", "Delete"))
            .when("not on a Friday", Reply::text("Then I leave it."));
        let (_home, model, mut cli) = session(script, &[]).await;
        cli.send_message("delete it").await;
        let request = cli.permission().await;
        cli.answer(&request, json!({"behavior": "deny", "message": "not on a Friday", "interrupt": false}))
            .await;
        let result = cli.result().await;
        assert_eq!(result["result"], "Then I leave it.", "{result}");
        assert_eq!(result["permission_denials"][0]["tool_name"], "Bash", "{result}");
        model.until_prompted("not on a Friday").await;
        let (_, recording) = cli.close().await;
        recording.save("deny");
    });
}

#[test]
fn subagent_frames_carry_their_parent_tool_use_id() {
    offline(async {
        let task = json!({"subject": "Count", "description": "Count the files", "activeForm": "Counting"});
        let agent = json!({"description": "Count files", "prompt": "count the files here",
            "subagent_type": "general-purpose", "run_in_background": false});
        let script = Script::new()
            .when("plan and count", Reply::tool("TaskCreate", task))
            .when("created successfully", Reply::tool("Task", agent))
            .when("count the files here", bash("ls | wc -l", "Count files"))
            .when(
                "Subagent hand-back",
                Reply::tool("TaskUpdate", json!({"taskId": "1", "status": "completed"})),
            )
            .when("Updated task", Reply::text("Counted."))
            .when("0", Reply::text("There is no file."));
        let (_home, _model, mut cli) = session(script, &["--allowedTools=Task,TaskCreate,TaskUpdate"]).await;
        cli.send_message("plan and count").await;
        let result = allow_everything(&mut cli).await;
        assert_eq!(result["result"], "Counted.", "{result}");
        let (_, recording) = cli.close().await;
        recording.save("subagent");
        let inside: Vec<&Value> =
            recording.output().filter(|frame| frame["parent_tool_use_id"] == "toolu_0002").collect();
        assert!(inside.iter().any(|frame| frame["type"] == "assistant"), "{inside:?}");
    });
}

/// Allows every tool until the turn ends, and returns its result.
async fn allow_everything(cli: &mut Cli) -> Value {
    loop {
        let is_permission_request = |frame: &Value| frame["request"]["subtype"] == "can_use_tool";
        let next = cli.until(|frame| is_permission_request(frame) || frame["type"] == "result").await;
        if next["type"] == "result" {
            return next;
        }
        let input = next["request"]["input"].clone();
        cli.answer(&next, json!({"behavior": "allow", "updatedInput": input})).await;
    }
}

fn write(path: &str, content: &str) -> Value {
    json!({"file_path": path, "content": content})
}

pub fn bash(command: &str, description: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": description}))
}
