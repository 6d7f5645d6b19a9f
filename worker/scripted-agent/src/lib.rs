//! The scripted agent: a program that implements the protocol of the Claude Code CLI and plays a script. The worker
//! drives it through the Claude adapter, so demos and chaos tests use the same code as a real agent, without a model, a
//! network or an API key.
//!
//! `sunaba` contains it and adds it to the agents of its worker. The worker for sandboxes does not.
//!
//! `script` is the file format, `player` and `turn` run it, `tools` and `shell` execute tools, `frames` builds output
//! frames, `transcript` persists the session. Frames follow CLI 2.1.325; fields that the worker does not read (lists of
//! commands and models, timings) are omitted or invented.
//!
//! **Invariant:** a transcript entry is on disk before its frame is printed, and no step has two entries, regardless of
//! how often the player is killed and resumed. A tool that was killed before its result was written runs again.

mod agent;
mod arguments;
mod frames;
mod inputs;
mod listen;
mod message;
mod permission;
mod player;
mod script;
mod shell;
mod steps;
mod sub_agent;
#[cfg(test)]
mod tests;
mod tool_use;
mod tools;
mod transcript;
mod turn;
mod wire;

pub use agent::SCRIPTED;
pub use arguments::{Crash, PlayArguments};
pub use script::{InvalidScript, Script, Step, ToolStep};

use player::{Exit, Player};
use std::io::Write as _;
use tokio::io::{AsyncBufRead, AsyncWrite};

/// Built-in scripts by name.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("hello", include_str!("../scripts/hello.jsonl")),
    ("refactor", include_str!("../scripts/refactor.jsonl")),
    ("trouble", include_str!("../scripts/trouble.jsonl")),
];

/// Plays a script until stdin is closed. Returns the exit code.
///
/// The caller should exit the process immediately: a blocking read of the real stdin cannot be cancelled.
pub async fn play(
    arguments: PlayArguments,
    stdin: impl AsyncBufRead + Send + Unpin + 'static,
    stdout: impl AsyncWrite + Send + Unpin + 'static,
) -> i32 {
    let script = match load(&arguments.script) {
        Ok(script) => script,
        Err(reason) => return print_error(&reason),
    };
    let mut player = match Player::new(arguments, script, Box::new(stdin), Box::new(stdout)) {
        Ok(player) => player,
        Err(reason) => return print_error(&reason),
    };
    match player.run().await {
        Ok(code) | Err(Exit::Code(code)) => code,
        Err(Exit::Io(error)) => print_error(&format!("I/O error on a pipe or the transcript: {error}")),
    }
}

/// Loads a built-in script by name, or a file.
///
/// # Errors
/// A message with the line and the problem.
pub fn load(script: &str) -> Result<Script, String> {
    let name = script.strip_prefix("scripted:").unwrap_or(script);
    let text = match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        Some((_, text)) => (*text).to_owned(),
        None => std::fs::read_to_string(name).map_err(|error| format!("script {name}: {error}"))?,
    };
    Script::parse(&text).map_err(|error| format!("script {name}: {error}"))
}

/// Prints an error to stderr and returns the exit code.
fn print_error(reason: &str) -> i32 {
    // Stderr may be closed.
    let _ = writeln!(std::io::stderr(), "{reason}");
    1
}
