//! `acp-agent <script.json>`: plays a script as an agent on standard input and output, which are pipes.

use kit::acp::Record;
use std::process::ExitCode;
use tokio::net::unix::pipe::OpenOptions;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let path = std::env::args().nth(1).expect("usage: acp-agent <script.json>");
    let script = std::fs::read_to_string(path).expect("the script can be read");
    let script = serde_json::from_str(&script).expect("the script can be understood");
    let pipes = OpenOptions::new();
    let input = pipes.open_receiver("/dev/stdin").expect("standard input is a pipe");
    let output = pipes.open_sender("/dev/stdout").expect("standard output is a pipe");
    match kit::acp::serve(input, output, script, Record::default()).await {
        Ok(true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
