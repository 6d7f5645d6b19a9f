//! The scripted agent as a separate program, for a worker to start.
//!
//! Cargo does not build binaries of other packages for a test. Therefore the test's own binary is the program: it is
//! started again with the same test, which then runs the agent instead.

use super::{Record, Script, serve};
use crate::offline::name_of;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;
use tokio::net::unix::pipe::OpenOptions;
use tokio::runtime::Builder;

/// Set in the process that runs the agent; the path of its script.
const SCRIPT: &str = "KIT_ACP_SCRIPT";

/// Runs a test with the command line of an agent that follows `script`. Must be the only statement of a `#[test]`, with a
/// closure that is defined there: the test is found by the type name of the closure.
pub fn with_program<T, F>(script: &Value, test: T)
where
    T: FnOnce(String) -> F,
    F: Future<Output = ()>,
{
    if let Some(path) = std::env::var_os(SCRIPT) {
        return run_agent(Path::new(&path));
    }
    let folder = TempDir::with_prefix("acp-").expect("a temporary folder can be created");
    let (script_file, program) = (folder.path().join("script.json"), folder.path().join("agent.sh"));
    let this = std::env::current_exe().expect("a test knows its own binary");
    // The test harness writes to standard output, so the protocol uses descriptor 3.
    let start = format!(
        "{SCRIPT}='{}' exec '{}' --exact {} --nocapture --test-threads=1 3>&1 1>/dev/null\n",
        script_file.display(),
        this.display(),
        name_of::<T>(),
    );
    std::fs::write(&script_file, script.to_string()).expect("a temporary folder can be written");
    std::fs::write(&program, start).expect("a temporary folder can be written");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be created").block_on(test(format!("sh {}", program.display())));
}

/// Runs the script on standard input and descriptor 3, which are pipes, and ends the process.
fn run_agent(script: &Path) {
    let script = std::fs::read_to_string(script).expect("the script can be read");
    let script: Script = serde_json::from_str(&script).expect("the script is valid");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be created");
    let completed = runtime.block_on(async {
        let pipes = OpenOptions::new();
        let input = pipes.open_receiver("/dev/stdin").expect("standard input is a pipe");
        let output = pipes.open_sender("/dev/fd/3").expect("descriptor 3 is a pipe");
        serve(input, output, script, Record::default()).await
    });
    std::process::exit(if completed.is_ok_and(|completed| completed) { 0 } else { 1 });
}
