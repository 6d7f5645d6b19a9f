//! A worker and its plane are killed again and again while an agent works: the log holds what the agent did, once, in
//! order, and the agent did not notice.

use super::{kill_and_restart, read_log, register, seed};
use crate::command::recipe;
use kit::chaos::Chaos;
use kit::process::Process;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const STEPS: u64 = 2_000;
const PLANE_KILLS: u64 = 5;
const WORKER_KILLS: u32 = 12;
/// Between two kills of the worker; the agent has steps left after the last.
const MAX_STEPS_BETWEEN_KILLS: u64 = STEPS / (2 * WORKER_KILLS as u64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_holds_what_the_agent_did_whatever_is_killed() {
    let (seed, data, place) = (seed(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut recipe = recipe(&data);
    let plane = Process::start(&recipe).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    recipe.port = address.port();
    let (direct, network) = (plane.url.clone(), Chaos::start(address, seed.value.wrapping_add(20)).await);
    let token = register(&direct, "box").await;
    let script = place.path().join("long.jsonl");
    std::fs::write(&script, long_script()).unwrap();
    let start = || worker(place.path(), "box", &script, &network.url, &token);

    let (progress, watched) = watch::channel(0u64);
    let killer = tokio::spawn(kill_and_restart(plane, recipe, watched, (PLANE_KILLS, STEPS), seed.value));
    let mut random = StdRng::seed_from_u64(seed.value.wrapping_add(21));
    let mut running = start();
    let (mut kills, mut next_kill) = (0, random.random_range(0..=MAX_STEPS_BETWEEN_KILLS));
    let finished = async {
        loop {
            let done = steps(&record(place.path()));
            let _ = progress.send(done.min(STEPS));
            if done >= STEPS {
                return;
            }
            if kills < WORKER_KILLS && done >= next_kill {
                running.kill().await.unwrap();
                kills += 1;
                running = start();
                next_kill = done + random.random_range(0..=MAX_STEPS_BETWEEN_KILLS);
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(240), finished).await.expect("the agent finishes");
    let plane = timeout(Duration::from_secs(60), killer).await.expect("the killer is done").unwrap();
    let told = timeout(Duration::from_secs(120), async {
        loop {
            let log = read_log(&direct, "box").await;
            if log.iter().any(|event| event["event_type"] == "agent.completed") {
                return log;
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    let log = told.await.expect("everything reaches the plane");
    running.kill().await.unwrap();
    drop(plane);

    assert_eq!(kills, WORKER_KILLS, "the worker was killed while the agent worked");
    let did = texts_of_record(&record(place.path()));
    let told: Vec<String> = log
        .iter()
        .filter(|event| event["event_type"] == "agent.message")
        .map(|event| event["event_data"]["content"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (0..STEPS).map(|n| format!("Step {n}.")).collect();
    assert_eq!(did, expected, "the agent did every step once");
    assert_eq!(told, did, "the log holds what the agent did, once, in order");
    let mut ids: Vec<&str> = log.iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "nothing is told twice");
}

fn long_script() -> String {
    let mut script = String::from("{\"script\":\"long\",\"description\":\"Many steps\",\"word_ms\":0}\n");
    let step = r#"{"type":"text","text":"Step ${i}."},{"play":"wait","ms":2}"#;
    writeln!(script, r#"{{"play":"repeat","times":{STEPS},"steps":[{step}]}}"#).unwrap();
    script
}

/// A worker with a script as its agent, and all that it has in one folder.
pub fn worker(place: &Path, sandbox: &str, script: &Path, plane: &str, token: &str) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(place.join("worker.log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .arg("worker")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", place)
        .env("SANDBOX_ID", sandbox)
        .env("SANDBOX_TOKEN", token)
        .env("CALLBACK_URL", plane)
        .env("STATE_DIR", place.join("state"))
        .env("CWD", place.join("workspace"))
        .env("AGENT", format!("scripted:{}", script.display()))
        .env("TASK_DESCRIPTION", "Go through all steps")
        .env("PREVIEW_ENABLED", "false")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// What the agent wrote down itself: the truth that the log is held against.
pub fn record(place: &Path) -> String {
    let projects = place.join("state/claude/projects");
    let files = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let records: Vec<PathBuf> = files(&projects).iter().flat_map(|folder| files(folder)).collect();
    assert!(records.len() <= 1, "one session, however often it dies: {records:?}");
    records.first().map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default()
}

/// What the agent has said, by its record.
pub fn texts_of_record(record: &str) -> Vec<String> {
    record
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| entry["type"] == "assistant")
        .flat_map(|entry| entry["message"]["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|block| Some(block["text"].as_str()?.to_owned()))
        .collect()
}

fn steps(record: &str) -> u64 {
    texts_of_record(record).len() as u64
}
