use super::super::{BUILT_IN, PlayArguments, Script, Step};
use super::kit::{Place, Playing};

fn refused(text: &str, line: usize, reason: &str) {
    let bad = Script::parse(text).expect_err(text);
    assert_eq!(bad.line, line, "{bad}");
    assert!(bad.reason.contains(reason), "{text}: {bad}");
}

#[test]
fn a_bad_script_is_refused_with_line_and_reason() {
    refused("", 1, "no steps");
    refused("{\"type\":\"text\",\"text\":\"a\"}\n\nnonsense", 3, "not JSON");
    refused("{\"type\":\"text\"}", 1, "`text` must be a text");
    refused("{\"type\":\"image\"}", 1, "no content block");
    refused("{\"hello\":1}", 1, "neither `type` nor `play`");
    refused("{\"play\":\"jump\"}", 1, "unknown variant `jump`");
    refused("{\"play\":\"wait\"}", 1, "missing field `ms`");
    refused("{\"play\":\"wait\",\"ms\":1,\"s\":1}", 1, "unknown field `s`");
    refused("{\"type\":\"tool_use\",\"name\":\"Bash\",\"input\":{}}", 1, "Bash needs `command`");
    refused("{\"type\":\"tool_use\",\"name\":\"WebFetch\",\"input\":{}}", 1, "give its `result`");
    refused("{\"type\":\"text\",\"text\":\"a\"}\n{\"script\":\"late\"}", 2, "first line");
    refused("{\"script\":\"a\",\"colour\":1}", 1, "unknown field `colour`");
    refused("{\"play\":\"repeat\",\"times\":2,\"steps\":[{\"play\":\"wait\"}]}", 1, "missing field `ms`");
    refused(
        "{\"play\":\"repeat\",\"times\":900000,\"steps\":[{\"play\":\"wait\",\"ms\":1}]}",
        1,
        "more than 200000 steps",
    );
}

#[test]
fn a_repeat_is_written_out_with_its_rounds() {
    let script = Script::parse(
        "{\"play\":\"repeat\",\"times\":2,\"steps\":[{\"type\":\"text\",\"text\":\"step ${i}\"}]}",
    )
    .unwrap();
    assert_eq!(script.steps, [Step::Text("step 0".to_owned()), Step::Text("step 1".to_owned())]);
}

#[tokio::test]
async fn a_script_that_is_not_there_is_an_exit_code() {
    let place = Place::new();
    assert_eq!(Playing::start(place.arguments("/no/such/script")).left().await.1, 1);
}

#[test]
fn flags_are_read_and_unknown_ones_ignored() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let parsed = PlayArguments::parse(&words(
        "scripted:hello -p --verbose --model=x --max-turns 3 --allowedTools=Bash,Write --settings={} --what=ever",
    ))
    .unwrap();
    assert_eq!((parsed.model.as_str(), parsed.max_turns), ("x", Some(3)));
    assert_eq!(parsed.allowed_tools, ["Bash", "Write"]);
    for bad in ["", "--model=x", "hello --session-id=x", "hello --fork-session", "hello --permission-mode=x"]
    {
        assert!(PlayArguments::parse(&words(bad)).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn every_demo_runs_to_its_end_in_an_empty_folder() {
    for (name, text) in BUILT_IN {
        demo(&Place::new(), name, text).await;
    }
}

#[tokio::test]
async fn the_refactoring_is_committed_where_there_is_a_repository() {
    let place = Place::new();
    let git = |arguments: &[&str]| {
        let output =
            std::process::Command::new("git").args(arguments).current_dir(place.cwd()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    let (name, text) = BUILT_IN[1];
    demo(&place, name, text).await;
    assert!(git(&["log", "--oneline"]).contains("Name the arithmetic module"));
    assert_eq!(git(&["status", "--short"]), "");
}

async fn demo(place: &Place, name: &str, text: &str) {
    let steps = Script::parse(text).unwrap().steps.len();
    let mut playing = Playing::start(place.arguments(&format!("scripted:{name}")));
    playing.say("go").await;
    if name == "trouble" {
        let (frames, code) = playing.left().await;
        assert_eq!(code, 137, "{:?}", frames.last());
        playing = Playing::start(place.resumed(name));
    }
    if name == "refactor" {
        playing.turn().await;
        playing.say("total").await;
    }
    let frames = playing.turn().await;
    let result = frames.iter().find(|frame| frame["type"] == "result").unwrap();
    assert_eq!(result["subtype"], "success", "{result}");
    assert_eq!(place.transcript().last().unwrap()["scriptNext"], steps);
    assert_eq!(playing.close().await.1, 0);
    if name == "refactor" {
        let code = std::fs::read_to_string(place.cwd().join("src/arithmetic.sh")).unwrap();
        assert!(code.contains("total()"), "{code}");
    }
}
