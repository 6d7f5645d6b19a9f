use super::kit::{Place, Playing, bash, file, find, story, text, word};
use serde_json::{Value, json};

/// A tool that runs until the test opens its gate.
fn gated(place: &Place) -> Value {
    bash(&format!("until [ -e {} ]; do sleep 0.01; done; echo through", place.cwd().join("gate").display()))
}

fn open(place: &Place) {
    std::fs::write(place.cwd().join("gate"), "").unwrap();
}

#[tokio::test]
async fn a_message_during_a_tool_is_heard_when_the_tool_ends() {
    let place = Place::new();
    let script = place.script(&[gated(&place), text("done")]);
    let mut playing = Playing::start(place.arguments(&script));
    let first = playing.say("go").await;
    playing.until(|frame| word(frame) == "uses Bash").await;
    let second = playing.say("use tabs").await;
    playing.until(|frame| word(frame) == "queued").await;
    open(&place);
    let frames = playing.turn().await;
    assert_eq!(
        story(&frames),
        "answered, replay, started, says text, completed, says text, result completed, completed"
    );
    assert_eq!(find(&frames, "assistant")["message"]["content"][0]["text"], "(Heard: use tabs)");
    assert_eq!(find(&frames, "command_lifecycle")["command_uuid"], second.as_str());
    assert_eq!(find(&frames, "result")["user_message_uuids"], json!([first, second]));
    let kept = place.transcript();
    let steer = kept.iter().find(|entry| entry["type"] == "attachment").unwrap();
    assert_eq!(steer["attachment"]["source_uuid"], second.as_str());
}

#[tokio::test]
async fn a_message_during_text_has_its_own_turn() {
    let place = Place::new();
    let mut arguments = place.arguments(&place.script(&[
        json!({"script": "slow", "word_ms": 20}),
        text(&"word ".repeat(20)),
        json!({"play": "turn_end"}),
        text("second"),
    ]));
    arguments.pace = 1.0;
    let mut playing = Playing::start(arguments);
    playing.say("go").await;
    playing.until(|frame| word(frame) == "content_block_delta").await;
    playing.say("and then").await;
    assert_eq!(story(&playing.turn().await), "queued, replay, says text, result completed, completed");
    let frames = playing.turn().await;
    assert_eq!(story(&frames), "started, system/init, replay, says text, result completed, completed");
    assert_eq!(find(&frames, "result")["result"], "second");
}

/// Plays a long text, says something more, and interrupts.
async fn interrupt_while_talking(request: Value) -> (Playing, Vec<Value>, String) {
    let place = Place::new();
    let mut arguments = place.arguments(&place.script(&[
        json!({"script": "slow", "word_ms": 10_000}),
        text("one two three"),
        text("more"),
    ]));
    arguments.pace = 1.0;
    let mut playing = Playing::start(arguments);
    playing.say("go").await;
    playing.until(|frame| word(frame) == "content_block_delta").await;
    let queued = playing.say("queued").await;
    playing.until(|frame| word(frame) == "queued").await;
    playing.request("stop", request).await;
    let frames = playing.turn().await;
    let said = find(&frames, "assistant");
    assert_eq!((&said["aborted"], &said["message"]["content"][0]["text"]), (&json!(true), &json!("one ")));
    assert_eq!(find(&frames, "result")["subtype"], "error_during_execution");
    (playing, frames, queued)
}

#[tokio::test]
async fn interrupt_stops_the_turn_and_begins_what_is_queued() {
    let (mut playing, frames, queued) = interrupt_while_talking(json!({"subtype": "interrupt"})).await;
    assert_eq!(
        story(&frames),
        "control_response, replay, says text, note, result aborted_streaming, cancelled"
    );
    let answer = &find(&frames, "control_response")["response"]["response"];
    assert_eq!(answer, &json!({"still_queued": [queued]}));
    assert_eq!(playing.next().await.unwrap()["command_uuid"], queued.as_str());
    playing.kill().await;
}

#[tokio::test]
async fn interrupt_with_cancel_queued_leaves_nothing_to_do() {
    let request = json!({"subtype": "interrupt", "cancel_queued": true});
    let (playing, frames, queued) = interrupt_while_talking(request).await;
    assert_eq!(
        story(&frames),
        "cancelled, control_response, replay, says text, note, result aborted_streaming, cancelled"
    );
    let answer = &find(&frames, "control_response")["response"]["response"];
    assert_eq!(answer, &json!({"still_queued": [], "cancelled": [queued]}));
    let (rest, code) = playing.close().await;
    assert_eq!((story(&rest), code), (String::new(), 1));
}

#[tokio::test]
async fn interrupt_kills_a_command_and_its_children() {
    let place = Place::new();
    let pid = place.cwd().join("pid");
    let command = format!("sleep 300 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
    let script = place.script(&[bash(&command), text("next")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.say("go").await;
    playing.until(|frame| word(frame) == "uses Bash").await;
    while !pid.exists() {
        tokio::task::yield_now().await;
    }
    playing.request("stop", json!({"subtype": "interrupt"})).await;
    let frames = playing.turn().await;
    assert!(story(&frames).ends_with("failed, note, result aborted_tools, cancelled"), "{}", story(&frames));
    let child = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    let dead = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        status.is_empty() || status.contains(") Z")
    };
    let died = async {
        while !dead() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), died).await.expect("the child is killed");
    playing.say("go on").await;
    assert_eq!(find(&playing.turn().await, "result")["result"], "next");
}

#[tokio::test]
async fn a_tool_is_asked_for_and_may_be_denied_or_changed() {
    let place = Place::new();
    let script = place.script(&[file("one"), file("two"), file("three")]);
    let mut arguments = place.arguments(&script);
    arguments.permission_mode = "default".to_owned();
    let mut playing = Playing::start(arguments);
    playing.say("go").await;
    let asks = |frame: &Value| frame["request"]["subtype"] == "can_use_tool";
    let answers = [
        json!({"behavior": "deny", "message": "not that one", "interrupt": false}),
        json!({"behavior": "allow", "updatedInput": {"file_path": place.cwd().join("other"), "content": ""}}),
    ];
    for answer in answers {
        let frames = playing.until(asks).await;
        let request = &frames.last().unwrap()["request_id"];
        playing
            .write(json!({"type": "control_response",
                "response": {"subtype": "success", "request_id": request, "response": answer}}))
            .await;
    }
    playing.until(asks).await;
    playing.request("mode", json!({"subtype": "set_permission_mode", "mode": "acceptEdits"})).await;
    playing.request("stop", json!({"subtype": "interrupt"})).await;
    let frames = playing.turn().await;
    assert!(frames.iter().any(|frame| frame["type"] == "control_cancel_request"));
    let denials = &find(&frames, "result")["permission_denials"];
    assert_eq!((denials.as_array().unwrap().len(), &denials[0]["tool_name"]), (1, &json!("Write")));
    let there = |name: &str| place.cwd().join(name).exists();
    assert_eq!(["one", "two", "other", "three"].map(there), [false, false, true, false]);
    let kept = place.transcript();
    assert!(kept.iter().any(|entry| entry["message"]["content"][0]["content"] == "not that one"));
}

#[tokio::test]
async fn rules_and_modes_decide_before_anybody_is_asked() {
    for (mode, allowed, disallowed, written) in [
        ("acceptEdits", "", "", true),
        ("default", "Write", "", true),
        ("bypassPermissions", "", "Write", false),
        ("dontAsk", "", "", false),
    ] {
        let place = Place::new();
        let script = place.script(&[file("one"), bash("echo harmless; true")]);
        let mut arguments = place.arguments(&script);
        arguments.permission_mode = mode.to_owned();
        arguments.allowed_tools = vec![allowed.to_owned()];
        arguments.disallowed_tools = vec![disallowed.to_owned()];
        let mut playing = Playing::start(arguments);
        playing.say("go").await;
        let told = story(&playing.turn().await);
        assert_eq!(place.cwd().join("one").exists(), written, "{mode}");
        assert!(told.ends_with("uses Bash, answered, result completed, completed"), "{mode}: {told}");
    }
}

#[tokio::test]
async fn requests_are_answered_and_a_message_is_read_once() {
    let place = Place::new();
    let script = place.script(&[text("a"), json!({"play": "turn_end"}), text("b")]);
    let mut playing = Playing::start(place.arguments(&script));
    playing.request("bad", json!({"subtype": "nope"})).await;
    let answer = playing.next().await.unwrap();
    assert_eq!(answer["response"]["error_code"], "unsupported_request");
    let uuid = playing.say("go").await;
    playing.turn().await;
    playing.write(json!({"type": "user", "message": {"role": "user", "content": "go"}, "uuid": uuid})).await;
    let (rest, _) = playing.close().await;
    assert_eq!(story(&rest), "replay");
}
