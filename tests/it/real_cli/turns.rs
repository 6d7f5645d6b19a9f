//! Turns that end by themselves.

use super::session;
use kit::claude::Cli;
use kit::model::{Reply, Script, Usage};
use kit::offline::offline;
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_granted_tool_runs_and_its_turn_is_paid_for() {
    offline(async {
        let script = Script::new()
            .when(
                "make a file",
                Reply::text("I will write it.").and_tool("Write", write("hello.txt", "hi\n")),
            )
            .when("File created", Reply::text("It is there."));
        let (home, model, mut cli) = session(script, &[]).await;
        let uuid = cli.say("make a file").await;
        let asked = cli.allow().await;
        assert_eq!(asked["request"]["tool_name"], "Write");
        let result = cli.result().await;
        assert_eq!(result["subtype"], "success", "{result}");
        assert_eq!(result["result"], "It is there.");
        // Two answers of 100 tokens in and 20 out, at 3 and 15 dollars a million.
        assert!((result["total_cost_usd"].as_f64().unwrap() - 0.0012).abs() < 1e-9, "{result}");
        assert_eq!(fs::read_to_string(home.workspace.join("hello.txt")).unwrap(), "hi\n");
        cli.receipt(&uuid, "completed").await;
        assert_eq!(model.told()[0], "make a file");
        let (status, _) = cli.close().await;
        assert!(status.success(), "{status}");
    });
}

#[test]
fn one_turn_shows_every_kind_of_step() {
    offline(async {
        let script = Script::new()
            .when(
                "build the thing",
                Reply::thinking("First a file, then a change to it.")
                    .and_text("I will start with a file.")
                    .and_tool("Write", write("notes.md", "one\ntwo\nthree\n"))
                    .billed(Usage { input: 100, output: 20, cache_creation: 1000, cache_read: 0 }),
            )
            .when(
                "File created",
                Reply::tool(
                    "Edit",
                    json!({"file_path": "notes.md", "old_string": "two", "new_string": "2", "replace_all": false}),
                )
                .billed(Usage { input: 10, output: 20, cache_creation: 0, cache_read: 1000 }),
            )
            .when("has been updated", bash("wc -l notes.md && echo oops >&2", "Count the lines"))
            .when("3 notes.md", Reply::text("Done: one file."));
        let (home, _model, mut cli) = session(script, &[]).await;
        cli.say("build the thing").await;
        let result = allow_everything(&mut cli).await;
        assert_eq!(result["subtype"], "success", "{result}");
        assert_eq!(result["result"], "Done: one file.", "{result}");
        assert_eq!(fs::read_to_string(home.workspace.join("notes.md")).unwrap(), "one\n2\nthree\n");
        let (_, recording) = cli.close().await;
        recording.save("main");
    });
}

#[test]
fn a_tool_that_fails_is_told_as_an_error_and_the_turn_goes_on() {
    offline(async {
        let script = Script::new()
            .when("try it", bash("echo partly; exit 3", "Fail"))
            .when("Exit code 3", Reply::tool("Read", json!({"file_path": "/workspace/missing.md"})))
            .when("does not exist", Reply::text("Neither works."));
        let (_home, model, mut cli) = session(script, &["--allowedTools=Bash,Read"]).await;
        cli.say("try it").await;
        let failed = cli.until(|frame| frame["message"]["content"][0]["is_error"] == true).await;
        assert_eq!(failed["message"]["content"][0]["tool_use_id"], "toolu_0001", "{failed}");
        let result = cli.result().await;
        assert_eq!(result["result"], "Neither works.", "{result}");
        assert!(model.told()[1].contains("partly"), "what it printed before is not lost");
        let (_, recording) = cli.close().await;
        recording.save("failed");
    });
}

#[test]
fn a_denied_tool_does_not_run_and_the_model_is_told_why() {
    offline(async {
        let script = Script::new()
            .when("delete it", bash("rm -rf everything", "Delete"))
            .when("not on a Friday", Reply::text("Then I leave it."));
        let (_home, model, mut cli) = session(script, &[]).await;
        cli.say("delete it").await;
        let asked = cli.permission().await;
        cli.answer(&asked, json!({"behavior": "deny", "message": "not on a Friday", "interrupt": false}))
            .await;
        let result = cli.result().await;
        assert_eq!(result["result"], "Then I leave it.", "{result}");
        assert_eq!(result["permission_denials"][0]["tool_name"], "Bash", "{result}");
        model.until_told("not on a Friday").await;
        let (_, recording) = cli.close().await;
        recording.save("deny");
    });
}

#[test]
fn what_a_subagent_does_is_told_under_the_use_that_started_it() {
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
        cli.say("plan and count").await;
        let result = allow_everything(&mut cli).await;
        assert_eq!(result["result"], "Counted.", "{result}");
        let (_, recording) = cli.close().await;
        recording.save("subagent");
        let inside: Vec<&Value> =
            recording.told().filter(|frame| frame["parent_tool_use_id"] == "toolu_0002").collect();
        assert!(inside.iter().any(|frame| frame["type"] == "assistant"), "{inside:?}");
    });
}

/// Grants whatever is asked for until the turn ends.
async fn allow_everything(cli: &mut Cli) -> Value {
    loop {
        let asks = |frame: &Value| frame["request"]["subtype"] == "can_use_tool";
        let next = cli.until(|frame| asks(frame) || frame["type"] == "result").await;
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
