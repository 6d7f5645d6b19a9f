//! What somebody sees who watches an agent work.

use super::{GATED, OPERATOR, Stage, command, of, text, turn_end};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A quarter of what is said: it takes three pieces at least.
const WORDS_PER_PIECE: usize = 15;

#[test]
fn text_is_heard_while_it_is_written_and_never_kept() {
    offline(async {
        let words: Vec<String> = (0..60).map(|n| format!("word-{n}")).collect();
        let said = words.join(" ");
        // The model goes on only when a piece of what it has said so far was shown.
        let gate = Arc::new(Semaphore::new(WORDS_PER_PIECE));
        let script = Script::new().when("tell me", Reply::text(&said).gated(gate.clone()));
        let stage = Stage::new(script).await;
        let mut socket = stage.plane.subscribed(OPERATOR, "entity_ids=box").await;
        let _worker = stage.worker(&[("TASK_DESCRIPTION", "tell me")]);
        let (mut pieces, mut heard) = (0, String::new());
        let message = loop {
            let frame = socket.hear().await;
            let payload = &frame["payload"];
            match frame["event_type"].as_str().unwrap() {
                "SANDBOX_AGENT_PARTIAL" => {
                    assert_eq!((&frame["seq"], &payload["kind"]), (&Value::Null, &"text".into()), "{frame}");
                    assert_eq!(payload["block"], 0, "{frame}");
                    assert_eq!(payload["offset"], heard.chars().count(), "nothing is missing: {frame}");
                    heard.push_str(payload["text"].as_str().unwrap());
                    pieces += 1;
                    gate.add_permits(WORDS_PER_PIECE);
                }
                "SANDBOX_AGENT_MESSAGE" => break payload["content"].as_str().unwrap().to_owned(),
                _ => {}
            }
        };
        assert_eq!(message, said);
        assert!(pieces >= 3, "it is shown while it is written, not in {pieces} pieces");
        assert!(!heard.is_empty() && message.starts_with(&heard), "{heard:?} is no beginning of {message:?}");
        stage.until_any("agent.completed").await;
        let log = stage.log().await;
        assert!(of(&log, "agent.partial").is_empty());
        assert_eq!(of(&log, "agent.message").len(), 1);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_working_agent_shows_signs_of_life_and_a_waiting_one_says_so() {
    let stage = Stage::new(Script::new()).await;
    let agent = stage.script(&[command(GATED), text("Done.")]);
    let _worker = stage.worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Take your time"),
        ("HEARTBEAT_INTERVAL", "1"),
    ]);
    stage.until_any("agent.tool_use").await;
    let beats = |shown: &Value| shown["heartbeats"]["count"].as_u64().unwrap();
    let first = stage.until_shown(|shown| shown["heartbeat_status"] == "working").await;
    let later = stage.until_shown(|shown| beats(shown) >= beats(&first) + 3).await;
    assert_eq!(later["heartbeat_status"], "working", "it goes on while a tool runs: {later}");
    stage.let_go();
    stage.until_any("agent.completed").await;
    stage.until_shown(|shown| shown["heartbeat_status"] == "waiting").await;
    let log = stage.log().await;
    assert!(of(&log, "agent.heartbeat").is_empty(), "they are counted, not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_the_agent_starts_is_noticed_at_its_port_and_its_end_too() {
    let stage = Stage::new(Script::new()).await;
    let serve = "python3 -c \"import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), \
                 h.SimpleHTTPRequestHandler); open('port', 'w').write(str(s.server_port)); s.serve_forever()\" \
                 > /dev/null 2>&1 & echo $! > id; until [ -s port ]; do sleep 0.05; done";
    let agent = stage.script(&[command(serve), turn_end(), command("kill $(cat id)"), text("Gone.")]);
    let _worker = stage.worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Serve")]);
    let ready = stage.until_any("preview.ready").await;
    let port = std::fs::read_to_string(stage.home.workspace.join("port")).unwrap();
    assert_eq!(ready["event_data"]["port"].to_string(), port, "{ready}");
    assert_eq!(ready["event_data"]["url"], format!("http://localhost:{port}"));
    stage.say("user_message", "stop it").await;
    let stopped = stage.until_any("preview.stopped").await;
    assert_eq!(stopped["event_data"]["port"], ready["event_data"]["port"]);
}
