//! Turns that are stopped.

use super::turns::bash;
use super::{GATED, session, until_begun};
use kit::claude::Cli;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;
use std::time::Duration;

fn talkative() -> Script {
    let long = "word ".repeat(400);
    Script::new()
        .when("talk", Reply::text(&long).slowly(Duration::from_millis(100)))
        .when("then this", Reply::text("I did the other thing."))
}

/// The agent is in the middle of a sentence, and something else waits.
async fn streaming_with_one_queued(cli: &mut Cli) -> (String, String) {
    let first = cli.say("talk").await;
    for _ in 0..3 {
        cli.until(|frame| frame["event"]["type"] == "content_block_delta").await;
    }
    let second = cli.say("then this").await;
    cli.receipt(&second, "queued").await;
    (first, second)
}

#[test]
fn an_interrupt_ends_the_turn_and_what_was_queued_begins() {
    offline(async {
        let (_home, _model, mut cli) = session(talkative(), &[]).await;
        let (_, second) = streaming_with_one_queued(&mut cli).await;
        let answer = cli.control(json!({"subtype": "interrupt"})).await;
        assert_eq!(answer["response"]["still_queued"], json!([second]), "{answer}");
        let result = cli.result().await;
        assert_eq!(result["subtype"], "error_during_execution", "{result}");
        assert_eq!(result["terminal_reason"], "aborted_streaming", "{result}");
        let result = cli.result().await;
        assert_eq!(result["result"], "I did the other thing.", "{result}");
        cli.receipt(&second, "completed").await;
        let (_, recording) = cli.close().await;
        recording.save("interrupt");
    });
}

#[test]
fn an_interrupt_that_cancels_leaves_nothing_to_do() {
    offline(async {
        let (_home, model, mut cli) = session(talkative(), &[]).await;
        let (_, second) = streaming_with_one_queued(&mut cli).await;
        let answer = cli.control(json!({"subtype": "interrupt", "cancel_queued": true})).await;
        assert_eq!(answer["response"]["cancelled"], json!([second]), "{answer}");
        let result = cli.result().await;
        assert_eq!(result["subtype"], "error_during_execution", "{result}");
        let (status, recording) = cli.close().await;
        recording.save("cancel_queued");
        assert!(!model.told().iter().any(|told| told.contains("then this")));
        assert_eq!(status.code(), Some(1), "the exit code tells how the last turn ended");
    });
}

#[test]
fn an_interrupt_stops_a_running_tool() {
    offline(async {
        let script = Script::new().when("wait", bash(&format!("{GATED} echo slept"), "Wait"));
        let (home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("wait").await;
        until_begun(&mut cli, &home).await;
        cli.control(json!({"subtype": "interrupt", "cancel_queued": true})).await;
        let result = cli.result().await;
        assert_eq!(result["terminal_reason"], "aborted_tools", "{result}");
        let (_, recording) = cli.close().await;
        recording.save("interrupt_tool");
    });
}

#[test]
fn an_interrupt_takes_an_open_question_back() {
    offline(async {
        let script = Script::new().when("wait", bash("touch file", "Touch"));
        let (home, _model, mut cli) = session(script, &[]).await;
        cli.say("wait").await;
        let asked = cli.permission().await;
        cli.ask(json!({"subtype": "interrupt", "cancel_queued": true})).await;
        let taken_back = cli.until(|frame| frame["type"] == "control_cancel_request").await;
        assert_eq!(taken_back["request_id"], asked["request_id"]);
        cli.result().await;
        assert!(!home.workspace.join("file").exists());
        let (_, recording) = cli.close().await;
        recording.save("interrupt_question");
    });
}
