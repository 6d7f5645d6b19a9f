//! Messages during a turn.

use super::turns::bash;
use super::{GATED, open_gate, session, until_begun};
use kit::model::{Reply, Script};
use kit::offline::offline;

#[test]
fn message_during_a_tool_call_joins_the_running_turn() {
    offline(async {
        let script = Script::new()
            .when("take your time", bash(&format!("{GATED} echo slept"), "Wait"))
            .when("use blue instead", Reply::text("Blue it is."));
        let (home, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        let first = cli.send_message("take your time").await;
        until_begun(&mut cli, &home).await;
        let second = cli.send_message("use blue instead").await;
        cli.receipt(&second, "queued").await;
        open_gate(&home);
        let result = cli.result().await;
        assert_eq!(result["result"], "Blue it is.", "{result}");
        let request = model.until_prompted("use blue instead").await;
        assert!(request.prompt.contains("slept"), "together with the tool result: {}", request.prompt);
        cli.receipt(&first, "completed").await;
        let (_, recording) = cli.close().await;
        recording.save("steer");
        let results = recording.output().filter(|frame| frame["type"] == "result").count();
        assert_eq!(results, 1, "one turn for both messages");
    });
}
