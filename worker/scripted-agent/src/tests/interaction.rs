use super::support::{Client, Fixture, bash, file, find, label, summary, text};
use serde_json::{Value, json};

/// A tool that runs until the test creates a file.
fn blocked_tool(fixture: &Fixture) -> Value {
    bash(&format!("until [ -e {} ]; do sleep 0.01; done; echo through", fixture.cwd().join("gate").display()))
}

fn unblock(fixture: &Fixture) {
    std::fs::write(fixture.cwd().join("gate"), "").unwrap();
}

#[tokio::test]
async fn message_during_a_tool_is_delivered_after_it() {
    let fixture = Fixture::new();
    let script = fixture.script(&[blocked_tool(&fixture), text("done")]);
    let mut client = Client::start(fixture.arguments(&script));
    let first = client.send_message("go").await;
    client.until(|frame| label(frame) == "uses Bash").await;
    let second = client.send_message("use tabs").await;
    client.until(|frame| label(frame) == "queued").await;
    unblock(&fixture);
    let frames = client.finish_turn().await;
    assert_eq!(
        summary(&frames),
        "succeeded, replay, started, writes text, completed, writes text, result completed, completed"
    );
    assert_eq!(find(&frames, "assistant")["message"]["content"][0]["text"], "(Received: use tabs)");
    assert_eq!(find(&frames, "command_lifecycle")["command_uuid"], second.as_str());
    assert_eq!(find(&frames, "result")["user_message_uuids"], json!([first, second]));
    let entries = fixture.transcript();
    let steer = entries.iter().find(|entry| entry["type"] == "attachment").unwrap();
    assert_eq!(steer["attachment"]["source_uuid"], second.as_str());
}

#[tokio::test]
async fn message_during_text_starts_its_own_turn() {
    let fixture = Fixture::new();
    let mut arguments = fixture.arguments(&fixture.script(&[
        json!({"script": "slow", "word_ms": 20}),
        text(&"label ".repeat(20)),
        json!({"play": "turn_end"}),
        text("second"),
    ]));
    arguments.pace = 1.0;
    let mut client = Client::start(arguments);
    client.send_message("go").await;
    client.until(|frame| label(frame) == "content_block_delta").await;
    client.send_message("and then").await;
    assert_eq!(
        summary(&client.finish_turn().await),
        "queued, replay, writes text, result completed, completed"
    );
    let frames = client.finish_turn().await;
    assert_eq!(summary(&frames), "started, system/init, replay, writes text, result completed, completed");
    assert_eq!(find(&frames, "result")["result"], "second");
}

/// Streams a long text, queues a message, and interrupts.
async fn interrupt_while_streaming(request: Value) -> (Client, Vec<Value>, String) {
    let fixture = Fixture::new();
    let mut arguments = fixture.arguments(&fixture.script(&[
        json!({"script": "slow", "word_ms": 10_000}),
        text("one two three"),
        text("more"),
    ]));
    arguments.pace = 1.0;
    let mut client = Client::start(arguments);
    client.send_message("go").await;
    client.until(|frame| label(frame) == "content_block_delta").await;
    let queued = client.send_message("queued").await;
    client.until(|frame| label(frame) == "queued").await;
    client.request("stop", request).await;
    let frames = client.finish_turn().await;
    let message = find(&frames, "assistant");
    assert_eq!(
        (&message["aborted"], &message["message"]["content"][0]["text"]),
        (&json!(true), &json!("one "))
    );
    assert_eq!(find(&frames, "result")["subtype"], "error_during_execution");
    (client, frames, queued)
}

#[tokio::test]
async fn interrupt_stops_the_turn_and_keeps_the_queue() {
    let (mut client, frames, queued) = interrupt_while_streaming(json!({"subtype": "interrupt"})).await;
    assert_eq!(
        summary(&frames),
        "control_response, replay, writes text, note, result aborted_streaming, cancelled"
    );
    let response = &find(&frames, "control_response")["response"]["response"];
    assert_eq!(response, &json!({"still_queued": [queued]}));
    assert_eq!(client.next().await.unwrap()["command_uuid"], queued.as_str());
    client.kill().await;
}

#[tokio::test]
async fn interrupt_with_cancel_queued_clears_the_queue() {
    let request = json!({"subtype": "interrupt", "cancel_queued": true});
    let (client, frames, queued) = interrupt_while_streaming(request).await;
    assert_eq!(
        summary(&frames),
        "cancelled, control_response, replay, writes text, note, result aborted_streaming, cancelled"
    );
    let response = &find(&frames, "control_response")["response"]["response"];
    assert_eq!(response, &json!({"still_queued": [], "cancelled": [queued]}));
    let (rest, code) = client.close().await;
    assert_eq!((summary(&rest), code), (String::new(), 1));
}

#[tokio::test]
async fn interrupt_kills_a_command_and_its_descendants() {
    let fixture = Fixture::new();
    let pid = fixture.cwd().join("pid");
    let command = format!("sleep 300 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
    let script = fixture.script(&[bash(&command), text("next")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.send_message("go").await;
    client.until(|frame| label(frame) == "uses Bash").await;
    while !pid.exists() {
        tokio::task::yield_now().await;
    }
    client.request("stop", json!({"subtype": "interrupt"})).await;
    let frames = client.finish_turn().await;
    assert!(
        summary(&frames).ends_with("failed, note, result aborted_tools, cancelled"),
        "{}",
        summary(&frames)
    );
    let child = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    let is_dead = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        status.is_empty() || status.contains(") Z")
    };
    let death = async {
        while !is_dead() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), death).await.expect("the child is killed");
    client.send_message("go on").await;
    assert_eq!(find(&client.finish_turn().await, "result")["result"], "next");
}

#[tokio::test]
async fn permission_response_can_deny_or_change_the_input() {
    let fixture = Fixture::new();
    let script = fixture.script(&[file("one"), file("two"), file("three")]);
    let mut arguments = fixture.arguments(&script);
    arguments.permission_mode = "default".to_owned();
    let mut client = Client::start(arguments);
    client.send_message("go").await;
    let is_request = |frame: &Value| frame["request"]["subtype"] == "can_use_tool";
    let responses = [
        json!({"behavior": "deny", "message": "not that one", "interrupt": false}),
        json!({"behavior": "allow", "updatedInput": {"file_path": fixture.cwd().join("other"), "content": ""}}),
    ];
    for response in responses {
        let frames = client.until(is_request).await;
        let request = &frames.last().unwrap()["request_id"];
        client
            .write(json!({"type": "control_response",
                "response": {"subtype": "success", "request_id": request, "response": response}}))
            .await;
    }
    client.until(is_request).await;
    client.request("mode", json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})).await;
    client.request("stop", json!({"subtype": "interrupt"})).await;
    let frames = client.finish_turn().await;
    assert!(frames.iter().any(|frame| frame["type"] == "control_cancel_request"));
    let denials = &find(&frames, "result")["permission_denials"];
    assert_eq!((denials.as_array().unwrap().len(), &denials[0]["tool_name"]), (1, &json!("Write")));
    let exists = |name: &str| fixture.cwd().join(name).exists();
    assert_eq!(["one", "two", "other", "three"].map(exists), [false, false, true, false]);
    let entries = fixture.transcript();
    assert!(entries.iter().any(|entry| entry["message"]["content"][0]["content"] == "not that one"));
}

#[tokio::test]
async fn rules_and_modes_decide_before_a_request() {
    for (mode, allowed, disallowed, written) in [
        ("acceptEdits", "", "", true),
        ("default", "Write", "", true),
        ("bypassPermissions", "", "Write", false),
        ("dontAsk", "", "", false),
    ] {
        let fixture = Fixture::new();
        let script = fixture.script(&[file("one"), bash("echo harmless; true")]);
        let mut arguments = fixture.arguments(&script);
        arguments.permission_mode = mode.to_owned();
        arguments.allowed_tools = vec![allowed.to_owned()];
        arguments.disallowed_tools = vec![disallowed.to_owned()];
        let mut client = Client::start(arguments);
        client.send_message("go").await;
        let labels = summary(&client.finish_turn().await);
        assert_eq!(fixture.cwd().join("one").exists(), written, "{mode}");
        assert!(labels.ends_with("uses Bash, succeeded, result completed, completed"), "{mode}: {labels}");
    }
}

#[tokio::test]
async fn duplicate_message_is_ignored() {
    let fixture = Fixture::new();
    let script = fixture.script(&[text("a"), json!({"play": "turn_end"}), text("b")]);
    let mut client = Client::start(fixture.arguments(&script));
    client.request("bad", json!({"subtype": "nope"})).await;
    let response = client.next().await.unwrap();
    assert_eq!(response["response"]["error_code"], "unsupported_request");
    let uuid = client.send_message("go").await;
    client.finish_turn().await;
    client.write(json!({"type": "user", "message": {"role": "user", "content": "go"}, "uuid": uuid})).await;
    let (rest, _) = client.close().await;
    assert_eq!(summary(&rest), "replay");
}
