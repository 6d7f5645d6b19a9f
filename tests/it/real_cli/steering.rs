//! What is said while the agent works.

use super::turns::bash;
use super::{GATED, let_go, session, until_begun};
use kit::model::{Reply, Script};
use kit::offline::offline;

#[test]
fn what_is_said_during_a_tool_joins_the_running_turn() {
    offline(async {
        let script = Script::new()
            .when("take your time", bash(&format!("{GATED} echo slept"), "Wait"))
            .when("use blue instead", Reply::text("Blue it is."));
        let (home, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        let first = cli.say("take your time").await;
        until_begun(&mut cli, &home).await;
        let second = cli.say("use blue instead").await;
        cli.receipt(&second, "queued").await;
        let_go(&home);
        let result = cli.result().await;
        assert_eq!(result["result"], "Blue it is.", "{result}");
        let request = model.until_told("use blue instead").await;
        assert!(request.told.contains("slept"), "with the tool's result: {}", request.told);
        cli.receipt(&first, "completed").await;
        let (_, recording) = cli.close().await;
        recording.save("steer");
        let results = recording.told().filter(|frame| frame["type"] == "result").count();
        assert_eq!(results, 1, "one turn for both");
    });
}
