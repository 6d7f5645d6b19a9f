//! Live updates while an agent works: partial text, heartbeats and previews.

use super::{Fixture, GATED, OPERATOR, command, data_of, text, turn_end};
use contract::payloads::{AgentHeartbeat, AgentMessage, AgentPartial};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A quarter of the text, so it takes at least three chunks.
const WORDS_PER_CHUNK: usize = 15;

#[test]
fn partial_text_is_streamed_but_not_stored() {
    offline(async {
        let words: Vec<String> = (0..60).map(|n| format!("word-{n}")).collect();
        let full_text = words.join(" ");
        // The model continues only after the socket has received a chunk.
        let gate = Arc::new(Semaphore::new(WORDS_PER_CHUNK));
        let script = Script::new().when("tell me", Reply::text(&full_text).gated(gate.clone()));
        let fixture = Fixture::new(script).await;
        let mut socket = fixture.plane.subscribed(OPERATOR, "entity_ids=box").await;
        let _worker = fixture.start_worker(&[("TASK_DESCRIPTION", "tell me")]);
        let (mut chunks, mut received) = (0, String::new());
        let message = loop {
            let frame = socket.receive().await;
            let payload = &frame["payload"];
            match frame["event_type"].as_str().unwrap() {
                "SANDBOX_AGENT_PARTIAL" => {
                    assert_eq!((&frame["seq"], &payload["kind"]), (&Value::Null, &"text".into()), "{frame}");
                    assert_eq!(payload["block"], 0, "{frame}");
                    assert_eq!(payload["offset"], received.chars().count(), "no text is missing: {frame}");
                    received.push_str(payload["text"].as_str().unwrap());
                    chunks += 1;
                    gate.add_permits(WORDS_PER_CHUNK);
                }
                "SANDBOX_AGENT_MESSAGE" => break payload["content"].as_str().unwrap().to_owned(),
                _ => {}
            }
        };
        assert_eq!(message, full_text);
        assert!(chunks >= 3, "streamed in {chunks} chunks only");
        assert!(
            !received.is_empty() && message.starts_with(&received),
            "{received:?} is not a prefix of {message:?}"
        );
        fixture.wait_for_event("agent.completed").await;
        let log = fixture.log().await;
        assert!(data_of::<AgentPartial>(&log).is_empty());
        assert_eq!(data_of::<AgentMessage>(&log).len(), 1);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_report_working_and_waiting() {
    let fixture = Fixture::new(Script::new()).await;
    let agent = fixture.script(&[command(GATED), text("Done.")]);
    let _worker = fixture.start_worker(&[
        ("AGENT", &agent),
        ("TASK_DESCRIPTION", "Take your time"),
        ("HEARTBEAT_INTERVAL", "1"),
    ]);
    fixture.wait_for_event("agent.tool_use").await;
    let heartbeats = |sandbox: &Value| sandbox["heartbeats"]["count"].as_u64().unwrap();
    let first = fixture.wait_for_sandbox(|sandbox| sandbox["heartbeat_status"] == "working").await;
    let later = fixture.wait_for_sandbox(|sandbox| heartbeats(sandbox) >= heartbeats(&first) + 3).await;
    assert_eq!(later["heartbeat_status"], "working", "heartbeats continue while a tool runs: {later}");
    fixture.open_gate();
    fixture.wait_for_event("agent.completed").await;
    fixture.wait_for_sandbox(|sandbox| sandbox["heartbeat_status"] == "waiting").await;
    let log = fixture.log().await;
    assert!(data_of::<AgentHeartbeat>(&log).is_empty(), "heartbeats are counted, not logged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preview_events_follow_the_agents_server() {
    let fixture = Fixture::new(Script::new()).await;
    let serve = "python3 -c \"import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), \
                 h.SimpleHTTPRequestHandler); open('port', 'w').write(str(s.server_port)); s.serve_forever()\" \
                 > /dev/null 2>&1 & echo $! > id; until [ -s port ]; do sleep 0.05; done";
    let agent = fixture.script(&[command(serve), turn_end(), command("kill $(cat id)"), text("Stopped.")]);
    let _worker = fixture.start_worker(&[("AGENT", &agent), ("TASK_DESCRIPTION", "Serve")]);
    let ready = fixture.wait_for_event("preview.ready").await;
    let port = std::fs::read_to_string(fixture.home.workspace.join("port")).unwrap();
    assert_eq!(ready["event_data"]["port"].to_string(), port, "{ready}");
    // The agent's loopback is its own. A port of the machine leads to it, and the agent does not choose which one.
    let forwarded = ready["event_data"]["forwarded_port"].as_u64().unwrap();
    assert_ne!(forwarded.to_string(), port);
    assert_eq!(ready["event_data"]["url"], format!("http://localhost:{forwarded}"));
    let page = reqwest::get(format!("http://127.0.0.1:{forwarded}/")).await.unwrap();
    assert!(page.text().await.unwrap().contains("Directory listing"));
    assert!(
        reqwest::get(format!("http://127.0.0.1:{port}/")).await.is_err(),
        "the agent's own port is not one of the machine"
    );
    fixture.send_message("user_message", "stop it").await;
    let stopped = fixture.wait_for_event("preview.stopped").await;
    assert_eq!(stopped["event_data"]["port"], ready["event_data"]["port"]);
    assert!(
        reqwest::get(format!("http://127.0.0.1:{forwarded}/")).await.is_err(),
        "the forwarded port is closed"
    );
}
