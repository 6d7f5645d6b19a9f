//! The scripted agent: a program that talks like the Claude Code CLI and does what a file says. The worker drives it
//! through the Claude adapter, so demos and chaos tests take the way that a real agent takes, without a model, a
//! network or a key.
//!
//! `script` is what it will do, `player` and `turn` do it, `tools` and `shell` are its hands, `frames` what it says,
//! `transcript` what it remembers. Frames have the shapes of CLI 2.1.325; what nobody reads (lists of commands and
//! models, timings) is left out or made up.
//!
//! **Invariant:** an entry of the transcript is on disk before its frame is printed, and no step has two entries,
//! however often the player is killed and resumed. A tool that was killed before its result was written runs again.

mod arguments;
mod frames;
mod hearing;
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

pub use arguments::{Crash, PlayArguments};
pub use script::{BadScript, Script, Step, ToolStep};

use player::{Leave, Player};
use std::io::Write as _;
use tokio::io::{AsyncBufRead, AsyncWrite};

/// The scripts that are part of the program, by name.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("hello", include_str!("../../../scripts/hello.jsonl")),
    ("refactor", include_str!("../../../scripts/refactor.jsonl")),
    ("trouble", include_str!("../../../scripts/trouble.jsonl")),
];

/// Plays a script to whoever is at the other end of the pipes, until they close theirs. The result is the exit code.
///
/// The caller should leave the process with it at once: a read of the real stdin cannot be called off.
pub async fn play(
    arguments: PlayArguments,
    stdin: impl AsyncBufRead + Send + Unpin + 'static,
    stdout: impl AsyncWrite + Send + Unpin + 'static,
) -> i32 {
    let script = match load(&arguments.script) {
        Ok(script) => script,
        Err(reason) => return refuse(&reason),
    };
    let mut player = match Player::new(arguments, script, Box::new(stdin), Box::new(stdout)) {
        Ok(player) => player,
        Err(reason) => return refuse(&reason),
    };
    match player.run().await {
        Ok(code) | Err(Leave::With(code)) => code,
        Err(Leave::Broken(error)) => refuse(&format!("the pipes or the transcript broke: {error}")),
    }
}

/// A built-in script by its name, or a file.
///
/// # Errors
/// A sentence that says what is wrong with it, and where.
pub fn load(script: &str) -> Result<Script, String> {
    let name = script.strip_prefix("scripted:").unwrap_or(script);
    let text = match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        Some((_, text)) => (*text).to_owned(),
        None => std::fs::read_to_string(name).map_err(|error| format!("script {name}: {error}"))?,
    };
    Script::parse(&text).map_err(|bad| format!("script {name}: {bad}"))
}

/// Says on stderr why there is nothing to play.
fn refuse(reason: &str) -> i32 {
    // Nobody may be reading: then the exit code has to do.
    let _ = writeln!(std::io::stderr(), "{reason}");
    1
}
