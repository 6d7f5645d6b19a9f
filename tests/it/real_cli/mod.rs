//! What the real Claude Code does, in the version that the worker speaks to: each behaviour that the worker counts on,
//! seen on the program itself, with a scripted model and without a network.
//!
//! Every test leaves a capture of both directions in `target/captures/claude`; `cargo xtask captures` takes them into
//! `tests/it/captures/claude`, where the worker's own tests read them.

mod budget;
mod interrupts;
mod network;
mod resuming;
mod steering;
mod tasks;
mod turns;

use kit::claude::{Cli, Home};
use kit::model::{Model, Script};

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// A CLI that was greeted, in a session of its own.
async fn session(script: Script, flags: &[&str]) -> (Home, Model, Cli) {
    let (home, model) = (Home::new(), Model::start(script).await);
    let session = format!("--session-id={SESSION}");
    let flags: Vec<&str> = std::iter::once(session.as_str()).chain(flags.iter().copied()).collect();
    let mut cli = Cli::start(&home, &model, &flags);
    assert_eq!(cli.initialize().await["subtype"], "success");
    (home, model, cli)
}
