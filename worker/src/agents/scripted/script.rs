//! A script: a file of steps, one JSON object per line, refused with line and reason before anything runs.
//!
//! A line is a content block as the Messages API writes it (`text`, `thinking`, `tool_use`), or a directive
//! (`{"play":"wait","ms":300}`). Repeats are written out when the file is read, so that a step is one number, which the
//! transcript can hold.

use super::tools;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// Steps in one script at most, with every repeat written out.
const MAX_STEPS: usize = 200_000;

/// What a player does, step by step.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// What it says about itself.
    pub header: Header,
    /// In order.
    pub steps: Vec<Step>,
}

/// The optional first line.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Its name.
    #[serde(rename = "script")]
    pub name: String,
    /// For a list of scripts.
    #[serde(default)]
    pub description: String,
    /// Between two words of a text; 0 is all at once.
    #[serde(default)]
    pub word_ms: u64,
    /// What a turn pretends to cost, in dollars.
    #[serde(default = "some_cost")]
    pub cost_per_turn: f64,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Say something.
    Text(String),
    /// Think something.
    Thinking(String),
    /// Use a tool, really.
    Tool(Box<ToolStep>),
    /// Something that is no content.
    Play(Directive),
}

/// A tool to be used.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolStep {
    /// `Bash`.
    pub name: String,
    /// As the tool takes it.
    pub input: Map<String, Value>,
    /// What a tool answers that the player does not have, or a sub-agent reports.
    #[serde(default)]
    pub result: Option<String>,
    /// What a sub-agent does before it reports.
    #[serde(default)]
    pub steps: Vec<Value>,
    /// A rule forbids it, and this is why.
    #[serde(default)]
    pub deny: Option<String>,
}

/// What is no content.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "play", rename_all = "snake_case", deny_unknown_fields)]
pub enum Directive {
    /// Do nothing for a while.
    Wait {
        /// How long.
        ms: u64,
    },
    /// The turn is over; the next message starts the next one.
    TurnEnd {},
    /// The turn ends with a question; `${message}` in later lines is the answer.
    Ask {
        /// The question, if it was not asked already.
        #[serde(default)]
        text: Option<String>,
    },
    /// The turn ends in an error.
    Fail {
        /// Which.
        error: String,
        /// As the API would have answered.
        #[serde(default)]
        status: Option<u16>,
    },
    /// The API does not answer, and is asked again.
    ApiRetry {
        /// Which time.
        #[serde(default = "one")]
        attempt: u64,
        /// Until it is asked again.
        #[serde(default)]
        delay_ms: u64,
        /// As the API answered.
        #[serde(default = "overloaded")]
        status: u16,
    },
    /// Leave with this code, in the middle of the turn.
    Exit {
        /// Which.
        code: i32,
    },
    /// Be killed. A player that is resumed is not killed again here.
    Crash {},
    /// A line on stderr.
    Stderr {
        /// Without its end.
        text: String,
    },
    /// A frame, printed as it is.
    UnknownFrame {
        /// The frame.
        frame: Value,
    },
    /// A command that goes on when the turn is over, and starts a turn by itself when it ends.
    Background {
        /// For the shell.
        command: String,
        /// How long it takes at least.
        #[serde(default)]
        ms: u64,
    },
    /// A web page on a port, for the preview.
    Listen {
        /// For how long.
        seconds: u64,
        /// Which port; 0 is any.
        #[serde(default)]
        port: u16,
    },
}

/// Why a file is no script.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct BadScript {
    /// Where, counted from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

impl Script {
    /// Reads a whole file.
    pub fn parse(text: &str) -> Result<Self, BadScript> {
        let mut header = None;
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |reason: String| BadScript { line: index + 1, reason };
            let value: Value =
                serde_json::from_str(line).map_err(|error| bad(format!("not JSON: {error}")))?;
            if value.get("script").is_some() {
                if header.is_some() || !steps.is_empty() {
                    return Err(bad("a header is the first line".to_owned()));
                }
                header = Some(serde_json::from_value(value).map_err(|error| bad(error.to_string()))?);
            } else {
                expand(value, &mut steps).map_err(bad)?;
            }
        }
        if steps.is_empty() {
            return Err(BadScript { line: text.lines().count().max(1), reason: "no steps".to_owned() });
        }
        let unnamed = || Header {
            name: "script".to_owned(),
            description: String::new(),
            word_ms: 0,
            cost_per_turn: some_cost(),
        };
        Ok(Self { header: header.unwrap_or_else(unnamed), steps })
    }
}

impl Step {
    /// Reads one line that is not a repeat.
    pub(super) fn read(value: Value) -> Result<Self, String> {
        if value.get("play").is_some() {
            return serde_json::from_value(value).map(Self::Play).map_err(|error| error.to_string());
        }
        let text = |field: &str| {
            let text = value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("`{field}` must be a text"))
        };
        match value.get("type").and_then(Value::as_str) {
            Some("text") => text("text").map(Self::Text),
            Some("thinking") => text("thinking").map(Self::Thinking),
            Some("tool_use") => {
                let tool: ToolStep = serde_json::from_value(value).map_err(|error| error.to_string())?;
                check(&tool)?;
                Ok(Self::Tool(Box::new(tool)))
            }
            Some(other) => Err(format!("`{other}` is no content block that a script may have")),
            None => Err("neither `type` nor `play`".to_owned()),
        }
    }
}

/// Adds a line's steps, a repeat's as often as it says.
fn expand(value: Value, steps: &mut Vec<Step>) -> Result<(), String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Repeat {
        #[serde(rename = "play")]
        _play: String,
        times: usize,
        steps: Vec<Value>,
    }
    if value.get("play").and_then(Value::as_str) == Some("repeat") {
        let repeat: Repeat = serde_json::from_value(value).map_err(|error| error.to_string())?;
        for round in 0..repeat.times {
            for step in &repeat.steps {
                let mut step = step.clone();
                fill(&mut step, "${i}", &round.to_string());
                expand(step, steps)?;
            }
        }
        return Ok(());
    }
    let mut step = Step::read(value)?;
    // What is said before a turn ends is a step of its own, so that it is not said again if the end has to be.
    match &mut step {
        Step::Play(Directive::Ask { text }) => steps.extend(text.take().map(Step::Text)),
        Step::Play(Directive::Fail { error, .. }) => steps.push(Step::Text(error.clone())),
        _ => {}
    }
    steps.push(step);
    if steps.len() > MAX_STEPS { Err(format!("more than {MAX_STEPS} steps")) } else { Ok(()) }
}

/// Puts a text in the place of a name, in every text of a value.
pub(super) fn fill(value: &mut Value, name: &str, text: &str) {
    match value {
        Value::String(string) if string.contains(name) => *string = string.replace(name, text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, name, text)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, name, text)),
        _ => {}
    }
}

/// Whether the tool is there and has what it needs.
fn check(tool: &ToolStep) -> Result<(), String> {
    if tool.name == "Task" {
        tool.result.as_ref().ok_or("a Task needs a `result`")?;
        for step in &tool.steps {
            let step = Step::read(step.clone())?;
            if matches!(&step, Step::Tool(child) if child.name == "Task") {
                return Err("a sub-agent has no sub-agents".to_owned());
            }
            if matches!(step, Step::Play(ref play) if !matches!(play, Directive::Wait { .. })) {
                return Err("a sub-agent has content and waits only".to_owned());
            }
        }
    } else if !tool.steps.is_empty() {
        return Err("only a Task has `steps`".to_owned());
    }
    match tools::required(&tool.name) {
        Some(fields) => fields.iter().try_for_each(|field| {
            let there = tool.input.get(*field).is_some();
            if there { Ok(()) } else { Err(format!("{} needs `{field}` in its input", tool.name)) }
        }),
        None if tool.result.is_some() || tool.deny.is_some() => Ok(()),
        None => Err(format!("{} is not a tool of the player: give its `result`", tool.name)),
    }
}

fn some_cost() -> f64 {
    0.0008
}

fn one() -> u64 {
    1
}

fn overloaded() -> u16 {
    529
}
