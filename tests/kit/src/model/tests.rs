//! Tests of the scripted model.

use super::*;

async fn ask(model: &Model, body: Value) -> (u16, String) {
    let request = reqwest::Client::new().post(format!("{}/v1/messages?beta=true", model.url()));
    let answer = request.body(body.to_string()).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

fn prompt(text: &str) -> Value {
    let reminder = json!({"type": "text", "text": "<system-reminder>everything</system-reminder>"});
    let content = json!([reminder, {"type": "text", "text": text}]);
    json!({"model": "m", "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": content}]})
}

#[tokio::test]
async fn used_up_rule_is_skipped() {
    let script = Script::new().when("hello", Reply::text("first")).always("hello", Reply::text("again"));
    let model = Model::start(script).await;
    for expected in ["first", "again", "again"] {
        let (status, text) = ask(&model, prompt("hello")).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &answer["content"][0]["text"]), (200, &json!(expected)));
    }
    assert_eq!(model.prompts(), ["hello"; 3]);
}

#[tokio::test]
async fn unmatched_prompt_is_a_permanent_error() {
    let model = Model::start(Script::new().when("everything", Reply::text("never"))).await;
    let (status, text) = ask(&model, prompt("hello")).await;
    assert_eq!(status, 400);
    assert!(text.contains("no rule of the script matches: hello"), "{text}");
}

#[tokio::test]
async fn side_request_uses_no_rule() {
    let model = Model::start(Script::new().when("hello", Reply::text("first"))).await;
    let title = json!({"model": "m", "messages": [{"role": "user", "content": "a title for: hello"}]});
    assert_eq!(ask(&model, title).await.0, 200);
    assert!(ask(&model, prompt("hello")).await.1.contains("first"));
    assert!(model.requests()[0].is_side_request);
}

#[tokio::test]
async fn reply_is_streamed_in_the_order_of_the_real_api() {
    let reply = Reply::thinking("hm").and_text("two words").and_tool("Bash", json!({"command": "ls"}));
    let model = Model::start(Script::new().when("hello", reply)).await;
    let mut body = prompt("hello");
    body["stream"] = true.into();
    let (_, text) = ask(&model, body).await;
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let block = |count| {
        let mut names = vec!["content_block_start"];
        names.extend(vec!["content_block_delta"; count]);
        names.push("content_block_stop");
        names
    };
    let mut expected = vec!["message_start"];
    expected.extend(block(2));
    expected.insert(2, "ping");
    expected.extend(block(2));
    expected.extend(block(3));
    expected.extend(["message_delta", "message_stop"]);
    assert_eq!(names, expected);
    assert!(text.contains("\"stop_reason\":\"tool_use\""), "{text}");
}

#[tokio::test]
async fn error_has_a_retry_after_header() {
    let model = Model::start(Script::new().when("hello", Reply::error(429, Some(7)))).await;
    let request = reqwest::Client::new().post(format!("{}/v1/messages", model.url()));
    let answer = request.body(prompt("hello").to_string()).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].as_bytes()), (429, &b"7"[..]));
}
