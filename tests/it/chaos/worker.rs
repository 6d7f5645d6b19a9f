//! A worker and its plane are killed repeatedly while an agent works. The log contains what the agent did, once and in
//! order, and the agent is not disturbed.

use super::{kill_and_restart, read_log, register, seed};
use crate::command::process_options;
use kit::chaos::ChaosProxy;
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
/// Maximum number of steps between two worker kills, so that the last kill comes before the last step.
const MAX_STEPS_BETWEEN_KILLS: u64 = STEPS / (2 * WORKER_KILLS as u64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_matches_the_agents_transcript_despite_kills() {
    let (seed, data, folder) = (seed(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut options = process_options(&data);
    let plane = Process::start(&options).await;
    let address: SocketAddr = plane.url.trim_start_matches("http://").parse().unwrap();
    options.port = address.port();
    let (direct, network) =
        (plane.url.clone(), ChaosProxy::start(address, seed.value.wrapping_add(20)).await);
    let token = register(&direct, "box").await;
    let script = folder.path().join("long.jsonl");
    std::fs::write(&script, long_script()).unwrap();
    let start = || worker(folder.path(), "box", &script, &network.url, &token);

    let (progress, watched) = watch::channel(0u64);
    let killer = tokio::spawn(kill_and_restart(plane, options, watched, (PLANE_KILLS, STEPS), seed.value));
    let mut random = StdRng::seed_from_u64(seed.value.wrapping_add(21));
    let mut running = start();
    let (mut kills, mut next_kill) = (0, random.random_range(0..=MAX_STEPS_BETWEEN_KILLS));
    let finished = async {
        loop {
            let done = steps(&transcript(folder.path()));
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
    let plane = timeout(Duration::from_secs(60), killer).await.expect("the killer finishes").unwrap();
    let completed_log = timeout(Duration::from_secs(120), async {
        loop {
            let log = read_log(&direct, "box").await;
            if log.iter().any(|event| event["event_type"] == "agent.completed") {
                return log;
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    let log = completed_log.await.expect("all events reach the plane");
    running.kill().await.unwrap();
    drop(plane);

    assert_eq!(kills, WORKER_KILLS, "the worker was killed while the agent worked");
    let performed = transcript_texts(&transcript(folder.path()));
    let logged: Vec<String> = log
        .iter()
        .filter(|event| event["event_type"] == "agent.message")
        .map(|event| event["event_data"]["content"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (0..STEPS).map(|n| format!("Step {n}.")).collect();
    assert_eq!(performed, expected, "the agent did every step once");
    assert_eq!(logged, performed, "the log contains each step once, in order");
    let mut ids: Vec<&str> = log.iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let total = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), total, "no event is duplicated");
}

fn long_script() -> String {
    let mut script = String::from("{\"script\":\"long\",\"description\":\"Many steps\",\"word_ms\":0}\n");
    let step = r#"{"type":"text","text":"Step ${i}."},{"play":"wait","ms":2}"#;
    writeln!(script, r#"{{"play":"repeat","times":{STEPS},"steps":[{step}]}}"#).unwrap();
    script
}

/// Starts a worker with a scripted agent, with its home, state and workspace in one folder.
pub fn worker(folder: &Path, sandbox: &str, script: &Path, plane: &str, token: &str) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("worker.log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .arg("worker")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("SANDBOX_ID", sandbox)
        .env("SANDBOX_TOKEN", token)
        .env("CALLBACK_URL", plane)
        .env("STATE_DIR", folder.join("state"))
        .env("CWD", folder.join("workspace"))
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

/// The agent's own transcript, which the log must match.
pub fn transcript(folder: &Path) -> String {
    let projects = folder.join("state/claude/projects");
    let files = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let transcripts: Vec<PathBuf> = files(&projects).iter().flat_map(|project| files(project)).collect();
    assert!(transcripts.len() <= 1, "one session despite restarts: {transcripts:?}");
    transcripts.first().map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default()
}

/// Texts of the assistant in a transcript.
pub fn transcript_texts(transcript: &str) -> Vec<String> {
    transcript
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| entry["type"] == "assistant")
        .flat_map(|entry| entry["message"]["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|block| Some(block["text"].as_str()?.to_owned()))
        .collect()
}

fn steps(transcript: &str) -> u64 {
    transcript_texts(transcript).len() as u64
}
