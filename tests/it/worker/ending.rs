//! When a task is done.

use super::{GATED, Stage, git, of};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

#[test]
fn continuous_mode_goes_on_until_what_is_required_holds() {
    offline(async {
        let script = Script::new()
            .when("make it so", Reply::text("Half of it."))
            .when("You have not said", bash("echo x > done.txt"))
            .when("Bash completed", Reply::text("TASK_COMPLETE"))
            .when("not done yet", bash("git add -A && git commit -qm done && echo committed"))
            .when("committed", Reply::text("Now it is. TASK_COMPLETE"))
            .always("", Reply::text("TASK_COMPLETE"));
        let stage = Stage::new(script).await;
        git(&stage.home.workspace, &["init", "-q"]);
        git(&stage.home.workspace, &["config", "user.email", "a@b.invalid"]);
        git(&stage.home.workspace, &["config", "user.name", "A"]);
        git(&stage.home.workspace, &["commit", "-q", "--allow-empty", "-m", "begin"]);
        let _worker = stage.worker(&[
            ("TASK_DESCRIPTION", "make it so"),
            ("CONTINUOUS_MODE", "true"),
            ("REQUIRE_CLEAN_GIT", "true"),
        ]);
        let completed = stage.until_any("continuous.completed").await;
        assert_eq!(completed["event_data"]["stop_reason"], "validation_passed", "{completed}");
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["code_committed"], true, "{completed}");
        assert_eq!(
            completed["event_data"]["validation_passed"], true,
            "it is told when it is known: {completed}"
        );
        let log = stage.log().await;
        let count = |wanted: &str| log.iter().filter(|event| event["event_type"] == wanted).count();
        assert_eq!(count("continuous.started"), 1);
        assert!(count("iteration.started") >= 3, "it took several: {:?}", super::types(&log));
        assert!(count("iteration.validation") >= 2);
        assert_eq!(
            count("iteration.started"),
            count("iteration.completed"),
            "each that began is told to its end"
        );
    });
}

#[test]
fn a_task_whose_tests_fail_is_not_done() {
    offline(async {
        let stage = Stage::new(Script::new().always("", Reply::text("Done, I think."))).await;
        let _worker =
            stage.worker(&[("TASK_DESCRIPTION", "do it"), ("TEST_COMMAND", "echo the tests say no; exit 3")]);
        let failed = stage.until_any("agent.failed").await;
        assert_eq!(failed["event_data"]["stop_reason"], "validation_failed", "{failed}");
        assert!(failed["event_data"]["error"].as_str().unwrap().contains("the tests say no"), "{failed}");
    });
}

#[test]
fn a_task_is_not_done_while_something_runs_in_the_background() {
    offline(async {
        let command = json!({"command": GATED, "description": "Build", "run_in_background": true});
        let script = Script::new()
            .when("build it", Reply::tool("Bash", command))
            .when("running in background", Reply::text("It builds."))
            .always("", Reply::text("It is built."));
        let stage = Stage::new(script).await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "build it")]);
        stage.until_any("agent.turn_completed").await;
        assert!(of(&stage.log().await, "agent.completed").is_empty(), "the build still runs");
        stage.let_go();
        let completed = stage.until_any("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "It is built.");
        let log = stage.log().await;
        let turns = log.iter().filter(|event| event["event_type"] == "agent.turn_completed").count();
        assert_eq!(turns, 2);
    });
}
