use super::support::{Client, Fixture, bash, file, find, label, summary, text};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const HELLO: &str = "queued, started, system/init, replay, writes thinking, writes text, uses TodoWrite, succeeded, \
    uses Write, succeeded, uses TodoWrite, succeeded, uses Write, succeeded, uses TodoWrite, succeeded, writes text, \
    uses Bash, failed, writes thinking, writes text, uses TodoWrite, succeeded, uses Read, succeeded, uses Edit, succeeded, \
    uses Bash, succeeded, uses TodoWrite, succeeded, writes text, result completed, completed";

#[tokio::test]
async fn hello_script_produces_the_frames_of_the_cli() {
    let fixture = Fixture::new();
    let mut client = Client::start(fixture.arguments("hello"));
    client.request("req_1", json!({"subtype": "initialize", "hooks": null})).await;
    let response = client.next().await.unwrap();
    assert_eq!(response["response"]["request_id"], "req_1");
    assert_eq!(response["response"]["subtype"], "success");
    let uuid = client.send_message("please").await;
    let frames = client.finish_turn().await;
    assert_eq!(summary(&frames), HELLO);
    let result = find(&frames, "result");
    assert_eq!(result["user_message_uuids"], json!([uuid]));
    assert_eq!(result["total_cost_usd"], 0.0124);
    assert!(result["result"].as_str().unwrap().starts_with("All four cases pass"));
    let edited = frames.iter().find(|frame| frame["tool_use_result"]["oldString"].is_string()).unwrap();
    let hunk = &edited["tool_use_result"]["structuredPatch"][0];
    assert_eq!((&hunk["oldStart"], &hunk["oldLines"], &hunk["newLines"]), (&json!(1), &json!(10), &json!(7)));
    assert_eq!(client.close().await.1, 0);
}

#[tokio::test]
async fn messages_are_streamed_block_by_block() {
    let fixture = Fixture::new();
    let script =
        fixture.script(&[json!({"script": "words", "word_ms": 1}), text("two words"), bash("echo hi")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    let frames = client.finish_turn().await;
    let labels: Vec<String> = frames.iter().map(label).filter(|label| label != "transcript_mirror").collect();
    assert_eq!(
        labels.join(", "),
        "queued, started, system/init, message_start, content_block_start, content_block_delta, \
         content_block_delta, replay, writes text, content_block_stop, content_block_start, content_block_delta, \
         uses Bash, content_block_stop, message_delta, message_stop, succeeded, result completed, completed"
    );
    let blocks: Vec<_> = frames.iter().filter(|frame| frame["type"] == "assistant").collect();
    assert_eq!(blocks[0]["message"]["id"], blocks[1]["message"]["id"]);
    let result = frames.iter().find(|frame| label(frame) == "succeeded").unwrap();
    assert_eq!(result["tool_use_result"]["stdout"], "hi");
}

#[tokio::test]
async fn transcript_entries_share_ids_with_frames() {
    let fixture = Fixture::new();
    let script = fixture.script(&[text("a"), file("b"), text("c")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    let frames = client.finish_turn().await;
    let frame_ids: Vec<_> = frames
        .iter()
        .filter(|frame| ["user", "assistant"].contains(&frame["type"].as_str().unwrap()))
        .map(|frame| frame["uuid"].clone())
        .collect();
    let entries = fixture.transcript();
    let entry_ids: Vec<_> =
        entries.iter().filter(|entry| entry["uuid"].is_string()).map(|entry| entry["uuid"].clone()).collect();
    assert_eq!(frame_ids, entry_ids);
    let mirrored: Vec<_> =
        frames.iter().filter_map(|frame| frame["entries"].as_array()).flatten().cloned().collect();
    assert_eq!(mirrored, entries);
}

#[tokio::test]
async fn each_message_starts_one_turn() {
    let fixture = Fixture::new();
    let script = fixture.script(&[
        text("one"),
        json!({"play": "turn_end"}),
        json!({"play": "ask", "text": "who?"}),
        text("you are ${message}"),
        json!({"play": "fail", "error": "API Error: no", "status": 500}),
    ]);
    let mut client = Client::start(fixture.arguments(&script));
    let mut results = Vec::new();
    for message in ["go", "go on", "Kim", "more"] {
        client.send_message(message).await;
        let frames = client.finish_turn().await;
        results.push(find(&frames, "result").clone());
    }
    assert_eq!(results[0]["result"], "one");
    assert_eq!(results[1]["result"], "who?");
    assert_eq!((&results[2]["is_error"], &results[2]["api_error_status"]), (&json!(true), &json!(500)));
    assert!(fixture.transcript().iter().any(|entry| entry["message"]["content"][0]["text"] == "you are Kim"));
    assert!(results[3]["result"].as_str().unwrap().starts_with("The script is finished"));
    assert!((results[3]["total_cost_usd"].as_f64().unwrap() - 0.0032).abs() < 1e-9);
    assert_eq!(client.close().await.1, 0);
}

#[tokio::test]
async fn exit_code_comes_from_the_last_result_or_the_script() {
    let fixture = Fixture::new();
    let script =
        fixture.script(&[json!({"play": "fail", "error": "no"}), json!({"play": "exit", "code": 7})]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    assert_eq!(client.close().await.1, 1);
    let mut client = Client::start(fixture.resumed(&script));
    client.send_message("go").await;
    assert_eq!(client.wait_for_exit().await.1, 7);
}

#[tokio::test]
async fn finished_background_task_starts_a_turn() {
    let fixture = Fixture::new();
    let gate = fixture.cwd().join("gate");
    let command = format!("until [ -e {} ]; do sleep 0.01; done; echo built", gate.display());
    let script = fixture.script(&[json!({"play": "background", "command": command}), text("started")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    let frames = client.finish_turn().await;
    assert_eq!(
        summary(&frames),
        "queued, started, system/init, replay, uses Bash, system/task_started, system/background_tasks_changed, \
         succeeded, writes text, result completed, completed"
    );
    std::fs::write(gate, "").unwrap();
    let frames = client.finish_turn().await;
    assert_eq!(
        summary(&frames),
        "system/task_notification, system/background_tasks_changed, started, system/init, replay, writes text, \
         result completed, completed"
    );
}

#[tokio::test]
async fn listen_serves_a_web_page() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let fixture = Fixture::new();
    let script = fixture.script(&[json!({"play": "listen", "seconds": 30, "port": port})]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    client.finish_turn().await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    assert!(page.contains("Hello from the sandbox"), "{page}");
}

#[tokio::test]
async fn turn_and_budget_limits_end_a_turn() {
    let fixture = Fixture::new();
    let script = fixture.script(&[bash("true"), bash("true"), text("never")]);
    let mut arguments = fixture.arguments(&script);
    arguments.max_turns = Some(2);
    arguments.max_budget_usd = Some(0.001);
    let mut client = Client::start(arguments);
    client.send_message("go").await;
    assert_eq!(find(&client.finish_turn().await, "result")["subtype"], "error_max_turns");
    client.send_message("go").await;
    assert_eq!(find(&client.finish_turn().await, "result")["subtype"], "error_max_budget_usd");
}

#[tokio::test]
async fn sub_agent_has_its_own_transcript() {
    let fixture = Fixture::new();
    let task = json!({"type": "tool_use", "name": "Task", "result": "found it",
        "input": {"description": "look", "prompt": "look for it"},
        "steps": [text("looking"), bash("echo here")]});
    let script = fixture.script(&[task, text("done")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    let frames = client.finish_turn().await;
    assert_eq!(
        summary(&frames),
        "queued, started, system/init, replay, uses Task, system/task_started, note, writes text, uses Bash, succeeded, \
         writes text, system/task_notification, succeeded, writes text, result completed, completed"
    );
    let id = &find(&frames, "assistant")["message"]["content"][0]["id"];
    let inside: Vec<_> = frames.iter().filter(|frame| frame["parent_tool_use_id"] == *id).collect();
    assert_eq!(inside.len(), 5);
    let paths = frames.iter().filter_map(|frame| frame["filePath"].as_str());
    let sub_agent_path = paths.into_iter().find(|path| path.contains("/subagents/agent-")).unwrap();
    let entries = super::support::entries(std::path::Path::new(sub_agent_path));
    assert_eq!(entries.len(), 5);
    assert!(entries.iter().all(|entry| entry["isSidechain"] == true));
    assert!(fixture.transcript().iter().all(|entry| entry["isSidechain"] != true));
}

#[tokio::test]
async fn command_may_leave_a_background_process() {
    let fixture = Fixture::new();
    // It runs as long as the file exists: until the fixture is dropped, whatever this test does.
    std::fs::write(fixture.cwd().join("running"), "").unwrap();
    let script = fixture.script(&[bash("(while [ -e running ]; do sleep 0.05; done) & echo started")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    // The background process ends only after this, so a player that waits for it would hang.
    let frames = client.finish_turn().await;
    let result = frames.iter().find(|frame| label(frame) == "succeeded").unwrap();
    assert_eq!(result["tool_use_result"]["stdout"], "started");
}
