//! A simulated worker: the event batches that it sends, in order or not.

use super::simulation::{ApiProcess, pause};
use bytes::Bytes;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The batches that a worker sends.
#[derive(Debug)]
pub struct Script {
    batches: Vec<Value>,
    sends_twice: bool,
    /// Polls between two batches.
    batch_delay: u32,
}

impl Script {
    pub fn random(random: &mut StdRng) -> Self {
        let event = |name: &str, data: Value| json!({"event_type": name, "event_data": data});
        let heartbeat = |status: &str| event("agent.heartbeat", json!({"status": status}));
        let done = || event("agent.completed", json!({"success": true, "turns": 3}));
        let failed = |error: &str| event("agent.failed", json!({"error": error}));
        let mut batches =
            vec![vec![heartbeat("starting")], vec![event("agent.started", json!({})), heartbeat("working")]];
        for _ in 0..random.random_range(0..3) {
            batches.push(vec![event("agent.tool_use", json!({"tool": "Bash"})), heartbeat("working")]);
        }
        let shutdown = event("agent.shutdown", json!({}));
        match random.random_range(0..20) {
            0..9 => batches.extend([vec![done()], vec![shutdown]]),
            9..11 => batches.push(vec![failed("connection reset by peer")]),
            11..12 => batches.extend([vec![failed("permission denied")], vec![shutdown]]),
            // Both outcomes, in one batch and in several.
            12..13 => batches.push(vec![done(), failed("connection reset by peer")]),
            13..14 => batches.extend([vec![failed("rate limit exceeded")], vec![done()], vec![done()]]),
            // Idle, then working without progress.
            14..15 => batches.extend((0..12).map(|_| vec![heartbeat("waiting")])),
            15..16 => batches.extend((0..12).map(|_| vec![heartbeat("working")])),
            // Crashes at any point.
            _ => {
                let kept = random.random_range(0..=batches.len());
                batches.truncate(kept);
            }
        }
        let numbered =
            (1..).zip(batches).map(|(batch, events)| json!({"epoch": 1, "batch": batch, "events": events}));
        let (sends_twice, batch_delay) = (random.random_range(0..5) == 0, random.random_range(1..12));
        Self { batches: numbered.collect(), sends_twice, batch_delay }
    }
}

/// Sends all batches; retries each one on server errors.
pub async fn run(api: ApiProcess, variables: BTreeMap<String, String>, script: Script) {
    let path = format!("/api/v1/sandboxes/{}/events", variables["SANDBOX_ID"]);
    for batch in &script.batches {
        for _ in 0..=u32::from(script.sends_twice) {
            for _ in 0..20 {
                let request = http::Request::post(&path)
                    .header("authorization", format!("Bearer {}", variables["SANDBOX_TOKEN"]))
                    .body(Bytes::from(batch.to_string()))
                    .unwrap();
                let answer = edge::http::dispatch(&api.plane(), request).await;
                if answer.status().is_server_error() {
                    pause(3).await;
                    continue;
                }
                break;
            }
        }
        pause(script.batch_delay).await;
    }
}
