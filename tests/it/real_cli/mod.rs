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
use std::time::Duration;
use tokio::time::timeout;

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

/// A command that says that it has begun, and goes on when the test lets it (or after a minute, if the test is gone): see
/// [`until_begun`] and [`let_go`].
const GATED: &str = "touch begun; for _ in $(seq 600); do [ -e go ] && break; sleep 0.1; done;";

/// Waits until the command has begun, and hears what is said meanwhile.
async fn until_begun(cli: &mut Cli, home: &Home) {
    let begun = home.workspace.join("begun");
    let wait = async {
        while !begun.exists() {
            // Nothing said for a while: look again.
            let _heard = timeout(Duration::from_millis(50), cli.next()).await;
        }
    };
    timeout(Duration::from_secs(60), wait).await.expect("the command begins");
}

fn let_go(home: &Home) {
    std::fs::write(home.workspace.join("go"), "").unwrap();
}
