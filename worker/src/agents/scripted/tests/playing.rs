use super::kit::{Place, Playing, bash, file, find, story, text, word};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const HELLO: &str = "queued, started, system/init, replay, says thinking, says text, uses TodoWrite, answered, \
    uses Write, answered, uses TodoWrite, answered, uses Write, answered, uses TodoWrite, answered, says text, \
    uses Bash, failed, says thinking, says text, uses TodoWrite, answered, uses Read, answered, uses Edit, answered, \
    uses Bash, answered, uses TodoWrite, answered, says text, result completed, completed";

#[tokio::test]
async fn hello_is_told_as_the_cli_would() {
    let place = Place::new();
    let mut playing = Playing::start(place.arguments("hello"));
    playing.request("req_1", json!({"subtype": "initialize", "hooks": null})).await;
    let answer = playing.next().await.unwrap();
    assert_eq!(answer["response"]["request_id"], "req_1");
    assert_eq!(answer["response"]["subtype"], "success");
    let uuid = playing.say("please").await;
    let frames = playing.turn().await;
    assert_eq!(story(&frames), HELLO);
    let result = find(&frames, "result");
    assert_eq!(result["user_message_uuids"], json!([uuid]));
    assert_eq!(result["total_cost_usd"], 0.0124);
    assert!(result["result"].as_str().unwrap().starts_with("All four cases pass"));
    let edited = frames.iter().find(|frame| frame["tool_use_result"]["oldString"].is_string()).unwrap();
    let hunk = &edited["tool_use_result"]["structuredPatch"][0];
    assert_eq!((&hunk["oldStart"], &hunk["oldLines"], &hunk["newLines"]), (&json!(1), &json!(10), &json!(7)));
    assert_eq!(playing.close().await.1, 0);
}

#[tokio::test]
async fn a_message_is_streamed_and_told_block_by_block() {
    let place = Place::new();
    let script =
        place.script(&[json!({"script": "words", "word_ms": 1}), text("two words"), bash("echo hi")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    let frames = playing.turn().await;
    let words: Vec<String> = frames.iter().map(word).filter(|word| word != "transcript_mirror").collect();
    assert_eq!(
        words.join(", "),
        "queued, started, system/init, message_start, content_block_start, content_block_delta, \
         content_block_delta, replay, says text, content_block_stop, content_block_start, content_block_delta, \
         uses Bash, content_block_stop, message_delta, message_stop, answered, result completed, completed"
    );
    let said: Vec<_> = frames.iter().filter(|frame| frame["type"] == "assistant").collect();
    assert_eq!(said[0]["message"]["id"], said[1]["message"]["id"]);
    let answered = frames.iter().find(|frame| word(frame) == "answered").unwrap();
    assert_eq!(answered["tool_use_result"]["stdout"], "hi");
}

#[tokio::test]
async fn an_entry_has_the_name_of_its_frame_and_is_mirrored() {
    let place = Place::new();
    let script = place.script(&[text("a"), file("b"), text("c")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    let frames = playing.turn().await;
    let told: Vec<_> = frames
        .iter()
        .filter(|frame| ["user", "assistant"].contains(&frame["type"].as_str().unwrap()))
        .map(|frame| frame["uuid"].clone())
        .collect();
    let kept = place.transcript();
    let named: Vec<_> =
        kept.iter().filter(|entry| entry["uuid"].is_string()).map(|entry| entry["uuid"].clone()).collect();
    assert_eq!(told, named);
    let mirrored: Vec<_> =
        frames.iter().filter_map(|frame| frame["entries"].as_array()).flatten().cloned().collect();
    assert_eq!(mirrored, kept);
}

#[tokio::test]
async fn turns_questions_and_the_end_take_a_message_each() {
    let place = Place::new();
    let script = place.script(&[
        text("one"),
        json!({"play": "turn_end"}),
        json!({"play": "ask", "text": "who?"}),
        text("you are ${message}"),
        json!({"play": "fail", "error": "API Error: no", "status": 500}),
    ]);
    let mut playing = Playing::start(place.arguments(&script));
    let mut told = Vec::new();
    for said in ["go", "go on", "Kim", "more"] {
        playing.say(said).await;
        let frames = playing.turn().await;
        told.push(find(&frames, "result").clone());
    }
    assert_eq!(told[0]["result"], "one");
    assert_eq!(told[1]["result"], "who?");
    assert_eq!((&told[2]["is_error"], &told[2]["api_error_status"]), (&json!(true), &json!(500)));
    assert!(place.transcript().iter().any(|entry| entry["message"]["content"][0]["text"] == "you are Kim"));
    assert!(told[3]["result"].as_str().unwrap().starts_with("That was the whole script"));
    assert!((told[3]["total_cost_usd"].as_f64().unwrap() - 0.0032).abs() < 1e-9);
    assert_eq!(playing.close().await.1, 0);
}

#[tokio::test]
async fn the_exit_code_is_that_of_the_last_result_or_of_the_script() {
    let place = Place::new();
    let script = place.script(&[json!({"play": "fail", "error": "no"}), json!({"play": "exit", "code": 7})]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    assert_eq!(playing.close().await.1, 1);
    let mut playing = Playing::start(place.resumed(&script));
    playing.say("go").await;
    assert_eq!(playing.left().await.1, 7);
}

#[tokio::test]
async fn a_background_task_starts_a_turn_when_it_ends() {
    let place = Place::new();
    let gate = place.cwd().join("gate");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo built", gate.display());
    let script = place.script(&[json!({"play": "background", "command": command}), text("started")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    let frames = playing.turn().await;
    assert_eq!(
        story(&frames),
        "queued, started, system/init, replay, uses Bash, system/task_started, system/background_tasks_changed, \
         answered, says text, result completed, completed"
    );
    std::fs::write(gate, "").unwrap();
    let frames = playing.turn().await;
    assert_eq!(
        story(&frames),
        "system/task_notification, system/background_tasks_changed, started, system/init, replay, says text, \
         result completed, completed"
    );
}

#[tokio::test]
async fn a_page_is_served_for_the_preview() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = Place::new();
    let script = place.script(&[json!({"play": "listen", "seconds": 30, "port": port})]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    playing.turn().await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    assert!(page.contains("Hello from the sandbox"), "{page}");
}

#[tokio::test]
async fn limits_end_a_turn() {
    let place = Place::new();
    let script = place.script(&[bash("true"), bash("true"), text("never")]);
    let mut arguments = place.arguments(&script);
    arguments.max_turns = Some(2);
    arguments.max_budget_usd = Some(0.001);
    let mut playing = Playing::start(arguments);
    playing.say("go").await;
    assert_eq!(find(&playing.turn().await, "result")["subtype"], "error_max_turns");
    playing.say("go").await;
    assert_eq!(find(&playing.turn().await, "result")["subtype"], "error_max_budget_usd");
}

#[tokio::test]
async fn a_sub_agent_speaks_under_its_task_and_has_its_own_file() {
    let place = Place::new();
    let task = json!({"type": "tool_use", "name": "Task", "result": "found it",
        "input": {"description": "look", "prompt": "look for it"},
        "steps": [text("looking"), bash("echo here")]});
    let script = place.script(&[task, text("done")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    let frames = playing.turn().await;
    assert_eq!(
        story(&frames),
        "queued, started, system/init, replay, uses Task, system/task_started, note, says text, uses Bash, answered, \
         says text, system/task_notification, answered, says text, result completed, completed"
    );
    let id = &find(&frames, "assistant")["message"]["content"][0]["id"];
    let inside: Vec<_> = frames.iter().filter(|frame| frame["parent_tool_use_id"] == *id).collect();
    assert_eq!(inside.len(), 5);
    let own = frames.iter().filter_map(|frame| frame["filePath"].as_str());
    let own = own.into_iter().find(|path| path.contains("/subagents/agent-")).unwrap();
    let kept = super::kit::entries(std::path::Path::new(own));
    assert_eq!(kept.len(), 5);
    assert!(kept.iter().all(|entry| entry["isSidechain"] == true));
    assert!(place.transcript().iter().all(|entry| entry["isSidechain"] != true));
}

#[tokio::test]
async fn a_command_may_leave_a_server_behind() {
    let place = Place::new();
    let script = place.script(&[bash("(until [ -e go ]; do sleep 0.05; done) & echo started")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    // The server ends only afterwards, so a player that waited for it would never come to the end of its turn.
    let frames = playing.turn().await;
    let answered = frames.iter().find(|frame| word(frame) == "answered").unwrap();
    assert_eq!(answered["tool_use_result"]["stdout"], "started");
    std::fs::write(place.cwd().join("go"), "").unwrap();
}
