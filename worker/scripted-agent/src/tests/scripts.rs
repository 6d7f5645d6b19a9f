use super::super::{BUILT_IN, PlayArguments, Script, Step};
use super::support::{Client, Fixture};

fn assert_rejected(text: &str, line: usize, reason: &str) {
    let error = Script::parse(text).expect_err(text);
    assert_eq!(error.line, line, "{error}");
    assert!(error.reason.contains(reason), "{text}: {error}");
}

#[test]
fn invalid_script_is_rejected_with_line_and_reason() {
    assert_rejected("", 1, "no steps");
    assert_rejected("{\"type\":\"text\",\"text\":\"a\"}\n\nnonsense", 3, "not JSON");
    assert_rejected("{\"type\":\"text\"}", 1, "`text` must be a non-empty string");
    assert_rejected("{\"type\":\"image\"}", 1, "not a supported content block");
    assert_rejected("{\"hello\":1}", 1, "neither `type` nor `play`");
    assert_rejected("{\"play\":\"jump\"}", 1, "unknown variant `jump`");
    assert_rejected("{\"play\":\"wait\"}", 1, "missing field `ms`");
    assert_rejected("{\"play\":\"wait\",\"ms\":1,\"s\":1}", 1, "unknown field `s`");
    assert_rejected("{\"type\":\"tool_use\",\"name\":\"Bash\",\"input\":{}}", 1, "Bash needs `command`");
    assert_rejected("{\"type\":\"tool_use\",\"name\":\"WebFetch\",\"input\":{}}", 1, "provide its `result`");
    assert_rejected("{\"type\":\"text\",\"text\":\"a\"}\n{\"script\":\"late\"}", 2, "first line");
    assert_rejected("{\"script\":\"a\",\"colour\":1}", 1, "unknown field `colour`");
    assert_rejected(
        "{\"play\":\"repeat\",\"times\":2,\"steps\":[{\"play\":\"wait\"}]}",
        1,
        "missing field `ms`",
    );
    assert_rejected(
        "{\"play\":\"repeat\",\"times\":900000,\"steps\":[{\"play\":\"wait\",\"ms\":1}]}",
        1,
        "more than 200000 steps",
    );
}

#[test]
fn repeat_is_expanded() {
    let script = Script::parse(
        "{\"play\":\"repeat\",\"times\":2,\"steps\":[{\"type\":\"text\",\"text\":\"step ${i}\"}]}",
    )
    .unwrap();
    assert_eq!(script.steps, [Step::Text("step 0".to_owned()), Step::Text("step 1".to_owned())]);
}

#[tokio::test]
async fn missing_script_exits_with_an_error() {
    let fixture = Fixture::new();
    assert_eq!(Client::start(fixture.arguments("/no/such/script")).wait_for_exit().await.1, 1);
}

#[test]
fn unknown_flags_are_ignored() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let parsed = PlayArguments::parse(&words(
        "scripted:hello -p --verbose --model=x --max-turns 3 --allowedTools=Bash,Write --settings={} --what=ever",
    ))
    .unwrap();
    assert_eq!((parsed.model.as_str(), parsed.max_turns), ("x", Some(3)));
    assert_eq!(parsed.allowed_tools, ["Bash", "Write"]);
    for invalid in
        ["", "--model=x", "hello --session-id=x", "hello --fork-session", "hello --permission-mode=x"]
    {
        assert!(PlayArguments::parse(&words(invalid)).is_err(), "{invalid}");
    }
}

#[tokio::test]
async fn every_demo_completes_in_an_empty_directory() {
    for (name, text) in BUILT_IN {
        demo(&Fixture::new(), name, text).await;
    }
}

#[tokio::test]
async fn refactor_demo_commits_in_a_repository() {
    let fixture = Fixture::new();
    let git = |arguments: &[&str]| {
        let output =
            std::process::Command::new("git").args(arguments).current_dir(fixture.cwd()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    let (name, text) = BUILT_IN[1];
    demo(&fixture, name, text).await;
    assert!(git(&["log", "--oneline"]).contains("Name the arithmetic module"));
    assert_eq!(git(&["status", "--short"]), "");
}

async fn demo(fixture: &Fixture, name: &str, text: &str) {
    let steps = Script::parse(text).unwrap().steps.len();
    let mut client = Client::start(fixture.arguments(&format!("scripted:{name}")));
    client.send_message("go").await;
    if name == "trouble" {
        let (frames, code) = client.wait_for_exit().await;
        assert_eq!(code, 137, "{:?}", frames.last());
        client = Client::start(fixture.resumed(name));
    }
    if name == "refactor" {
        client.finish_turn().await;
        client.send_message("total").await;
    }
    let frames = client.finish_turn().await;
    let result = frames.iter().find(|frame| frame["type"] == "result").unwrap();
    assert_eq!(result["subtype"], "success", "{result}");
    assert_eq!(fixture.transcript().last().unwrap()["scriptNext"], steps);
    assert_eq!(client.close().await.1, 0);
    if name == "refactor" {
        let code = std::fs::read_to_string(fixture.cwd().join("src/arithmetic.sh")).unwrap();
        assert!(code.contains("total()"), "{code}");
    }
}
