//! What goes on after a turn has ended.

use super::session;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;

#[test]
fn a_task_in_the_background_starts_a_turn_when_it_ends() {
    offline(async {
        let command =
            json!({"command": "sleep 4; echo built", "description": "Build", "run_in_background": true});
        let script = Script::new()
            .when("build it", Reply::tool("Bash", command))
            .when("running in background", Reply::text("It builds."))
            .when("task-notification", Reply::text("It is built."));
        let (_home, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("build it").await;
        let result = cli.result().await;
        assert_eq!(result["result"], "It builds.", "{result}");
        let result = cli.result().await;
        assert_eq!(result["result"], "It is built.", "{result}");
        model.until_told("task-notification").await;
        let (_, recording) = cli.close().await;
        recording.save("background");
    });
}
