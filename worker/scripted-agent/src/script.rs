//! A script: a file of steps, one JSON object per line. It is validated completely before anything runs.
//!
//! A line is a content block as the Messages API writes it (`text`, `thinking`, `tool_use`), or a directive
//! (`{"play":"wait","ms":300}`). Repeats are expanded when the file is parsed, so a position is a single number that
//! the transcript can store.

use super::tools;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// Maximum number of steps after expanding repeats.
const MAX_STEPS: usize = 200_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub header: Header,
    pub steps: Vec<Step>,
}

/// The optional first line.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    #[serde(rename = "script")]
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Delay between words; 0 prints a text at once.
    #[serde(default)]
    pub word_ms: u64,
    /// Simulated cost of a turn, in US dollars.
    #[serde(default = "default_cost")]
    pub cost_per_turn: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Text(String),
    Thinking(String),
    /// The tool is really executed.
    Tool(Box<ToolStep>),
    Play(Directive),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolStep {
    pub name: String,
    pub input: Map<String, Value>,
    /// The result of a tool that the player does not implement, or the report of a sub-agent.
    #[serde(default)]
    pub result: Option<String>,
    /// The steps of a sub-agent before its report.
    #[serde(default)]
    pub steps: Vec<Value>,
    /// Denies the call with this reason.
    #[serde(default)]
    pub deny: Option<String>,
}

/// A step that is not content.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "play", rename_all = "snake_case", deny_unknown_fields)]
pub enum Directive {
    Wait {
        ms: u64,
    },
    /// Ends the turn; the next message starts another one.
    TurnEnd {},
    /// Ends the turn with a question; `${message}` in later lines is the answer.
    Ask {
        #[serde(default)]
        text: Option<String>,
    },
    /// Ends the turn with an API error.
    Fail {
        error: String,
        /// The HTTP status.
        #[serde(default)]
        status: Option<u16>,
    },
    /// Simulates a retry of an API request.
    ApiRetry {
        #[serde(default = "first_attempt")]
        attempt: u64,
        #[serde(default)]
        delay_ms: u64,
        /// The HTTP status.
        #[serde(default = "overloaded")]
        status: u16,
    },
    /// Exits with this code in the middle of the turn.
    Exit {
        code: i32,
    },
    /// Crashes. A resumed player continues after this step.
    Crash {},
    /// Prints a line to stderr.
    Stderr {
        /// Without the newline.
        text: String,
    },
    /// Prints a frame unchanged.
    UnknownFrame {
        frame: Value,
    },
    /// Runs a shell command in the background. Its end starts a turn.
    Background {
        command: String,
        /// Delay before the command starts.
        #[serde(default)]
        ms: u64,
    },
    /// Serves a web page, for the preview.
    Listen {
        seconds: u64,
        /// 0 picks a free port.
        #[serde(default)]
        port: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct InvalidScript {
    /// Counted from 1.
    pub line: usize,
    pub reason: String,
}

impl Script {
    pub fn parse(text: &str) -> Result<Self, InvalidScript> {
        let mut header = None;
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let invalid = |reason: String| InvalidScript { line: index + 1, reason };
            let value: Value =
                serde_json::from_str(line).map_err(|error| invalid(format!("not JSON: {error}")))?;
            if value.get("script").is_some() {
                if header.is_some() || !steps.is_empty() {
                    return Err(invalid("a header must be the first line".to_owned()));
                }
                header = Some(serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?);
            } else {
                expand(value, &mut steps).map_err(invalid)?;
            }
        }
        if steps.is_empty() {
            return Err(InvalidScript { line: text.lines().count().max(1), reason: "no steps".to_owned() });
        }
        let default = || Header {
            name: "script".to_owned(),
            description: String::new(),
            word_ms: 0,
            cost_per_turn: default_cost(),
        };
        Ok(Self { header: header.unwrap_or_else(default), steps })
    }
}

impl Step {
    /// Parses one line that is not a repeat.
    pub(super) fn parse(value: Value) -> Result<Self, String> {
        if value.get("play").is_some() {
            return serde_json::from_value(value).map(Self::Play).map_err(|error| error.to_string());
        }
        let text = |field: &str| {
            let text = value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("`{field}` must be a non-empty string"))
        };
        match value.get("type").and_then(Value::as_str) {
            Some("text") => text("text").map(Self::Text),
            Some("thinking") => text("thinking").map(Self::Thinking),
            Some("tool_use") => {
                let tool: ToolStep = serde_json::from_value(value).map_err(|error| error.to_string())?;
                check(&tool)?;
                Ok(Self::Tool(Box::new(tool)))
            }
            Some(other) => Err(format!("`{other}` is not a supported content block")),
            None => Err("neither `type` nor `play`".to_owned()),
        }
    }
}

/// Adds the steps of a line, expanding repeats.
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
                substitute(&mut step, "${i}", &round.to_string());
                expand(step, steps)?;
            }
        }
        return Ok(());
    }
    let mut step = Step::parse(value)?;
    // The text before the end of a turn is a separate step, so it is not printed again if the end has to be repeated.
    match &mut step {
        Step::Play(Directive::Ask { text }) => steps.extend(text.take().map(Step::Text)),
        Step::Play(Directive::Fail { error, .. }) => steps.push(Step::Text(error.clone())),
        _ => {}
    }
    steps.push(step);
    if steps.len() > MAX_STEPS { Err(format!("more than {MAX_STEPS} steps")) } else { Ok(()) }
}

/// Replaces a placeholder in every string of a value.
pub(super) fn substitute(value: &mut Value, placeholder: &str, text: &str) {
    match value {
        Value::String(string) if string.contains(placeholder) => *string = string.replace(placeholder, text),
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, placeholder, text)),
        Value::Object(fields) => fields.values_mut().for_each(|field| substitute(field, placeholder, text)),
        _ => {}
    }
}

/// Checks that the tool exists and has its required input.
fn check(tool: &ToolStep) -> Result<(), String> {
    if tool.name == "Task" {
        tool.result.as_ref().ok_or("a Task needs a `result`")?;
        for step in &tool.steps {
            let step = Step::parse(step.clone())?;
            if matches!(&step, Step::Tool(child) if child.name == "Task") {
                return Err("a sub-agent cannot have sub-agents".to_owned());
            }
            if matches!(step, Step::Play(ref play) if !matches!(play, Directive::Wait { .. })) {
                return Err("a sub-agent can only have content and waits".to_owned());
            }
        }
    } else if !tool.steps.is_empty() {
        return Err("only a Task can have `steps`".to_owned());
    }
    match tools::required(&tool.name) {
        Some(fields) => fields.iter().try_for_each(|field| {
            let exists = tool.input.get(*field).is_some();
            if exists { Ok(()) } else { Err(format!("{} needs `{field}` in its input", tool.name)) }
        }),
        None if tool.result.is_some() || tool.deny.is_some() => Ok(()),
        None => Err(format!("{} is not implemented by the player: provide its `result`", tool.name)),
    }
}

fn default_cost() -> f64 {
    0.0008
}

fn first_attempt() -> u64 {
    1
}

fn overloaded() -> u16 {
    529
}
