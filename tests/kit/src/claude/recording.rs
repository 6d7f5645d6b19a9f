//! What was said between a test and the CLI, and how it is written down.

use super::{Home, key, target};
use crate::model::Model;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use tokio::time::Instant;

/// Longer texts are cut in a capture.
const MAX_TEXT_CHARS: usize = 300;

/// Lists that tell nothing about a session: one item shows their shape.
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

/// Everything said by either side, in order.
#[derive(Debug, Clone)]
pub struct Recording {
    lines: Vec<Line>,
    begun: Instant,
    /// What is written instead of the paths and addresses of this machine.
    names: Vec<(String, &'static str)>,
}

/// Something that was said.
#[derive(Debug, Clone)]
pub struct Line {
    /// By whom.
    pub direction: Direction,
    /// When, in milliseconds since the recording began.
    pub at_ms: u64,
    /// What.
    pub frame: Value,
}

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the CLI.
    In,
    /// From the CLI.
    Out,
}

impl Recording {
    pub(super) fn of(home: &Home, model: &Model) -> Self {
        // The longest first: some are within others.
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

    /// What was said, in order.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// What the CLI said.
    pub fn told(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.lines.iter().filter(|line| line.direction == Direction::Out).map(|line| &line.frame)
    }

    /// The session's own transcript, put together from what was mirrored: by file name, its lines.
    pub fn mirrored(&self) -> Vec<(PathBuf, Vec<Value>)> {
        let mut files: Vec<(PathBuf, Vec<Value>)> = Vec::new();
        for frame in self.told().filter(|frame| frame["type"] == "transcript_mirror") {
            let path = PathBuf::from(frame["filePath"].as_str().expect("a mirror frame names its file"));
            let entries = frame["entries"].as_array().expect("a mirror frame has entries");
            match files.iter_mut().find(|(file, _)| *file == path) {
                Some((_, lines)) => lines.extend(entries.iter().cloned()),
                None => files.push((path, entries.clone())),
            }
        }
        files
    }

    /// Writes it into the target folder as a capture: without paths of this machine, and with what is long cut short.
    /// `cargo xtask captures` takes it from there into the repository.
    pub fn save(&self, name: &str) {
        let mut text = String::new();
        for line in &self.lines {
            let mut frame = line.frame.clone();
            self.tidy(&mut frame);
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

    fn tidy(&self, value: &mut Value) {
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
            Value::Array(items) => items.iter_mut().for_each(|item| self.tidy(item)),
            Value::Object(fields) => {
                // What the CLI adds to a prompt of its own accord is its vendor's text, and says what machine this is.
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
                    self.tidy(field);
                }
            }
            _ => {}
        }
    }
}
