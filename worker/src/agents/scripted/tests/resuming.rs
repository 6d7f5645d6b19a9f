use super::super::transcript::path_of;
use super::kit::{Place, Playing, bash, entries, file, find, story, text, word};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

/// What the steps left behind, in order.
fn steps(kept: &[Value]) -> Vec<String> {
    let told = kept.iter().filter(|entry| entry["scriptNext"].is_u64() && entry["uuid"].is_string());
    told.map(|entry| {
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
    let place = Place::new();
    let script = place.script(&many(20));
    let mut arguments = place.arguments(&script);
    for (round, frames) in kills.iter().enumerate() {
        if place.transcript().iter().any(|entry| entry["scriptTurnEnd"] == true) {
            break;
        }
        let mut playing = Playing::start(arguments);
        if round == 0 {
            playing.say("go").await;
            playing.until(|frame| word(frame) == "started").await;
        }
        for _ in 0..*frames {
            if playing.next().await.is_none_or(|frame| frame["type"] == "result") {
                break;
            }
        }
        playing.kill().await;
        arguments = place.resumed(&script);
    }
    let playing = Playing::start(arguments);
    let (_, code) = playing.close().await;
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
    let kept = place.transcript();
    assert_eq!(steps(&kept), expected, "killed after {kills:?}");
    let ends: Vec<_> = kept.iter().filter(|entry| entry["scriptTurnEnd"] == true).collect();
    assert_eq!(ends.len(), 1, "killed after {kills:?}");
    // One chain from the first to the last.
    let linked: Vec<_> = kept.iter().filter(|entry| entry["uuid"].is_string()).collect();
    assert!(linked.windows(2).all(|pair| pair[1]["parentUuid"] == pair[0]["uuid"]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_step_is_written_once_however_often_it_is_killed(kills in prop::collection::vec(0..150_usize, 1..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(killed_and_resumed(&kills));
    }
}

#[tokio::test]
async fn a_tool_without_an_answer_runs_again_under_its_name() {
    let place = Place::new();
    let gate = place.cwd().join("gate");
    let script =
        place.script(&[bash(&format!("until [ -e {} ]; do sleep 0.01; done", gate.display())), text("b")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    let frames = playing.until(|frame| word(frame) == "uses Bash").await;
    let id = frames.last().unwrap()["message"]["content"][0]["id"].clone();
    playing.kill().await;
    std::fs::write(gate, "").unwrap();
    let mut arguments = place.resumed(&script);
    arguments.resume_reason = Some("worker_restarted".to_owned());
    let mut playing = Playing::start(arguments);
    let frames = playing.turn().await;
    assert_eq!(story(&frames), "started, system/init, answered, says text, result completed, completed");
    assert_eq!(find(&frames, "user")["message"]["content"][0]["tool_use_id"], id);
    assert_eq!(find(&frames, "result")["resume_reason"], "worker_restarted");
}

#[tokio::test]
async fn a_resumed_session_waits_unless_it_is_told_to_go_on() {
    let place = Place::new();
    let script = place.script(&[text("a"), json!({"play": "crash"}), text("b")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    assert_eq!(playing.left().await.1, 137);
    let mut arguments = place.resumed(&script);
    arguments.resume_interrupted_turn = false;
    let mut playing = Playing::start(arguments.clone());
    playing.say("again").await;
    assert_eq!(find(&playing.turn().await, "result")["result"], "b");
    playing.kill().await;
    let (frames, code) = Playing::start(arguments).close().await;
    assert_eq!((story(&frames), code), (String::new(), 0));
}

#[tokio::test]
async fn cost_goes_on_and_a_fork_leaves_the_old_session_alone() {
    let place = Place::new();
    let script = place.script(&[text("a"), json!({"play": "turn_end"}), text("b")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    playing.turn().await;
    playing.close().await;
    let before = place.transcript();
    let mut arguments = place.resumed(&script);
    arguments.fork = true;
    let fork = Uuid::new_v4();
    arguments.session = Some(fork);
    let mut playing = Playing::start(arguments);
    playing.say("go on").await;
    let frames = playing.turn().await;
    let result = find(&frames, "result");
    assert_eq!((&result["total_cost_usd"], &result["result_index"]), (&json!(0.0016), &json!(1)));
    assert_eq!(result["session_id"], fork.to_string());
    assert_eq!(place.transcript(), before);
    let copied = entries(&path_of(&place.folder.path().join("config"), &place.cwd(), fork));
    assert!(copied.len() > before.len());
    assert!(copied.iter().all(|entry| entry["sessionId"] == fork.to_string()));
}

#[tokio::test]
async fn sessions_that_are_not_there_or_taken_are_refused() {
    let place = Place::new();
    let script = place.script(&[text("a")]);
    assert_eq!(Playing::start(place.resumed(&script)).left().await.1, 1);
    Playing::start(place.arguments(&script)).close().await;
    assert_eq!(Playing::start(place.arguments(&script)).left().await.1, 1);
}

#[tokio::test]
async fn a_last_line_that_was_cut_is_forgotten() {
    let place = Place::new();
    let script = place.script(&[text("a"), json!({"play": "crash"}), text("b")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    playing.left().await;
    let path = path_of(&place.folder.path().join("config"), &place.cwd(), place.session);
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"type\":\"assis");
    std::fs::write(&path, text).unwrap();
    let mut playing = Playing::start(place.resumed(&script));
    assert_eq!(find(&playing.turn().await, "result")["result"], "b");
    assert!(place.transcript().len() > 3);
}

#[tokio::test]
async fn two_thousand_steps_are_played_to_the_end() {
    let place = Place::new();
    let script = place.script(&many(1_000));
    let mut arguments = place.arguments(&script);
    arguments.pace = 1.0;
    let mut playing = Playing::start(arguments);
    playing.say("go").await;
    assert_eq!(playing.close().await.1, 0);
    let said =
        |entry: &&Value| entry["type"] == "assistant" && entry["message"]["content"][0]["type"] == "text";
    assert_eq!(place.transcript().iter().filter(said).count(), 1_000);
    assert!((0..1_000).all(|n| place.cwd().join(format!("file-{n}")).exists()));
}
