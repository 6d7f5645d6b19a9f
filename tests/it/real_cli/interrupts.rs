//! Interrupted turns.

use super::turns::bash;
use super::{GATED, session, until_begun};
use kit::claude::Cli;
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::json;
use std::time::Duration;

fn long_reply_script() -> Script {
    let long = "word ".repeat(400);
    Script::new()
        .when("talk", Reply::text(&long).with_word_delay(Duration::from_millis(100)))
        .when("then this", Reply::text("I did the other thing."))
}

/// Starts a long reply and queues a second message. Returns the ids of both messages.
async fn streaming_with_one_queued(cli: &mut Cli) -> (String, String) {
    let first = cli.send_message("talk").await;
    for _ in 0..3 {
        cli.until(|frame| frame["event"]["type"] == "content_block_delta").await;
    }
    let second = cli.send_message("then this").await;
    cli.receipt(&second, "queued").await;
    (first, second)
}

#[test]
fn interrupt_ends_the_turn_and_starts_the_queued_message() {
    offline(async {
        let (_home, _model, mut cli) = session(long_reply_script(), &[]).await;
        let (_, second) = streaming_with_one_queued(&mut cli).await;
        let response = cli.control(json!({"subtype": "interrupt"})).await;
        assert_eq!(response["response"]["still_queued"], json!([second]), "{response}");
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
fn interrupt_with_cancel_queued_discards_queued_messages() {
    offline(async {
        let (_home, model, mut cli) = session(long_reply_script(), &[]).await;
        let (_, second) = streaming_with_one_queued(&mut cli).await;
        let response = cli.control(json!({"subtype": "interrupt", "cancel_queued": true})).await;
        assert_eq!(response["response"]["cancelled"], json!([second]), "{response}");
        let result = cli.result().await;
        assert_eq!(result["subtype"], "error_during_execution", "{result}");
        let (status, recording) = cli.close().await;
        recording.save("cancel_queued");
        assert!(!model.prompts().iter().any(|prompt| prompt.contains("then this")));
        assert_eq!(status.code(), Some(1), "the exit code reports the result of the last turn");
    });
}

#[test]
fn interrupt_stops_a_running_tool() {
    offline(async {
        let script = Script::new().when("wait", bash(&format!("{GATED} echo slept"), "Wait"));
        let (home, _model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.send_message("wait").await;
        until_begun(&mut cli, &home).await;
        cli.control(json!({"subtype": "interrupt", "cancel_queued": true})).await;
        let result = cli.result().await;
        assert_eq!(result["terminal_reason"], "aborted_tools", "{result}");
        let (_, recording) = cli.close().await;
        recording.save("interrupt_tool");
    });
}

#[test]
fn interrupt_cancels_a_pending_permission_request() {
    offline(async {
        let script = Script::new().when("wait", bash("touch file", "Touch"));
        let (home, _model, mut cli) = session(script, &[]).await;
        cli.send_message("wait").await;
        let request = cli.permission().await;
        cli.send_control_request(json!({"subtype": "interrupt", "cancel_queued": true})).await;
        let cancelled = cli.until(|frame| frame["type"] == "control_cancel_request").await;
        assert_eq!(cancelled["request_id"], request["request_id"]);
        cli.result().await;
        assert!(!home.workspace.join("file").exists());
        let (_, recording) = cli.close().await;
        recording.save("interrupt_question");
    });
}
