//! Captures of the real CLI, normalized to events. `UPDATE_SNAPSHOTS=1 cargo test -p worker` rewrites the snapshots:
//! review the diff before you commit it.

use super::frame::Frame;
use super::normalizer::Normalizer;
use crate::agents::AgentOutput;
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

/// One readable line for each output.
fn normalized(frames: &[String]) -> String {
    let mut normalizer = Normalizer::new(PathBuf::from("/workspace"));
    let mut text = String::new();
    for output in frames.iter().flat_map(|frame| normalizer.apply(Frame::parse(frame))) {
        match output {
            AgentOutput::Event(event) => writeln!(text, "{}", line(event)).unwrap(),
            AgentOutput::ToolEnded { tool_use_id, turn, edited } => {
                writeln!(text, "  tool {tool_use_id} ended in turn {turn}, told of {edited:?}").unwrap();
            }
            AgentOutput::TurnEnded(end) => writeln!(text, "  turn over: {end:?}").unwrap(),
            // The chunk size is up to the model.
            AgentOutput::Partial(_) => {}
            // Sent once per second of tool time.
            AgentOutput::Progress => {}
            other => writeln!(text, "  {other:?}").unwrap(),
        }
    }
    text
}

fn line(event: Event) -> String {
    let mut data = Value::Object(event.data);
    // Measured durations are not reproducible.
    for field in ["duration_ms", "duration_api_ms", "subagent_duration_ms"] {
        if data.get(field).is_some() {
            data[field] = "…".into();
        }
    }
    format!("{} {data}", event.event_type)
}

#[test]
fn captures_of_the_real_cli_match_the_snapshots() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let captures = here.join("../tests/it/captures/claude");
    let snapshots = here.join("src/agents/claude/golden");
    let mut seen = 0;
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    for capture in fs::read_dir(captures).unwrap() {
        let capture = capture.unwrap().path();
        let name = capture.file_stem().unwrap().to_str().unwrap().to_owned();
        let normalized = normalized(&frames(&capture));
        let snapshot = snapshots.join(format!("{name}.txt"));
        if update {
            fs::create_dir_all(&snapshots).unwrap();
            fs::write(&snapshot, &normalized).unwrap();
        }
        let expected = fs::read_to_string(&snapshot).unwrap_or_default();
        let difference = similar::TextDiff::from_lines(&expected, &normalized).unified_diff().to_string();
        assert!(
            difference.is_empty(),
            "{name} differs from {}; to accept it, run UPDATE_SNAPSHOTS=1 cargo test -p worker:\n{difference}",
            snapshot.display()
        );
        seen += 1;
    }
    assert!(seen >= 8, "captures not found");
}

#[test]
fn unknown_output_becomes_an_event() {
    let mut normalizer = Normalizer::new(PathBuf::from("/workspace"));
    let unknown = [
        r#"{"type":"hologram","x":1}"#,
        "not json at all",
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"song","notes":"abc"}]},"uuid":"u"}"#,
        r#"{"type":"assistant","message":"not a message"}"#,
    ];
    for line in unknown {
        let normalized = normalizer.apply(Frame::parse(line));
        let kept = normalized.iter().any(
            |output| matches!(output, AgentOutput::Event(event) if event.event_type == "agent.unparsed"),
        );
        assert!(kept, "{line} became {normalized:?}");
    }
}

#[test]
fn tool_progress_is_reported_without_an_event() {
    let mut normalizer = Normalizer::new(PathBuf::from("/workspace"));
    let line = r#"{"elapsed_time_seconds":30,"tool_name":"Bash","tool_use_id":"t","type":"tool_progress"}"#;
    let normalized = normalizer.apply(Frame::parse(line));
    assert!(matches!(normalized[..], [AgentOutput::Progress]), "{normalized:?}");
    assert!(
        normalizer.apply(Frame::parse(r#"{"type":"keep_alive"}"#)).is_empty(),
        "a keep-alive is not progress"
    );
}

#[test]
fn turn_cost_is_the_difference_of_totals() {
    let mut normalizer = Normalizer::new(PathBuf::from("/workspace"));
    normalizer.set_initial_cost(1.0);
    let result = |total: f64| {
        format!(r#"{{"subtype":"success","total_cost_usd":{total},"type":"result","uuid":"r-{total}"}}"#)
    };
    let costs: Vec<f64> = [1.5, 1.75, 1.75]
        .iter()
        .flat_map(|total| normalizer.apply(Frame::parse(&result(*total))))
        .filter_map(|output| match output {
            AgentOutput::TurnEnded(end) => Some(end.cost_usd),
            _ => None,
        })
        .collect();
    assert_eq!(costs, [0.5, 0.25, 0.0]);
}
