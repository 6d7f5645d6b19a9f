//! Records the frames between a test and the CLI, and saves them as captures.

use super::{Home, key, target};
use crate::model::Model;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use tokio::time::Instant;

/// Longer texts are truncated in a capture.
const MAX_TEXT_CHARS: usize = 300;

/// Lists that do not depend on the session; a capture keeps one item to show their shape.
const LONG_LISTS: [&str; 8] = [
    "commands",
    "agents",
    "models",
    "tools",
    "slash_commands",
    "skills",
    "plugins",
    "available_output_styles",
];

/// All frames in both directions, in order.
#[derive(Debug, Clone)]
pub struct Recording {
    lines: Vec<Line>,
    begun: Instant,
    /// Replacements for paths and addresses of this machine.
    names: Vec<(String, &'static str)>,
}

#[derive(Debug, Clone)]
pub struct Line {
    pub direction: Direction,
    /// Milliseconds since the start of the recording.
    pub at_ms: u64,
    pub frame: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the CLI.
    In,
    /// From the CLI.
    Out,
}

impl Recording {
    pub(super) fn of(home: &Home, model: &Model) -> Self {
        // Longest first: some paths are prefixes of others.
        let paths = [
            (home.config.clone(), "/home/agent/.claude"),
            (home.workspace.clone(), "/workspace"),
            (home.home(), "/home/agent"),
            (home.temporary(), "/tmp"),
        ];
        let mut names = Vec::new();
        for (path, name) in &paths {
            names.push((path.display().to_string(), *name));
        }
        names.push((key(&home.workspace), "-workspace"));
        names.push((model.url().replace("http://", ""), "127.0.0.1:8080"));
        Self { lines: Vec::new(), begun: Instant::now(), names }
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Frames from the CLI.
    pub fn output(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.lines.iter().filter(|line| line.direction == Direction::Out).map(|line| &line.frame)
    }

    /// The session's transcript files, assembled from mirror frames: path and lines.
    pub fn mirrored(&self) -> Vec<(PathBuf, Vec<Value>)> {
        let mut files: Vec<(PathBuf, Vec<Value>)> = Vec::new();
        for frame in self.output().filter(|frame| frame["type"] == "transcript_mirror") {
            let path = PathBuf::from(frame["filePath"].as_str().expect("a mirror frame names its file"));
            let entries = frame["entries"].as_array().expect("a mirror frame has entries");
            match files.iter_mut().find(|(file, _)| *file == path) {
                Some((_, lines)) => lines.extend(entries.iter().cloned()),
                None => files.push((path, entries.clone())),
            }
        }
        files
    }

    /// Writes a capture to the target folder, without paths of this machine and with long texts truncated. `cargo xtask
    /// captures` copies it into the repository.
    pub fn save(&self, name: &str) {
        let mut text = String::new();
        for line in &self.lines {
            let mut frame = line.frame.clone();
            self.normalize(&mut frame);
            let direction = if line.direction == Direction::In { ">" } else { "<" };
            let line = json!({"dir": direction, "at": line.at_ms, "frame": frame});
            writeln!(text, "{line}").expect("a string can be written to");
        }
        let folder = target().join("captures/claude");
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        std::fs::write(folder.join(format!("{name}.jsonl")), text).expect("the target folder can be written");
    }

    pub(super) fn push(&mut self, direction: Direction, frame: Value) {
        let at_ms = u64::try_from(self.begun.elapsed().as_millis()).expect("a test is short");
        self.lines.push(Line { direction, at_ms, frame });
    }

    fn normalize(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for (path, name) in &self.names {
                    *text = text.replace(path, name);
                }
                let count = text.chars().count();
                if count > MAX_TEXT_CHARS {
                    let kept: String = text.chars().take(MAX_TEXT_CHARS / 3).collect();
                    *text = format!("{kept}… ({count} characters)");
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.normalize(item)),
            Value::Object(fields) => {
                // Text that the CLI adds to a prompt belongs to its vendor and describes this machine.
                if fields.get("type").is_some_and(|kind| kind == "attachment") {
                    fields.remove("rendered");
                    let kind = fields["attachment"]["type"].take();
                    fields["attachment"] = json!({"type": kind});
                }
                for (name, field) in fields {
                    match field {
                        Value::Array(items) if LONG_LISTS.contains(&name.as_str()) => items.truncate(1),
                        Value::Number(number) if name == "pid" => *number = 1000.into(),
                        Value::String(path) if name == "messaging_socket_path" => {
                            *path = "/tmp/1000.sock".into();
                        }
                        _ => {}
                    }
                    self.normalize(field);
                }
            }
            _ => {}
        }
    }
}
