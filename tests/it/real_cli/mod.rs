//! Behaviour of the real Claude Code that the worker relies on, in the supported version, with a scripted model and
//! without a network.
//!
//! Every test saves a capture of both directions in `target/captures/claude`. `cargo xtask captures` copies them to
//! `tests/it/captures/claude`, where the worker's own tests read them.

mod background_tasks;
mod budget;
mod interrupts;
mod network;
mod resuming;
mod steering;
mod turns;

use kit::claude::{Cli, Home};
use kit::model::{Model, Script};
use std::time::Duration;
use tokio::time::timeout;

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// An initialized CLI with a new session.
async fn session(script: Script, flags: &[&str]) -> (Home, Model, Cli) {
    let (home, model) = (Home::new(), Model::start(script).await);
    let session = format!("--session-id={SESSION}");
    let flags: Vec<&str> = std::iter::once(session.as_str()).chain(flags.iter().copied()).collect();
    let mut cli = Cli::start(&home, &model, &flags);
    assert_eq!(cli.initialize().await["subtype"], "success");
    (home, model, cli)
}

/// A command that creates the file `begun` and then waits for the file `go`, for at most a minute. See [`until_begun`]
/// and [`open_gate`].
const GATED: &str = "touch begun; for _ in $(seq 600); do [ -e go ] && break; sleep 0.1; done;";

/// Waits until the command has begun, while reading frames so that the CLI does not block.
async fn until_begun(cli: &mut Cli, home: &Home) {
    let begun = home.workspace.join("begun");
    let wait = async {
        while !begun.exists() {
            // On a timeout, check the file again.
            let _frame = timeout(Duration::from_millis(50), cli.next()).await;
        }
    };
    timeout(Duration::from_secs(60), wait).await.expect("the command begins");
}

fn open_gate(home: &Home) {
    std::fs::write(home.workspace.join("go"), "").unwrap();
}
