//! The agent as a program of its own, for a worker that starts it.
//!
//! Cargo builds no binaries of other packages for a test. So the test's own binary is the program: it is started again
//! with this one test, which then plays the agent instead.

use super::{Record, Script, serve};
use crate::offline::name_of;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;
use tokio::net::unix::pipe::OpenOptions;
use tokio::runtime::Builder;

/// Says that this process is the agent, and where its script is.
const SCRIPT: &str = "KIT_ACP_SCRIPT";

/// Runs a test with the command of an agent that plays a script. To be called by a `#[test]` that does nothing else, with
/// a function that was written there.
pub fn with_program<T, F>(script: &Value, test: T)
where
    T: FnOnce(String) -> F,
    F: Future<Output = ()>,
{
    if let Some(path) = std::env::var_os(SCRIPT) {
        return play(Path::new(&path));
    }
    let folder = TempDir::with_prefix("acp-").expect("a temporary folder can be made");
    let (script_file, program) = (folder.path().join("script.json"), folder.path().join("agent.sh"));
    let this = std::env::current_exe().expect("a test knows its own binary");
    // What a test binary says about itself is no part of the protocol.
    let start = format!(
        "{SCRIPT}='{}' exec '{}' --exact {} --nocapture --test-threads=1 3>&1 1>/dev/null\n",
        script_file.display(),
        this.display(),
        name_of::<T>(),
    );
    std::fs::write(&script_file, script.to_string()).expect("a temporary folder can be written");
    std::fs::write(&program, start).expect("a temporary folder can be written");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be made").block_on(test(format!("sh {}", program.display())));
}

/// Plays the script on standard input and on the third descriptor, which are pipes, and ends the process.
fn play(script: &Path) {
    let script = std::fs::read_to_string(script).expect("the script can be read");
    let script: Script = serde_json::from_str(&script).expect("the script can be understood");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let played = runtime.block_on(async {
        let pipes = OpenOptions::new();
        let input = pipes.open_receiver("/dev/stdin").expect("standard input is a pipe");
        let output = pipes.open_sender("/dev/fd/3").expect("the third descriptor is a pipe");
        serve(input, output, script, Record::default()).await
    });
    std::process::exit(if played.is_ok_and(|done| done) { 0 } else { 1 });
}
