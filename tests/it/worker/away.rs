//! A plane that is away is nothing that an agent notices.

use super::{LOOK, SOON};
use crate::chaos::worker::{record, texts_of_record, worker};
use crate::chaos::{read_log, register};
use crate::command::recipe;
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
async fn an_agent_works_on_while_its_plane_never_answers() {
    let (data, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut recipe = recipe(&data);
    let plane = Process::start(&recipe).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    recipe.port = address.port();
    let url = plane.url.clone();
    let token = register(&url, "away").await;
    plane.kill().await;

    // Connections are accepted and requests never answered.
    let silence = TcpListener::bind(address).await.unwrap();
    let (accepted, mut visits) = watch::channel(0_usize);
    let silent = tokio::spawn(async move {
        let mut connections = Vec::new();
        loop {
            connections.push(silence.accept().await.unwrap());
            accepted.send_replace(connections.len());
        }
    });
    let mut running = start(place.path(), "away", &url, &token);
    // The worker gives a request 15 s. If a step waited for one, not even ten would be done within the deadline.
    let done = async {
        while texts_of_record(&record(place.path())).len() < STEPS {
            sleep(LOOK).await;
        }
    };
    timeout(SOON, done).await.expect("the agent finishes, although no request was ever answered");
    let asked = timeout(SOON, visits.wait_for(|visits| *visits > 0)).await;
    asked.expect("the worker asks the plane").unwrap();

    silent.abort();
    let _ = silent.await;
    let _plane = Process::start(&recipe).await;
    let told = async {
        loop {
            let log = read_log(&url, "away").await;
            if log.iter().any(|event| event["event_type"] == "agent.completed") {
                return log;
            }
            sleep(LOOK).await;
        }
    };
    let log = timeout(SOON, told).await.expect("everything reaches the plane when it is back");
    running.kill().await.unwrap();
    let told: Vec<String> = super::of(&log, "agent.message")
        .iter()
        .map(|data| data["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, texts_of_record(&record(place.path())), "in order, and once");
    assert_eq!(told.len(), STEPS);
}

fn start(place: &Path, sandbox: &str, plane: &str, token: &str) -> tokio::process::Child {
    let step = [super::text("Step ${i}."), json!({"play": "wait", "ms": 2})];
    let script = place.join("script.jsonl");
    std::fs::write(&script, json!({"play": "repeat", "times": STEPS, "steps": step}).to_string()).unwrap();
    worker(place, sandbox, &script, plane, token)
}
