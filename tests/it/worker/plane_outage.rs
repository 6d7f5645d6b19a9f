//! An outage of the plane does not disturb the agent.

use super::{DEADLINE, POLL_INTERVAL};
use crate::chaos::worker::{transcript, transcript_texts, worker};
use crate::chaos::{read_log, register};
use crate::command::process_options;
use contract::payloads::AgentMessage;
use kit::process::Process;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const STEPS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_keeps_working_while_the_plane_is_unresponsive() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut options = process_options(&data);
    let plane = Process::start(&options).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    options.port = address.port();
    let url = plane.url.clone();
    let token = register(&url, "s-outage").await;
    plane.kill().await;

    // Accepts connections and never responds.
    let listener = TcpListener::bind(address).await.unwrap();
    let (accepted, mut connection_count) = watch::channel(0_usize);
    let unresponsive = tokio::spawn(async move {
        let mut connections = Vec::new();
        loop {
            connections.push(listener.accept().await.unwrap());
            accepted.send_replace(connections.len());
        }
    });
    let mut running = start(folder.path(), "s-outage", &url, &token);
    // Requests of the worker time out after 15 s. If steps waited for them, fewer than ten would finish in time.
    let done = async {
        while transcript_texts(&transcript(folder.path())).len() < STEPS {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(DEADLINE, done).await.expect("the agent finishes without any response from the plane");
    let connected = timeout(DEADLINE, connection_count.wait_for(|count| *count > 0)).await;
    connected.expect("the worker connects to the plane").unwrap();

    unresponsive.abort();
    let _ = unresponsive.await;
    let _plane = Process::start(&options).await;
    let completed_log = async {
        loop {
            let log = read_log(&url, "s-outage").await;
            if log.iter().any(|event| event["event_type"] == "agent.completed") {
                return log;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let log = timeout(DEADLINE, completed_log).await.expect("all events reach the plane once it is back");
    running.kill().await.unwrap();
    let logged: Vec<String> =
        super::data_of(&log).into_iter().map(|message: AgentMessage| message.content).collect();
    assert_eq!(logged, transcript_texts(&transcript(folder.path())), "each step once, in order");
    assert_eq!(logged.len(), STEPS);
}

fn start(folder: &Path, sandbox: &str, plane: &str, token: &str) -> tokio::process::Child {
    let step = [super::text("Step ${i}."), json!({"play": "wait", "ms": 2})];
    let script = folder.join("script.jsonl");
    std::fs::write(&script, json!({"play": "repeat", "times": STEPS, "steps": step}).to_string()).unwrap();
    worker(folder, sandbox, &script, plane, token)
}
