//! Captures of the real CLI, told as events. `UPDATE_SNAPSHOTS=1 cargo test -p worker` writes the snapshots anew: read
//! the difference before you commit it.

use super::frame::Frame;
use super::story::Story;
use crate::agents::Tell;
use crate::event::Event;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Every frame of the CLI in a capture, in order.
fn frames(capture: &Path) -> Vec<String> {
    let text = fs::read_to_string(capture).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["dir"] == "<").map(|line| line["frame"].to_string()).collect()
}

/// What is told, as a person reads it: one line for each.
fn told(frames: &[String]) -> String {
    let mut story = Story::new(PathBuf::from("/workspace"));
    let mut text = String::new();
    for tell in frames.iter().flat_map(|frame| story.apply(Frame::parse(frame))) {
        match tell {
            Tell::Event(event) => writeln!(text, "{}", line(event)).unwrap(),
            Tell::ToolEnded { tool_use_id, turn, edited } => {
                writeln!(text, "  tool {tool_use_id} ended in turn {turn}, told of {edited:?}").unwrap();
            }
            Tell::TurnEnded(end) => writeln!(text, "  turn over: {end:?}").unwrap(),
            // Written in pieces whose size is the model's.
            Tell::Partial(_) => {}
            // As often as the tool took seconds.
            Tell::Progress => {}
            other => writeln!(text, "  {other:?}").unwrap(),
        }
    }
    text
}

fn line(event: Event) -> String {
    let mut data = Value::Object(event.data);
    // Measured, and so never the same.
    for field in ["duration_ms", "duration_api_ms", "subagent_duration_ms"] {
        if data.get(field).is_some() {
            data[field] = "…".into();
        }
    }
    format!("{} {data}", event.event_type)
}

#[test]
fn what_the_real_cli_did_is_told_as_events() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let captures = here.join("../tests/it/captures/claude");
    let snapshots = here.join("src/agents/claude/golden");
    let mut seen = 0;
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    for capture in fs::read_dir(captures).unwrap() {
        let capture = capture.unwrap().path();
        let name = capture.file_stem().unwrap().to_str().unwrap().to_owned();
        let told = told(&frames(&capture));
        let snapshot = snapshots.join(format!("{name}.txt"));
        if update {
            fs::create_dir_all(&snapshots).unwrap();
            fs::write(&snapshot, &told).unwrap();
        }
        let expected = fs::read_to_string(&snapshot).unwrap_or_default();
        let difference = similar::TextDiff::from_lines(&expected, &told).unified_diff().to_string();
        assert!(
            difference.is_empty(),
            "{name} is told otherwise than in {}:\n{difference}",
            snapshot.display()
        );
        seen += 1;
    }
    assert!(seen >= 8, "the captures are not where this test looks");
}

#[test]
fn nothing_that_the_cli_says_is_lost() {
    let mut story = Story::new(PathBuf::from("/workspace"));
    let strange = [
        r#"{"type":"hologram","x":1}"#,
        "not json at all",
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"song","notes":"abc"}]},"uuid":"u"}"#,
        r#"{"type":"assistant","message":"not a message"}"#,
    ];
    for line in strange {
        let told = story.apply(Frame::parse(line));
        let kept = told
            .iter()
            .any(|tell| matches!(tell, Tell::Event(event) if event.event_type == "agent.unparsed"));
        assert!(kept, "{line} is told as {told:?}");
    }
}

#[test]
fn a_tool_that_takes_long_goes_on_and_is_no_event() {
    let mut story = Story::new(PathBuf::from("/workspace"));
    let line = r#"{"elapsed_time_seconds":30,"tool_name":"Bash","tool_use_id":"t","type":"tool_progress"}"#;
    let told = story.apply(Frame::parse(line));
    assert!(matches!(told[..], [Tell::Progress]), "{told:?}");
    assert!(story.apply(Frame::parse(r#"{"type":"keep_alive"}"#)).is_empty(), "that it lives is no progress");
}

#[test]
fn cost_is_told_as_what_was_added() {
    let mut story = Story::new(PathBuf::from("/workspace"));
    story.begin_at_cost(1.0);
    let result = |total: f64| {
        format!(r#"{{"subtype":"success","total_cost_usd":{total},"type":"result","uuid":"r-{total}"}}"#)
    };
    let costs: Vec<f64> = [1.5, 1.75, 1.75]
        .iter()
        .flat_map(|total| story.apply(Frame::parse(&result(*total))))
        .filter_map(|tell| match tell {
            Tell::TurnEnded(end) => Some(end.cost_usd),
            _ => None,
        })
        .collect();
    assert_eq!(costs, [0.5, 0.25, 0.0]);
}
