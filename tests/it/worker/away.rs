//! A plane that is away is nothing that an agent notices.

use super::{LOOK, SOON};
use crate::chaos::worker::{record, texts_of_record, worker};
use crate::chaos::{read_log, register};
use crate::command::recipe;
use kit::process::Process;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

const STEPS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_works_on_while_its_plane_never_answers() {
    let (data, near, away) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut recipe = recipe(&data);
    let plane = Process::start(&recipe).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    recipe.port = address.port();
    let (url, mut took) = (plane.url.clone(), Vec::new());
    let tokens = [register(&url, "near").await, register(&url, "away").await];

    let mut running = start(near.path(), "near", &url, &tokens[0]);
    took.push(finished(near.path()).await);
    running.kill().await.unwrap();
    plane.kill().await;

    // Whoever comes is let in, and never answered.
    let silence = TcpListener::bind(address).await.unwrap();
    let silent = tokio::spawn(async move {
        let mut visitors = Vec::new();
        loop {
            visitors.push(silence.accept().await.unwrap());
        }
    });
    let mut running = start(away.path(), "away", &url, &tokens[1]);
    took.push(finished(away.path()).await);
    println!("{STEPS} steps took {:?} with a plane, and {:?} without", took[0], took[1]);
    let most = took[0] * 3 + Duration::from_secs(2);
    assert!(took[1] <= most, "{:?} with a plane, and {:?} without", took[0], took[1]);

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
    assert_eq!(told, texts_of_record(&record(away.path())), "in order, and once");
    assert_eq!(told.len(), STEPS);
}

fn start(place: &Path, sandbox: &str, plane: &str, token: &str) -> tokio::process::Child {
    let step = [super::text("Step ${i}."), json!({"play": "wait", "ms": 2})];
    let script = place.join("script.jsonl");
    std::fs::write(&script, json!({"play": "repeat", "times": STEPS, "steps": step}).to_string()).unwrap();
    worker(place, sandbox, &script, plane, token)
}

/// How long the agent took, by its own record.
async fn finished(place: &Path) -> Duration {
    let begun = Instant::now();
    let done = async {
        while texts_of_record(&record(place)).len() < STEPS {
            sleep(LOOK).await;
        }
    };
    timeout(SOON, done).await.expect("the agent finishes");
    begun.elapsed()
}
