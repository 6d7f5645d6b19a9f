use super::super::transcript::path_of;
use super::support::{Client, Fixture, bash, entries, file, find, label, summary, text};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

/// The entries of the steps, in order.
fn steps(transcript: &[Value]) -> Vec<String> {
    let written = transcript.iter().filter(|entry| entry["scriptNext"].is_u64() && entry["uuid"].is_string());
    written
        .map(|entry| {
            let block = &entry["message"]["content"][0];
            format!("{} {}", block["type"].as_str().unwrap(), entry["scriptNext"])
        })
        .collect()
}

fn many(times: usize) -> Vec<Value> {
    vec![
        json!({"play": "repeat", "times": times, "steps": [
            text("step ${i}"), file("file-${i}"), {"play": "wait", "ms": 1}]}),
        json!({"play": "turn_end"}),
    ]
}

async fn killed_and_resumed(kills: &[usize]) {
    let fixture = Fixture::new();
    let script = fixture.script(&many(20));
    let mut arguments = fixture.arguments(&script);
    for (round, frames) in kills.iter().enumerate() {
        if fixture.transcript().iter().any(|entry| entry["scriptTurnEnd"] == true) {
            break;
        }
        let mut client = Client::start(arguments);
        if round == 0 {
            client.send_message("go").await;
            client.until(|frame| label(frame) == "started").await;
        }
        for _ in 0..*frames {
            if client.next().await.is_none_or(|frame| frame["type"] == "result") {
                break;
            }
        }
        client.kill().await;
        arguments = fixture.resumed(&script);
    }
    let client = Client::start(arguments);
    let (_, code) = client.close().await;
    assert_eq!(code, 0);
    let expected: Vec<String> = (0..20)
        .flat_map(|round| {
            let step = round * 3;
            [
                format!("text {}", step + 1),
                format!("tool_use {}", step + 1),
                format!("tool_result {}", step + 2),
            ]
        })
        .collect();
    let transcript = fixture.transcript();
    assert_eq!(steps(&transcript), expected, "killed after {kills:?}");
    let ends: Vec<_> = transcript.iter().filter(|entry| entry["scriptTurnEnd"] == true).collect();
    assert_eq!(ends.len(), 1, "killed after {kills:?}");
    // The entries form a single chain.
    let linked: Vec<_> = transcript.iter().filter(|entry| entry["uuid"].is_string()).collect();
    assert!(linked.windows(2).all(|pair| pair[1]["parentUuid"] == pair[0]["uuid"]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_step_is_written_once_across_kills(kills in prop::collection::vec(0..150_usize, 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(killed_and_resumed(&kills));
    }
}

#[tokio::test]
async fn tool_without_a_result_runs_again_with_the_same_id() {
    let fixture = Fixture::new();
    let gate = fixture.cwd().join("gate");
    let script =
        fixture.script(&[bash(&format!("until [ -e {} ]; do sleep 0.01; done", gate.display())), text("b")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    let frames = client.until(|frame| label(frame) == "uses Bash").await;
    let id = frames.last().unwrap()["message"]["content"][0]["id"].clone();
    client.kill().await;
    std::fs::write(gate, "").unwrap();
    let mut arguments = fixture.resumed(&script);
    arguments.resume_reason = Some("worker_restarted".to_owned());
    let mut client = Client::start(arguments);
    let frames = client.finish_turn().await;
    assert_eq!(summary(&frames), "started, system/init, succeeded, writes text, result completed, completed");
    assert_eq!(find(&frames, "user")["message"]["content"][0]["tool_use_id"], id);
    assert_eq!(find(&frames, "result")["resume_reason"], "worker_restarted");
}

#[tokio::test]
async fn resumed_session_waits_without_resume_interrupted_turn() {
    let fixture = Fixture::new();
    let script = fixture.script(&[text("a"), json!({"play": "crash"}), text("b")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    assert_eq!(client.wait_for_exit().await.1, 137);
    let mut arguments = fixture.resumed(&script);
    arguments.resume_interrupted_turn = false;
    let mut client = Client::start(arguments.clone());
    client.send_message("again").await;
    assert_eq!(find(&client.finish_turn().await, "result")["result"], "b");
    client.kill().await;
    let (frames, code) = Client::start(arguments).close().await;
    assert_eq!((summary(&frames), code), (String::new(), 0));
}

#[tokio::test]
async fn fork_continues_the_cost_and_leaves_the_original_unchanged() {
    let fixture = Fixture::new();
    let script = fixture.script(&[text("a"), json!({"play": "turn_end"}), text("b")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    client.finish_turn().await;
    client.close().await;
    let before = fixture.transcript();
    let mut arguments = fixture.resumed(&script);
    arguments.fork = true;
    let fork = Uuid::new_v4();
    arguments.session = Some(fork);
    let mut client = Client::start(arguments);
    client.send_message("go on").await;
    let frames = client.finish_turn().await;
    let result = find(&frames, "result");
    assert_eq!((&result["total_cost_usd"], &result["result_index"]), (&json!(0.0016), &json!(1)));
    assert_eq!(result["session_id"], fork.to_string());
    assert_eq!(fixture.transcript(), before);
    let copied = entries(&path_of(&fixture.folder.path().join("config"), &fixture.cwd(), fork));
    assert!(copied.len() > before.len());
    assert!(copied.iter().all(|entry| entry["sessionId"] == fork.to_string()));
}

#[tokio::test]
async fn missing_or_existing_session_id_is_rejected() {
    let fixture = Fixture::new();
    let script = fixture.script(&[text("a")]);
    assert_eq!(Client::start(fixture.resumed(&script)).wait_for_exit().await.1, 1);
    Client::start(fixture.arguments(&script)).close().await;
    assert_eq!(Client::start(fixture.arguments(&script)).wait_for_exit().await.1, 1);
}

#[tokio::test]
async fn truncated_last_line_is_removed() {
    let fixture = Fixture::new();
    let script = fixture.script(&[text("a"), json!({"play": "crash"}), text("b")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    client.wait_for_exit().await;
    let path = path_of(&fixture.folder.path().join("config"), &fixture.cwd(), fixture.session);
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"type\":\"assis");
    std::fs::write(&path, text).unwrap();
    let mut client = Client::start(fixture.resumed(&script));
    assert_eq!(find(&client.finish_turn().await, "result")["result"], "b");
    assert!(fixture.transcript().len() > 3);
}

#[tokio::test]
async fn long_script_is_played_to_the_end() {
    let fixture = Fixture::new();
    let script = fixture.script(&many(1_000));
    let mut arguments = fixture.arguments(&script);
    arguments.pace = 1.0;
    let mut client = Client::start(arguments);
    client.send_message("go").await;
    assert_eq!(client.close().await.1, 0);
    let is_text =
        |entry: &&Value| entry["type"] == "assistant" && entry["message"]["content"][0]["type"] == "text";
    assert_eq!(fixture.transcript().iter().filter(is_text).count(), 1_000);
    assert!((0..1_000).all(|n| fixture.cwd().join(format!("file-{n}")).exists()));
}
