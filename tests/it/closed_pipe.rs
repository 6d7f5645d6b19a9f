//! Commands whose standard output is closed: `sunaba tasks | head -1`.

use crate::support::{OPERATOR, TestPlane};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The exit code with which shells report SIGPIPE.
const CLOSED_PIPE: i32 = 141;

fn start(arguments: &[&str], variables: &[(&str, &str)], stdout: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a command whose standard output is closed, and returns its exit status and standard error.
fn run_with_closed_stdout(arguments: &[&str], variables: &[(&str, &str)]) -> (ExitStatus, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = start(arguments, variables, writer.into()).wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn assert_silent_exit(arguments: &[&str], status: ExitStatus, stderr: &str) {
    assert_eq!((status.code(), status.signal()), (Some(CLOSED_PIPE), None), "{arguments:?}: {stderr}");
    assert_eq!(stderr, "", "{arguments:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_end_silently_when_standard_output_is_closed() {
    let plane = TestPlane::start().await;
    plane.register("s-1", "acme").await;
    let address = [("SUNABA_URL", plane.url.as_str()), ("SUNABA_TOKEN", OPERATOR)];
    for arguments in [
        &["tasks"][..],
        &["ticket", "Say hello"],
        &["send", "s-1", "hello", "--id", "m-1"],
        &["messages", "s-1"],
        &["resend", "s-1", "m-1"],
        &["cancel-message", "s-1", "m-1"],
    ] {
        let (status, stderr) = run_with_closed_stdout(arguments, &address);
        assert_silent_exit(arguments, status, &stderr);
    }
    let (status, stderr) = run_with_closed_stdout(&["worker", "check"], &[]);
    assert_silent_exit(&["worker", "check"], status, &stderr);
}

/// The reader exits after the first line, as `head -1` does, so the next receipt is written to a closed pipe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_ends_silently_when_its_reader_closes_the_pipe() {
    let plane = TestPlane::start().await;
    let worker = plane.register("s-1", "acme").await;
    let arguments = ["send", "s-1", "hello", "--id", "m-1", "--watch"];
    let address = [("SUNABA_URL", plane.url.as_str()), ("SUNABA_TOKEN", OPERATOR)];
    let mut child = start(&arguments, &address, Stdio::piped());
    let stdout = child.stdout.take().unwrap();
    let first = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        line
    });
    assert!(first.await.unwrap().starts_with("queued"));
    plane.get("/api/v1/sandboxes/s-1/messages?ack=manual&wait=20", &worker).await.ok();
    let receipt = json!({"receipts": [{"message_id": "m-1", "state": "delivered"}]});
    plane.post("/api/v1/sandboxes/s-1/messages/ack", &worker, receipt).await.ok();
    let ended = tokio::task::spawn_blocking(move || {
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (child.wait().unwrap(), stderr)
    });
    let (status, stderr) = ended.await.unwrap();
    assert_silent_exit(&arguments, status, &stderr);
}

/// The startup message is one write, so a reader that exits after the first line does not stop the plane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plane_survives_a_reader_of_the_first_line() {
    let data = tempfile::TempDir::new().unwrap();
    let folder = data.path().display().to_string();
    let arguments = ["dev", "--port", "0", "--data", &folder];
    let mut child = start(&arguments, &[("SUNABA_TOKEN", OPERATOR)], Stdio::piped());
    let stdout = child.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().and_then(|link| link.split("/#").next()).unwrap();
    let health = reqwest::get(format!("{url}/api/v1/sandboxes/health")).await.unwrap();
    assert_eq!(health.status(), 200);
    assert!(child.try_wait().unwrap().is_none(), "the plane is still running");
    child.kill().unwrap();
    child.wait().unwrap();
}
