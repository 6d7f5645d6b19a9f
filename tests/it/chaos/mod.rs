//! A network that drops, delays, doubles and reorders, and a plane that is killed again and again.

mod events;
mod messages;
pub mod worker;

use crate::support::OPERATOR;
use kit::process::{Process, Recipe};
use kit::seed::Seed;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;

/// The seed of a test here, unless `SUNABA_SEED` has another. What the test decides by chance comes from it; when each
/// process does what does not.
fn seed() -> Seed {
    Seed::or(0x5_0a_ba)
}

/// Kills the plane at a random moment after each of `kills` parts of the way, while requests are being answered.
async fn kill_and_restart(
    mut plane: Process,
    recipe: Recipe,
    mut progress: watch::Receiver<u64>,
    (kills, whole): (u64, u64),
    seed: u64,
) -> Process {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(3));
    for kill in 1..=kills {
        let part = whole * kill / (kills + 1);
        progress.wait_for(|sent| *sent >= part).await.expect("the sender is at work");
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
        plane.kill().await;
        plane = Process::start(&recipe).await;
    }
    plane
}

/// The token of the worker of a new sandbox.
pub async fn register(url: &str, id: &str) -> String {
    let request = reqwest::Client::new().post(format!("{url}/api/v1/sandboxes")).bearer_auth(OPERATOR);
    let answer: Value = request.json(&json!({"sandbox_id": id})).send().await.unwrap().json().await.unwrap();
    text(&answer["worker_token"])
}

pub async fn read_log(url: &str, id: &str) -> Vec<Value> {
    let (mut log, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("{url}/api/v1/sandboxes/{id}/events?after_seq={after}&limit=500");
        let request = reqwest::Client::new().get(path).bearer_auth(OPERATOR);
        let page: Value = request.send().await.unwrap().json().await.unwrap();
        log.extend(page["events"].as_array().unwrap().clone());
        after = page["next_after_seq"].as_u64().unwrap();
        if page["has_more"] == false {
            return log;
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
