//! A network that drops, delays, duplicates and reorders requests, and a plane that is killed repeatedly.

mod events;
mod messages;
mod queues;
pub mod worker;

use crate::support::OPERATOR;
use kit::process::{Process, ProcessOptions};
use kit::seed::Seed;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;

/// Default seed, unless `SUNABA_SEED` is set. It determines the random choices of a test, but not the timing of
/// processes.
fn seed() -> Seed {
    Seed::or(0x5_0a_ba)
}

/// Kills and restarts the plane `kills` times, at random moments spread over `total` steps of progress.
async fn kill_and_restart(
    mut plane: Process,
    options: ProcessOptions,
    mut progress: watch::Receiver<u64>,
    (kills, total): (u64, u64),
    seed: u64,
) -> Process {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(3));
    for kill in 1..=kills {
        let threshold = total * kill / (kills + 1);
        progress.wait_for(|sent| *sent >= threshold).await.expect("the sender is running");
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
        plane.kill().await;
        plane = Process::start(&options).await;
    }
    plane
}

/// Registers a sandbox and returns its worker token.
pub async fn register(url: &str, id: &str) -> String {
    let request = reqwest::Client::new().post(format!("{url}/api/v1/sandboxes")).bearer_auth(OPERATOR);
    let response: Value =
        request.json(&json!({"sandbox_id": id})).send().await.unwrap().json().await.unwrap();
    text(&response["worker_token"])
}

/// All events of a sandbox, whose log is verified.
pub async fn read_log(url: &str, id: &str) -> Vec<Value> {
    let (mut log, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("{url}/api/v1/sandboxes/{id}/events?after_seq={after}&limit=500");
        let request = reqwest::Client::new().get(path).bearer_auth(OPERATOR);
        let page: Value = request.send().await.unwrap().json().await.unwrap();
        log.extend(page["events"].as_array().unwrap().clone());
        after = page["next_after_seq"].as_u64().unwrap();
        if page["has_more"] == false {
            verify_log(url, id).await;
            return log;
        }
    }
}

/// Checks that the running hash of the log continues from the first event to the last, whichever process wrote them.
async fn verify_log(url: &str, id: &str) {
    let mut after = 0;
    loop {
        let path = format!("{url}/api/v1/sandboxes/{id}/verification?after_seq={after}");
        let request = reqwest::Client::new().get(path).bearer_auth(OPERATOR);
        let verified: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (&verified["problem"], &verified["unhashed_events"]),
            (&Value::Null, &json!(0)),
            "{verified}"
        );
        if verified["has_more"] == false {
            return;
        }
        after = verified["verified_seq"].as_u64().unwrap();
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
