//! When a task counts as completed.

use super::{Fixture, GATED, data_of, git};
use contract::payloads::AgentCompleted;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

fn bash(command: &str) -> Reply {
    Reply::tool("Bash", json!({"command": command, "description": "Work"}))
}

#[test]
fn continuous_mode_iterates_until_validation_passes() {
    offline(async {
        let script = Script::new()
            .when("make it so", Reply::text("Half of it."))
            .when("You have not said", bash("echo x > done.txt"))
            .when("Bash completed", Reply::text("TASK_COMPLETE"))
            .when("not done yet", bash("git add -A && git commit -qm done && echo committed"))
            .when("committed", Reply::text("Now it is. TASK_COMPLETE"))
            .always("", Reply::text("TASK_COMPLETE"));
        let fixture = Fixture::new(script).await;
        git(&fixture.home.workspace, &["init", "-q"]);
        git(&fixture.home.workspace, &["config", "user.email", "a@b.invalid"]);
        git(&fixture.home.workspace, &["config", "user.name", "A"]);
        git(&fixture.home.workspace, &["commit", "-q", "--allow-empty", "-m", "begin"]);
        let _worker = fixture.start_worker(&[
            ("TASK_DESCRIPTION", "make it so"),
            ("CONTINUOUS_MODE", "true"),
            ("REQUIRE_CLEAN_GIT", "true"),
        ]);
        let completed = fixture.wait_for_event("continuous.completed").await;
        assert_eq!(completed["event_data"]["stop_reason"], "validation_passed", "{completed}");
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["code_committed"], true, "{completed}");
        assert_eq!(
            completed["event_data"]["validation_passed"], true,
            "reported once it is known: {completed}"
        );
        let log = fixture.log().await;
        let count = |event_type: &str| log.iter().filter(|event| event["event_type"] == event_type).count();
        assert_eq!(count("continuous.started"), 1);
        assert!(count("iteration.started") >= 3, "several iterations: {:?}", super::event_types(&log));
        assert!(count("iteration.validation") >= 2);
        assert_eq!(
            count("iteration.started"),
            count("iteration.completed"),
            "each started iteration is completed"
        );
    });
}

#[test]
fn task_with_failing_tests_fails_validation() {
    offline(async {
        let fixture = Fixture::new(Script::new().always("", Reply::text("Done, I think."))).await;
        let _worker = fixture
            .start_worker(&[("TASK_DESCRIPTION", "do it"), ("TEST_COMMAND", "echo 2 tests failed; exit 3")]);
        let failed = fixture.wait_for_event("agent.failed").await;
        assert_eq!(failed["event_data"]["stop_reason"], "validation_failed", "{failed}");
        assert!(failed["event_data"]["error"].as_str().unwrap().contains("2 tests failed"), "{failed}");
    });
}

#[test]
fn task_completes_only_after_its_background_commands() {
    offline(async {
        let command = json!({"command": GATED, "description": "Build", "run_in_background": true});
        let script = Script::new()
            .when("build it", Reply::tool("Bash", command))
            .when("running in background", Reply::text("It builds."))
            .always("", Reply::text("It is built."));
        let fixture = Fixture::new(script).await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "build it")]);
        fixture.wait_for_event("agent.turn_completed").await;
        assert!(data_of::<AgentCompleted>(&fixture.log().await).is_empty(), "the build is still running");
        fixture.open_gate();
        let completed = fixture.wait_for_event("agent.completed").await;
        assert_eq!(completed["event_data"]["final_output"], "It is built.");
        let log = fixture.log().await;
        let turns = log.iter().filter(|event| event["event_type"] == "agent.turn_completed").count();
        assert_eq!(turns, 2);
    });
}
